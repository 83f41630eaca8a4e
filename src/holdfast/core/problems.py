"""Problems of a definition: a fault in a text or a model, with its place, for every front end."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from enum import StrEnum

import msgspec

_LONGEST_NAME = 200
"""Longer names are not compared: the comparison takes quadratic time."""


_MOST_COMPARED = 500
"""Of more names, only those of about the same length and with the same first letter count."""


class Severity(StrEnum):
    """Whether a problem prevents the start of the workflow."""

    ERROR = "error"
    WARNING = "warning"


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """A fault of a definition. *line* and *column* count from 1 and point to the first character of
    the wrong token; for something that is missing, to the keyword of its node."""

    path: str
    line: int
    column: int
    severity: Severity = Severity.ERROR
    code: str
    message: str
    hint: str = ""

    @property
    def is_error(self) -> bool:
        return self.severity is Severity.ERROR

    def __str__(self) -> str:
        text = f"{self.path}:{self.line}:{self.column}: {self.severity}: {self.message}"
        if self.hint:
            text = f"{text}: {self.hint}"
        return f"{text} [{self.code}]"


def nearest(name: str, known: Iterable[str], most: int = 1) -> list[str]:
    """Return the known names that are most similar to *name*, at most *most*, best first."""
    if len(name) > _LONGEST_NAME:
        return []
    folded = _folded(name)
    by_folded = {_folded(candidate): candidate for candidate in sorted(set(known), reverse=True)}
    candidates = list(by_folded)
    if len(candidates) > _MOST_COMPARED:
        similar = [other for other in candidates if _may_be_similar(folded, other)]
        candidates = sorted(similar, key=lambda other: abs(len(other) - len(folded)))
    matches = difflib.get_close_matches(folded, candidates[:_MOST_COMPARED], n=most, cutoff=0.6)
    return [by_folded[match] for match in matches]


def _may_be_similar(name: str, other: str) -> bool:
    return name[:1] == other[:1] and abs(len(name) - len(other)) <= 2


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return a hint with the nearest known names; an empty text if none is similar."""
    names = nearest(name, known, most=2)
    if not names:
        return ""
    return f"did you mean {' or '.join(f'`{match}`' for match in names)}?"


def _folded(name: str) -> str:
    return name.casefold().replace("-", "_")
