"""Find executors, providers, resolvers and environments by name.

Registrations of a library come before those of the process, and those before the ones that Holdfast
ships.
"""

from __future__ import annotations

from typing import Any

from holdfast.authoring.wf.providers import SHIPPED
from holdfast.authoring.wf.registrations import (
    GLOBAL,
    Executor,
    GateResolver,
    ItemProvider,
    Registrations,
)


class RegistrationLookup:
    """Finds what a library can use: its own registrations, else those of the process."""

    def __init__(self, own: Registrations) -> None:
        self._own: Registrations = own

    def find_executor(self, name: str) -> Executor | None:
        """Return the executor of a call target: its own, else the fallback."""
        for registrations in (self._own, GLOBAL):
            if name in registrations.executors:
                return registrations.executors[name]
        return self._own.fallback or GLOBAL.fallback

    def find_provider(self, name: str) -> ItemProvider | None:
        """Return a provider of items; those of Holdfast come last."""
        for providers in (self._own.providers, GLOBAL.providers, SHIPPED):
            if name in providers:
                return providers[name]
        return None

    def find_resolver(self, name: str) -> GateResolver | None:
        """Return the resolver of gates of a type."""
        return self._own.resolvers.get(name) or GLOBAL.resolvers.get(name)

    def resolvers(self) -> dict[str, GateResolver]:
        """Return all resolvers by the type of their gates."""
        return {**GLOBAL.resolvers, **self._own.resolvers}

    def environments(self) -> list[Any]:
        """Return the providers of environment variables, in the order in which they apply."""
        return [*GLOBAL.environments, *self._own.environments]
