"""Definitions that are read from the store, so that a worker without the source can continue a run.

A loaded definition is kept: its content never changes. That this process cannot execute it yet is
kept only until the routes are read again, because its handlers may be registered at any time; that
it is missing is kept until a definition of that name is written.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from holdfast.core.definitions import StoredDefinition
from holdfast.core.program import Definition
from holdfast.engine.runtime.kept_definitions import KeptDefinitions
from holdfast.errors import HoldfastError
from holdfast.store.store import View

log = logging.getLogger("holdfast")

LoadDefinition = Callable[[StoredDefinition], Definition | None]
"""Turns stored content into a definition; None if its kind is not executed, or not known here.
Raises HoldfastError if this process cannot execute it, such as without its handlers."""

OVERLAP = 60_000_000
"""Microseconds by which a definition may be committed later than it is dated."""

Key = tuple[str, str, str]
"""A namespace, a workflow and a version."""


def _load_nothing(stored: StoredDefinition) -> None:
    """Load no definition: for a process that has no front ends."""


Known = Callable[[], Mapping[str, Definition]]
"""Returns the definitions that the process has, by name."""


class StoredDefinitions:
    """Finds the definitions of runs: the process has them, or the store."""

    __slots__ = (
        "_known",
        "_load",
        "_loaded",
        "_missing",
        "_seen_at",
        "_startable",
        "_started",
        "_store",
        "_warned",
        "kept",
    )

    def __init__(
        self,
        store: View,
        known: Known,
        load: LoadDefinition = _load_nothing,
        startable: LoadDefinition = _load_nothing,
    ) -> None:
        self._store: View = store
        self._known: Known = known
        self._load: LoadDefinition = load
        self._startable: LoadDefinition = startable
        self._started: dict[tuple[str, str], Definition | None] = {}
        """The deployed definitions whose content runs keep, by digest and name."""
        self.kept: KeptDefinitions = KeptDefinitions(store.now)
        self._loaded: dict[Key, Definition] = {}
        self._missing: dict[Key, str] = {}
        """The reason for each definition that was not found; empty if the store has none."""
        self._warned: dict[Key, str] = {}
        """The reasons that were logged: it is tried again and again, and is logged once."""
        self._seen_at: int = 0
        """The time of the last look for new definitions."""

    def find(self, namespace: str, name: str, version: str) -> Definition | None:
        """Return the definition that executes runs of this workflow and version: one that the
        process has, else one that the store has; None if there is none that can be executed
        here."""
        known = self._known().get(name)
        if known is not None:
            accepted = known.accepts_versions
            if accepted is None or version in accepted:
                return known
        key = (namespace, name, version)
        definition = self._loaded.get(key)
        if definition is not None or key in self._missing:
            return definition
        return self._read(key)

    def startable(self, stored: StoredDefinition) -> Definition | None:
        """Return the deployed definition as a start needs it, if its runs keep its content; None if
        they name the version of the deployment."""
        key = (stored.digest, stored.name)
        if key not in self._started:
            self._started[key] = self._startable(stored)
        return self._started[key]

    def refresh(self) -> None:
        """Find out which of the missing definitions may be there by now."""
        if not self._missing:
            return
        since = self._seen_at - OVERLAP
        self._seen_at = self._store.now()  # before the read: it must not skip a commit
        new = set(self._store.definitions.written_since(since))
        self._missing = {
            key: why for key, why in self._missing.items() if not why and key not in new
        }

    def why_missing(self, namespace: str, name: str, version: str) -> str:
        """Return why a definition was not found; empty if the store has none."""
        return self._missing.get((namespace, name, version), "")

    def versions(self) -> Mapping[str, list[str]]:
        """Return the versions of the loaded definitions, by name."""
        versions: dict[str, set[str]] = {}
        for _, name, version in list(self._loaded):
            versions.setdefault(name, set()).add(version)
        return {name: sorted(each) for name, each in versions.items()}

    def _warn(self, kind: str, key: Key, why: str) -> None:
        if self._warned.get(key) != why:
            self._warned[key] = why
            log.warning("%s %s, version %s, cannot run here: %s", kind, *key[1:], why)

    def _read(self, key: Key) -> Definition | None:
        why = ""
        if not self._missing:
            self._seen_at = self._store.now()  # before the read, as above
        for stored in self._store.definitions.of_route(*key):
            try:
                definition = self._load(stored)
            except HoldfastError as error:
                why = str(error)
                self._warn(stored.kind, key, why)
                continue
            if definition is not None:
                self._loaded[key] = definition
                return definition
        self._missing[key] = why
        return None
