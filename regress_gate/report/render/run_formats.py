"""What a format of stored runs is: all runs as one content, or as files of a folder. The formats are in
`output_formats`."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from regress_gate.model.run import Run
from regress_gate.text import slugify

Content = str | bytes


@dataclass(frozen=True, slots=True)
class RunFormat:
    content: Callable[[Sequence[Run]], Content]
    """All runs, for standard output."""
    named_contents: Callable[[Sequence[Run]], Iterator[tuple[str, Content]]]
    """Names and contents of the files for a folder; names may occur twice."""
    is_binary: bool = False

    def files(self, runs: Sequence[Run]) -> Iterator[tuple[str, Content]]:
        """File names, all different, and their contents."""
        taken: dict[str, int] = {}
        for name, content in self.named_contents(runs):
            taken[name] = taken.get(name, 0) + 1
            stem, dot, ending = name.rpartition(".")
            yield name if taken[name] == 1 else f"{stem}-{taken[name]}{dot}{ending}", content


def table_format(ending: str, content: Callable[[Iterable[Run]], Content], *, is_binary: bool = False) -> RunFormat:
    """A format whose files hold all runs of one version, testbed and suite."""

    def tables(runs: Sequence[Run]) -> Iterator[tuple[str, Content]]:
        for place, members in groupby(sorted(runs, key=place_name), key=place_name):
            yield f"{place}.{ending}", content(members)

    return RunFormat(content, tables, is_binary)


def place_name(run: Run) -> str:
    """Version, testbed and suite as a part of a file name."""
    return "-".join(map(slugify, (str(run.version), run.testbed.name, str(run.suite))))
