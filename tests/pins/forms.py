"""How public repositories pin vLLM: the small files of forms.txt, one for each form.

A file begins behind a line `@@ name @@ path @@ where it was seen`; `§` stands for the version, on the line that
counts. The files are our own.
"""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Form:
    name: str
    path: str
    text: str
    seen: str = ""
    """A public repository with this form."""

    def filled(self, version: str) -> str:
        return self.text.replace("§", version)

    @property
    def lines(self) -> list[int]:
        return [number for number, line in enumerate(self.text.split("\n"), 1) if "§" in line]


def _read() -> list[Form]:
    forms = []
    for part in ("\n" + Path(__file__).with_name("forms.txt").read_text(encoding="utf-8")).split("\n@@ ")[1:]:
        header, _, text = part.partition("\n")
        name, path, *seen = header.split(" @@ ")
        forms.append(Form(name, path, text + "\n", *seen))
    return forms


FORMS = _read()
