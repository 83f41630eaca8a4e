"""Plans of migrations: what a change to another version of its process does to a run of a model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast.connect.definition_kinds import DefinitionKinds
from holdfast.core.history import live_events
from holdfast.core.operations import BulkArguments
from holdfast.core.program import OfflineContext
from holdfast.core.runs import RunRecord
from holdfast.core.text import is_storable
from holdfast.core.validation import checked_version
from holdfast.errors import BadOption, MappingRefused, ModelNotFound, NotThere, RunFinished
from holdfast.errors.base import safe_repr
from holdfast.service.runs import RunService
from holdfast.views.model_runs import MigrationView


def checked_mapping(mapping: Any) -> dict[str, str]:
    """Return a mapping from elements to elements. Raises BadOption."""
    if mapping is None:
        return {}
    if not isinstance(mapping, Mapping) or not all(
        isinstance(text, str) and is_storable(text) for line in mapping.items() for text in line
    ):
        why = "pass a dict from elements of the old version to elements of the new one"
        raise BadOption(option="mapping", value=safe_repr(mapping), why=why)
    return dict(mapping)


class MigrationPlanner:
    """Plans migrations of runs, without a write."""

    def __init__(self, client: RunService, kinds: DefinitionKinds) -> None:
        self._client: RunService = client
        self._kinds: DefinitionKinds = kinds

    def preview(self, run_id: str, to: int | str, mapping: Mapping[str, str]) -> MigrationView:
        """Return what a migration would do to each token of a run. Raises RunNotFound, RunFinished,
        ModelNotFound, MappingRefused, NotThere, BadOption."""
        return self.plan(self._client.get(run_id), to, mapping)

    def plan(self, run: RunRecord, to: int | str, mapping: Mapping[str, str]) -> MigrationView:
        """Return what a migration does to a run as it is now. Raises RunFinished, ModelNotFound,
        NotThere, BadOption, and MappingRefused for a faulty mapping that concerns no token."""
        with self._client.store.snapshot() as view:  # another migration changes both
            run = view.runs.get(run.id) or run
            events = view.runs.history(run.id)
        if run.finished_at is not None:
            raise RunFinished(run=run.id, status=run.status.value)
        definition = self._kinds.inspectable(run.namespace, run.workflow, run.version)
        if not hasattr(definition, "plan_migration"):
            raise NotThere(run=run.id, why="this is not the run of a model")
        version = self._version(run, to)
        history = live_events(self._client.sealer.opener.events(run.id, events))
        context = OfflineContext(self._client.codec)
        opened = self._client.sealer.opener.run(run)
        planned = definition.plan_migration(opened, history, context, version, mapping)
        if planned.problems and not planned.refused:
            raise MappingRefused(process=run.workflow, problems="; ".join(planned.problems))
        return MigrationView(
            run_id=run.id,
            version=version,
            moved=planned.moved,
            refused=planned.refused,
            problems=planned.problems,
        )

    def _version(self, run: RunRecord, to: int | str) -> str:
        """Return the version to move to. Raises ModelNotFound, BadOption."""
        version = checked_version("to", to)
        if version == run.version:
            raise BadOption(option="to", value=to, run=run.id, why="the run has this version")
        if not self._client.store.definitions.of_route(run.namespace, run.workflow, version):
            raise ModelNotFound(model=run.workflow, version=version)
        return version

    def check(self, run: RunRecord, arguments: BulkArguments) -> None:
        """Refuse the migration of a run of a bulk operation if one of its tokens cannot move.
        Raises the refusal."""
        planned = self.plan(run, arguments.version or "", arguments.mapping or {})
        if planned.refused:
            token, why = next(iter(planned.refused.items()))
            raise NotThere(run=run.id, token=token, why=why, refused=len(planned.refused))
