"""Requests about deployed definitions: deploy, activate and deprecate them, and read them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from holdfast.core.definitions import (
    CompiledDefinition,
    DefinitionState,
    StoredDefinition,
    digest_of,
)
from holdfast.core.schedules.model import Schedule
from holdfast.core.validation import checked_text, checked_version
from holdfast.errors import ModelNotFound
from holdfast.service.requests import Request, identity
from holdfast.service.runs import WITHOUT_RUNS, RunService
from holdfast.store.definitions.operations import (
    DeployDefinitions,
    Deployed,
    NewDeployment,
    SetDefinitionState,
)


class DefinitionService:
    """Builds the operations on deployed definitions, and reads them."""

    def __init__(self, client: RunService) -> None:
        self._client: RunService = client

    def deploy(
        self,
        definitions: Sequence[CompiledDefinition],
        schedules: Mapping[str, Sequence[Schedule]],
        by: str | None,
    ) -> Request[list[Deployed]]:
        """Deploy definitions, all or none, with the schedules of each name. Raises BadOption,
        BadSchedule."""
        op = DeployDefinitions(
            namespace=self._client.namespace,
            definitions=[
                NewDeployment(
                    each.kind,
                    each.name,
                    digest_of(each.content),
                    each.content,
                    [(start.kind, start.name, start.element) for start in each.starts],
                    () if each.kind in WITHOUT_RUNS else schedules.get(each.name, ()),
                    each.kind not in WITHOUT_RUNS,
                )
                for each in definitions
            ],
            by=checked_text("by", by),
        )
        return Request(op, identity)

    def set_state(
        self,
        name: str,
        version: Any,
        state: DefinitionState,
        schedules: Mapping[str, Sequence[Schedule]],
    ) -> Request[bool]:
        """Activate or deprecate one version; *schedules* are the schedules of each version. Raises
        ModelNotFound, BadOption, BadSchedule."""
        stored = self.get(name, version)
        op = SetDefinitionState(
            namespace=stored.namespace,
            kind=stored.kind,
            name=stored.name,
            version=stored.version,
            state=state,
            schedules=schedules,
            has_runs=stored.kind not in WITHOUT_RUNS,
        )
        return Request(op, bool)

    def get(self, name: str, version: Any = None) -> StoredDefinition:
        """Return a deployed definition: one version, or the one that new runs use; if all are
        deprecated, the newest. Raises ModelNotFound, BadOption."""
        checked = checked_text("name", name) or ""
        wanted = None if version is None else checked_version("version", version)
        deployed = self._client.store.definitions.deployed(self._client.namespace, name=checked)
        if wanted is not None:
            stored = next((each for each in deployed if each.version == wanted), None)
        else:
            current = self._client.store.definitions.current(self._client.namespace, checked)
            stored = next(iter(current), deployed[-1] if deployed else None)
        if stored is None:
            facts: Mapping[str, object] = {"model": name}
            if wanted is not None:
                facts = {**facts, "version": wanted}
            raise ModelNotFound(**facts)
        return stored

    def list(self) -> list[StoredDefinition]:
        """Return all versions of the deployed definitions, by name and version."""
        return self._client.store.definitions.deployed(self._client.namespace)
