"""The tracker: what GitHub says about the threads and fixes of known issues."""
