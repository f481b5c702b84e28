"""What was seen of a thread or pull request: facts as small values, which are kept from one sync to the next."""

from typing import Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

from regress_gate.known.github_refs import reference

State = Literal["open", "closed", "merged", "gone"]
Reason = Literal["completed", "not_planned", "duplicate", "reopened", "stale", "unknown"]


class _Fact(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class PullRef(_Fact):
    """A merged pull request, as another thread's timeline shows it."""

    repo: str
    number: int
    merged: AwareDatetime

    @property
    def key(self) -> str:
        return reference(self.repo, self.number)


class Thread(_Fact):
    """An issue or pull request as last seen."""

    url: str
    """As it is now: it may have moved."""
    state: State
    reason: Reason | None = None
    labels: list[str] = Field(default_factory=list)
    duplicate_of: str | None = None
    """`owner/name#12`."""
    fixes: list[PullRef] = Field(default_factory=list)
    """Merged pull requests that closed it, oldest first."""
    closing_commit: str | None = None
    """The commit that closed it, where it was one."""
    complete: bool = True
    """False where the timeline was too long to be read, or could not be had."""
    seen: AwareDatetime


class Pull(_Fact):
    """A pull request that changes what a build holds."""

    repo: str
    number: int
    merged: AwareDatetime | None = None
    commit: str | None = None
    """What the merge made."""
    undone_by: list[PullRef] = Field(default_factory=list)
    """Merged pull requests that take it back, oldest first."""
    complete: bool = True
    seen: AwareDatetime
