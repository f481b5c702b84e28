"""The command line: parse, call, print, exit. Nothing is computed here."""
