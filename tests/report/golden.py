"""What a format prints, as a file to be read in a review. `pytest --snapshot-update` writes them anew."""

from syrupy.assertion import SnapshotAssertion
from syrupy.extensions.single_file import SingleFileSnapshotExtension, WriteMode


def golden(snapshot: SnapshotAssertion, extension: str) -> SnapshotAssertion:
    attributes = {"_write_mode": WriteMode.TEXT, "file_extension": extension}
    return snapshot.use_extension(type("Golden", (SingleFileSnapshotExtension,), attributes))
