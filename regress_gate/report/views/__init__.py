"""Views: from the plain result of a command to what a person reads. One module a command."""
