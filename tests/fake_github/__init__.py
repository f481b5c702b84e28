"""A fake GitHub on loopback: one server for the tests that read threads and for those that publish."""
