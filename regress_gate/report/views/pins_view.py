"""The view of `ci versions`: which pin moved, and what is pinned now."""

from typing import TYPE_CHECKING, Any

from regress_gate.report.document import (
    Block,
    Cell,
    Code,
    Column,
    Detail,
    Document,
    Paragraph,
    Row,
    Style,
    Styled,
    Table,
    View,
)

if TYPE_CHECKING:
    from regress_gate.pins.moves import Move, PinReport, VersionMove
    from regress_gate.pins.pin import Pin


class PinsView(View):
    def __init__(self, report: "PinReport"):
        self._report = report

    def document(self, detail: Detail) -> Document:  # noqa: ARG002 - there is nothing to leave out
        move = self._report.move
        blocks: list[Block] = []
        if move is None:
            title = "What is pinned"
            blocks += [self._pins()] if self._report.pins else [Paragraph("no file pins a version of vLLM")]
        else:
            title = _title(move)
            blocks.append(Paragraph(_first_upper(move.why)))
            if move.moves:
                blocks.append(_moves_table(move.moves))
        blocks += [Paragraph(Styled(f"note: {note}", Style.MUTED)) for note in self._report.notes]
        return Document(title, tuple(blocks))

    def _pins(self) -> Table:
        columns = (Column("place"), Column("kind"), Column("version"), Column("pin"), Column("why no version"))
        rows = [
            Row((pin.where, pin.kind, str(pin.version or "unknown"), Code(pin.pinned.text), pin.pinned.why))
            for pin in self._report.pins
        ]
        return Table.of(columns, tuple(rows), is_wrapped=False)

    def data(self) -> Any:
        report, move = self._report, self._report.move
        pins = {"pins": [_pin_data(pin) for pin in report.pins], "notes": list(report.notes)}
        if move is None:
            return {"schema_version": "1", **pins}
        return {
            "schema_version": "1",
            "outcome": move.outcome.value,
            "baseline": None if move.baseline is None else str(move.baseline),
            "candidate": None if move.candidate is None else str(move.candidate),
            "why": move.why,
            "base": report.base,
            "head": report.head,
            "moved": [_move_data(one) for one in move.moves],
            **pins,
        }


def _title(move: "VersionMove") -> str:
    if move.candidate is not None:
        return (
            f"vLLM moves to {move.candidate}" if move.baseline is None else f"vLLM {move.baseline} → {move.candidate}"
        )
    return {"unchanged": "vLLM stays as it is", "ambiguous": "Several vLLM versions move"}.get(
        move.outcome, "vLLM moves to an unknown version"
    )


def _first_upper(text: str) -> str:
    """For a sentence that does not begin with the name of a file."""
    return text[:1].upper() + text[1:] if text.partition(" ")[0].isalpha() else text


def _moves_table(moves: "tuple[Move, ...] | list[Move] | Any") -> Table:
    columns = (Column("place"), Column("kind"), Column("change"), Column("from"), Column("to"), Column("remark"))
    rows = [
        Row(
            (
                one.pin.where,
                one.pin.kind,
                one.change.value,
                _version_cell(one.before),
                _version_cell(one.after),
                f"{one.decided_by} decides" if one.decided_by else one.doubt,
            )
        )
        for one in moves
    ]
    return Table.of(columns, tuple(rows), is_wrapped=False)


def _version_cell(pin: "Pin | None") -> Cell | str:
    if pin is None:
        return "–"
    return str(pin.version) if pin.version is not None else f"{pin.pinned.spec.strip() or 'any'} (unknown)"


def _pin_data(pin: "Pin") -> dict[str, Any]:
    return {
        "file": pin.file,
        "line": pin.line,
        "kind": pin.kind,
        "name": pin.pinned.name,
        "text": pin.pinned.text,
        "version": None if pin.version is None else str(pin.version),
        "why": pin.pinned.why,
    }


def _move_data(move: "Move") -> dict[str, Any]:
    return {
        "change": move.change.value,
        "from": None if move.source is None else str(move.source),
        "to": None if move.target is None else str(move.target),
        "from_text": None if move.before is None else move.before.pinned.text,
        "to_text": None if move.after is None else move.after.pinned.text,
        "file": move.pin.file,
        "line": move.pin.line,
        "kind": move.pin.kind,
        "text": move.pin.pinned.text,
        "why": move.why,
        "decided_by": move.decided_by or None,
    }
