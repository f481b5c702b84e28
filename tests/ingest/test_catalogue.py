"""The page on importing says what the code says."""

from pathlib import Path

from regress_gate.ingest.registry import BEGIN, END, READERS, catalogue

PAGE = Path(__file__).parents[2] / "docs" / "importing.md"


def test_the_table_of_formats_is_that_of_the_code():
    page = PAGE.read_text(encoding="utf-8")
    table = page[page.index(BEGIN) : page.index(END) + len(END) + 1]
    assert table == catalogue(), "run python -m regress_gate.ingest.registry and put what it prints into the page"


def test_every_reader_lists_its_generations():
    assert all(reader.generations for reader in READERS)
    names = [reader.name for reader in READERS]
    assert len(names) == len(set(names))
