"""What moved between two states of a repository: pins before and after are paired, and the pairs say one move, none, or
several that contradict each other.
"""

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from regress_gate.model.version import Version
from regress_gate.pins.git_tree import Tree
from regress_gate.pins.pin import Pin
from regress_gate.pins.pin_files import lock_beside
from regress_gate.text import plural


class Change(StrEnum):
    MOVED = "moved"
    ADDED = "added"
    REMOVED = "removed"


class Outcome(StrEnum):
    MOVED = "moved"
    """To one known version."""
    UNCHANGED = "unchanged"
    UNKNOWN = "unknown"
    """A pin moved, and names no version now."""
    AMBIGUOUS = "ambiguous"
    """Pins moved from or to different versions."""


@dataclass(frozen=True, slots=True)
class Move:
    before: Pin | None
    after: Pin | None
    decided_by: str = ""
    """The lock file that says which version of a range is installed, so that this pin does not count."""

    @property
    def change(self) -> Change:
        if self.before is None:
            return Change.ADDED
        return Change.REMOVED if self.after is None else Change.MOVED

    @property
    def pin(self) -> Pin:
        """The place to show: that of the new pin, if there is one."""
        pin = self.after or self.before
        assert pin is not None  # noqa: S101 - one of both
        return pin

    @property
    def source(self) -> Version | None:
        return None if self.before is None else self.before.version

    @property
    def target(self) -> Version | None:
        return None if self.after is None or self.doubt else self.after.version

    @property
    def why(self) -> str:
        """Why there is no target."""
        return self.doubt or self.pin.pinned.why

    @property
    def doubt(self) -> str:
        """Why the tag of an image cannot be trusted: its digest decides what runs, and only one of both moved."""
        if self.before is None or self.after is None or self.before.pinned.name != self.after.pinned.name:
            return ""
        (old_tag, _, old_digest), (tag, _, digest) = (
            pin.pinned.spec.partition("@") for pin in (self.before, self.after)
        )
        if not (old_tag and tag and old_digest.startswith("sha256:") and digest.startswith("sha256:")):
            return ""
        if old_tag == tag and old_digest != digest:
            return "its digest moved and its tag did not: what runs is another image"
        if old_tag != tag and old_digest == digest:
            return "its tag moved and its digest did not: what runs is the same image"
        return ""


@dataclass(frozen=True, slots=True)
class VersionMove:
    """The answer: from which version to which the repository moves."""

    outcome: Outcome
    baseline: Version | None = None
    candidate: Version | None = None
    why: str = ""
    moves: Sequence[Move] = field(default_factory=tuple)


@dataclass(frozen=True, slots=True)
class PinReport:
    move: VersionMove | None
    """None where only what is pinned was asked for."""
    pins: Sequence[Pin]
    """What is pinned now, in the files that were looked at."""
    notes: Sequence[str]
    base: str | None = None
    """The commit that was compared with; None: none, or the time before the first commit."""
    head: str | None = None
    """None: the working tree."""


def find_moves(before: Sequence[Pin], after: Sequence[Pin], base: Tree, head: Tree) -> list[Move]:
    """The pins that are not the same in both, in the order of their places."""
    pairs = _pairs(before, after)
    moves = [move for move in (Move(old, new) for old, new in pairs) if not _is_same(move)]
    decided = [replace(move, decided_by=_decider(move, base, head)) for move in moves]
    return sorted(decided, key=lambda move: (move.pin.file, move.pin.line))


def judge_moves(moves: Sequence[Move]) -> VersionMove:
    """Which one version move they are. A pin that a lock file decides over does not count."""
    counted = [move for move in moves if not move.decided_by]
    if not counted:
        reason = f"only a range moved, and {moves[0].decided_by} has the version as it was" if moves else ""
        return VersionMove(Outcome.UNCHANGED, why=reason or "no vLLM version moved", moves=moves)
    known = [move for move in counted if move.target is not None]
    target = _common([move.target for move in known if move.target is not None])
    if known and target is None:
        return VersionMove(Outcome.AMBIGUOUS, why=f"pins moved to different versions: {_listed(known)}", moves=moves)
    unknown = [
        move
        for move in counted
        if move.change is Change.MOVED and move.target is None and not (target and move.pin.pinned.allows(target))
    ]
    if target is None:
        return _without_target(counted, unknown, moves)
    moved = [move for move in known if move.change is Change.MOVED]
    sources = [move.source for move in moved if move.source is not None]
    source = _common(sources)
    if sources and source is None:
        why = f"pins of different versions moved to {target}: {_listed(moved)}"
        return VersionMove(Outcome.AMBIGUOUS, why=why, moves=moves)
    place = (moved or known)[0]
    more = f" and {plural(len(known) - 1, 'other place')}" if len(known) > 1 else ""
    if source is not None:
        why = f"{place.pin.where}{more} moved from {source} to {target}"
    elif moved:
        why = f"{place.pin.where}{more} moved to {target}; before, {place.before.pinned.why if place.before else ''}"
    else:
        why = f"{place.pin.where}{more} pins {target} for the first time"
    if unknown:
        one = unknown[0]
        why += f"; {one.pin.where} moved too, and names no version ({one.why})"
    return VersionMove(Outcome.MOVED, source, target, why, moves)


def _without_target(counted: list[Move], unknown: list[Move], moves: Sequence[Move]) -> VersionMove:
    if unknown:
        one = unknown[0]
        before = str(one.source or (one.before and one.before.pinned.text))
        now = f"{one.pin.pinned.text}, an unknown version: {one.why}"
        why = f"{one.pin.where} moved from {before} to {now}"
        return VersionMove(Outcome.UNKNOWN, _common([one.source for one in unknown if one.source]), None, why, moves)
    removed = [move for move in counted if move.change is Change.REMOVED]
    one = (removed or counted)[0]
    was = "is no longer pinned" if removed else f"is new and names no version ({one.why})"
    return VersionMove(
        Outcome.UNCHANGED, why=f"no vLLM version moved; {one.pin.pinned.text} ({one.pin.where}) {was}", moves=moves
    )


def _listed(moves: Sequence[Move]) -> str:
    shown = [f"{move.pin.where} {move.source or 'no version'} → {move.target}" for move in moves]
    return ", ".join(shown[:6]) + (f" and {len(shown) - 6} more" if len(shown) > 6 else "")


def _common(versions: Sequence[Version]) -> Version | None:
    """The one version that all of them can mean; None if there is none. A variant that only some name is left open."""
    first: Version | None = None
    for version in versions:
        if first is None:
            first = version
        elif not _same_build(first, version):
            return None
        else:
            variant = first.variant if first.variant == version.variant else None
            first = replace(first, variant=variant, commit=first.commit or version.commit)
    return first


def _same_build(one: Version, other: Version) -> bool:
    if one.number is not None and other.number is not None:
        same = one.number == other.number or (one.order_key is not None and one.order_key == other.order_key)
        commits = one.commit is None or other.commit is None or one.commit.startswith(other.commit[:7])
        return same and commits
    if one.commit is None or other.commit is None:
        return False
    return one.commit.startswith(other.commit) or other.commit.startswith(one.commit)


def _is_same(move: Move) -> bool:
    before, after = move.before, move.after
    if before is None or after is None or move.doubt:
        return False
    if before.version is not None and after.version is not None:
        return _same_build(before.version, after.version)
    if before.version is not None or after.version is not None:
        return False
    return (before.pinned.name, before.pinned.spec) == (after.pinned.name, after.pinned.spec)


def _decider(move: Move, base: Tree, head: Tree) -> str:
    """The lock file that decides over a moved range; the lock's own pins move by themselves."""
    if move.after is not None and move.after.version is None:
        locked = lock_beside(head, move.after)
        return locked[0].file if locked else ""
    if move.after is None and move.before is not None and move.before.version is None:
        locked = lock_beside(base, move.before)
        return locked[0].file if locked else ""
    if move.before is not None and move.before.version is None and move.after is not None:
        locked = lock_beside(head, move.after)
        return locked[0].file if locked else ""
    return ""


def _pairs(before: Sequence[Pin], after: Sequence[Pin]) -> list[tuple[Pin | None, Pin | None]]:
    """Which pin became which: the same place of the same file, then the same name in it, then the nearest elsewhere."""
    found: list[tuple[Pin | None, Pin | None]] = []
    old, new = sorted(before, key=_place), sorted(after, key=_place)
    keys: tuple[Callable[[Pin], Hashable], ...] = (
        lambda pin: (pin.file, pin.kind, pin.place, pin.pinned.name, pin.pinned.spec),
        lambda pin: (pin.file, pin.kind, pin.place),
        lambda pin: (pin.file, pin.pinned.name, pin.pinned.spec),
        lambda pin: (pin.file, pin.pinned.name),
        lambda pin: (pin.file, pin.kind),
        # A file that was renamed, or moved to another folder, as it was.
        lambda pin: (pin.kind, pin.place, pin.pinned.name, pin.pinned.spec),
        lambda pin: (pin.file.rpartition("/")[2], pin.kind, pin.place),
        lambda pin: (pin.kind, pin.place),
        lambda pin: str(pin.version or pin.pinned.text),
    )
    for key in keys:
        matched = _match(old, new, key)
        found += matched
        gone = {id(pin) for pair in matched for pin in pair}
        old, new = [pin for pin in old if id(pin) not in gone], [pin for pin in new if id(pin) not in gone]
    if old and new and _common_of(old) is not None and _common_of(new) is not None:
        # One version went and one came, in files of other kinds: it moved with its file.
        found += [(old[0], pin) for pin in new]
        return found
    return [*found, *((pin, None) for pin in old), *((None, pin) for pin in new)]


def _place(pin: Pin) -> tuple[str, int, str]:
    return pin.file, pin.line, pin.place


def _common_of(pins: Sequence[Pin]) -> Version | None:
    versions = [pin.version for pin in pins]
    return None if None in versions else _common([version for version in versions if version is not None])


def _match(
    old: Iterable[Pin], new: Iterable[Pin], key: Callable[[Pin], Hashable]
) -> list[tuple[Pin | None, Pin | None]]:
    """Pairs of equal keys, in the order of the files."""
    waiting: dict[Hashable, list[Pin]] = defaultdict(list)
    for pin in old:
        waiting[key(pin)].append(pin)
    pairs: list[tuple[Pin | None, Pin | None]] = []
    for pin in new:
        if candidates := waiting.get(key(pin)):
            pairs.append((candidates.pop(0), pin))
    return pairs
