"""One module a format: each recognises its files and reads them. Not for identity, and not for storing."""
