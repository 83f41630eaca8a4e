"""Step identities: the path of branches, the name, and the number of the call in its branch.

The identity of a step does not depend on steps of other names, so adding a step before it does not
change it. The number is left out of the first call of a name.
"""

from __future__ import annotations

from contextvars import ContextVar


class Branch:
    """One line of execution in a workflow: the main one, or a task within it."""

    __slots__ = ("_counts", "last", "path")

    def __init__(self, path: str = "") -> None:
        self.path = path
        self.last: str | None = None
        """The step or child that has completed last: a compensation that is registered next undoes
        it."""
        self._counts: dict[str, int] = {}

    def identify(self, name: str) -> str:
        """Return the identity of the next call of *name* in this branch."""
        count = self._counts.get(name, 0) + 1
        self._counts[name] = count
        return f"{self.path}{name}" if count == 1 else f"{self.path}{name}#{count}"


current_branch: ContextVar[Branch] = ContextVar("holdfast_branch")


def enter_branch(name: str) -> None:
    """Enter a new branch, named *name*, below the branch that this context was copied from."""
    outer = current_branch.get(None)
    path = f"{outer.identify(name)}/" if outer is not None else ""
    current_branch.set(Branch(path))
