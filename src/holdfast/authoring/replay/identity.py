"""Where in a workflow a call is made: the path of branches, the name, and how many calls of that
name came before.

This is a step's identity. It does not move when other steps are added before it.
"""

from __future__ import annotations

from contextvars import ContextVar


class Branch:
    """One line of execution in a workflow: the main one, or a task within it."""

    __slots__ = ("_counts", "path")

    def __init__(self, path: str = "") -> None:
        self.path = path
        self._counts: dict[str, int] = {}

    def identify(self, name: str) -> str:
        """Return the identity of the next call of that name in this branch."""
        count = self._counts.get(name, 0) + 1
        self._counts[name] = count
        return f"{self.path}{name}" if count == 1 else f"{self.path}{name}#{count}"


current_branch: ContextVar[Branch] = ContextVar("holdfast_branch")


def enter_branch(name: str) -> None:
    """Make the current context a branch of the branch that it was copied from."""
    outer = current_branch.get(None)
    path = f"{outer.identify(name)}/" if outer is not None else ""
    current_branch.set(Branch(path))
