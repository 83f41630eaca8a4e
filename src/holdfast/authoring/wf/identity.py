"""Identities of steps: the loops around a step with their iterations, then its key.

``push.new_commits[1]/address-reviews#2`` is the second ``address-reviews`` in the text of the loop,
in its second iteration. The number counts occurrences in the text, so a branch that is not taken
shifts nothing. A *template* is an identity without the numbers of iterations:
``push.new_commits[]/address-reviews#2``; it names a place in the text.
"""

from __future__ import annotations

import re

ALWAYS = "always/"
"""The prefix of the identities of the always block."""

_ITERATION = re.compile(r"\[(\d+)\]/")
_ATTEMPT = re.compile(r"~\d+$")

ITEMS = "/items"
CHILD = "/run "
UNDO = "/undo/"
HANDLER = "/on_fail/"


class KeyCounter:
    """Counts the occurrences of keys in one body of a loop, or outside loops."""

    __slots__ = ("_counts",)

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}

    def next(self, key: str) -> str:
        """Return the local identity of the next occurrence of *key* in the text."""
        count = self._counts.get(key, 0) + 1
        self._counts[key] = count
        return key if count == 1 else f"{key}#{count}"


def template_of(identity: str) -> str:
    """Return the place in the text that an identity names."""
    return _ITERATION.sub("[]/", identity)


def iterations_of(identity: str) -> list[int]:
    """Return the iterations of the loops around a step, the outermost first."""
    return [int(number) for number in _ITERATION.findall(identity)]


def attempt_identity(identity: str, attempt: int) -> str:
    """Return the identity of the child run of one attempt."""
    if attempt == 1:
        return identity
    return f"{identity}~{attempt}"


def without_attempt(identity: str) -> str:
    """Return the identity of the step to which the child run of an attempt belongs."""
    return _ATTEMPT.sub("", identity)


def end_of(start: str) -> str:
    """Return the identity of the wait for the child that the command *start* has started."""
    return f"{start} end"
