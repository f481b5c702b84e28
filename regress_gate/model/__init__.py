"""The vocabulary: small frozen types, and strict parsing and validation of text that people write. Opens no file."""
