"""Versions of a run in its history: which one it began with, and what has changed it."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from holdfast.core import typed_json
from holdfast.core.events import Event, EventKind


class VersionChange(msgspec.Struct):
    """The data of a ``version_changed`` event."""

    version: str
    before: str = ""
    instruction: str | None = None
    places: dict[str, str] = {}
    """The elements of the open waits that have another name in the new version, by step."""


def first_version(history: Sequence[Event]) -> str | None:
    """Return the version that a run began with; None if no event of the history has changed it."""
    for event in history:
        if event.kind == EventKind.VERSION_CHANGED:
            return _change(event).before or None
    return None


def all_versions(history: Sequence[Event], current: str) -> list[str]:
    """Return the versions that a run has had, the current one last."""
    earlier = [
        _change(event).before for event in history if event.kind == EventKind.VERSION_CHANGED
    ]
    return list(dict.fromkeys([*(version for version in earlier if version != current), current]))


def version_changes(history: Sequence[Event]) -> frozenset[str]:
    """Return the ids of the instructions that have changed the version."""
    return frozenset(
        _change(event).instruction or ""
        for event in history
        if event.kind == EventKind.VERSION_CHANGED
    )


def renamed_places(history: Sequence[Event]) -> dict[str, str]:
    """Return the elements of the waits that a change of the version has renamed, by step."""
    places: dict[str, str] = {}
    for event in history:
        if event.kind == EventKind.VERSION_CHANGED:
            places |= _change(event).places
    return places


def _change(event: Event) -> VersionChange:
    return typed_json.decode(event.data or b"{}", VersionChange)
