"""The vocabulary: small frozen types, and the parsing and validation of what people write. Touches no file."""
