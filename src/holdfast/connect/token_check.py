"""Replay the live runs of models, and compare the tokens at rest that the store shows with those to
which the histories lead.

The rows are a projection: a run that rests must have exactly the tokens of its replay. Of a run
that was woken or is at work, only the replay is checked. A worker may change a run between two
reads, so a difference counts only if it is seen twice with the same history. A run that cannot be
replayed is one fault, and keeps no other run from its check.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from holdfast.connect.definition_kinds import DefinitionKinds
from holdfast.core.history import live_events
from holdfast.core.program import OfflineContext
from holdfast.core.resting_tokens import RestingToken
from holdfast.core.runs import RunRecord
from holdfast.core.status import Status
from holdfast.core.versions import first_version
from holdfast.errors import HoldfastError, KeyMissing, RowDamaged
from holdfast.service.runs import RunService

PAGE = 200
"""Runs that one query reads."""

COMPARED = ("element", "kind", "scope", "status", "mode", "attempt", "waits_for", "until", "since")
"""The facts of a token that follow from the history alone."""


class TokenCheck:
    """Checks the tokens at rest of one database."""

    def __init__(self, client: RunService, kinds: DefinitionKinds) -> None:
        self._client: RunService = client
        self._store = client.store
        self._kinds: DefinitionKinds = kinds
        self._definitions: dict[tuple[str, str, str], Any] = {}

    def faults(self) -> list[str]:
        """Return a line for each run whose tokens at rest are not those of its history."""
        return [fault for run_id in self._live_runs() for fault in self._faults_of(run_id)]

    def _live_runs(self) -> Iterator[str]:
        after = ""
        while page := self._store.resting_tokens.live_model_runs(after, PAGE):
            yield from page
            after = page[-1]

    def _faults_of(self, run_id: str) -> list[str]:
        first = self._difference(run_id)
        if first is None:
            return []
        again = self._difference(run_id)
        if again != first:
            return []  # the run goes on meanwhile
        return [f"the tokens at rest of run {run_id} are not those of its history: {first[1]}"]

    def _difference(self, run_id: str) -> tuple[int, str] | None:
        """Return the number of the last event of a run, and how its tokens differ; None if they do
        not, or if the run has ended."""
        try:
            run = self._store.runs.get(run_id)
            if run is None or run.finished_at is not None or run.status is Status.STUCK:
                return None
            stored = self._store.resting_tokens.of_run(run_id)
            history = self._client.history(run_id)
        except (RowDamaged, KeyMissing):
            return None  # the check of rows names it; values under an unknown key are not checked
        last = history[-1].seq if history else 0
        try:
            replayed = self._replayed(run, history)
        except KeyMissing:
            return None
        except Exception as error:  # damaged data may fail anywhere in the replay
            reason = error if isinstance(error, HoldfastError) else repr(error)
            return last, f"it cannot be replayed, because {reason}"
        if replayed is None or run.status is not Status.WAITING:
            return None
        differences = _differences(stored, replayed)
        return (last, differences) if differences else None

    def _replayed(self, run: RunRecord, history: list[Any]) -> list[RestingToken] | None:
        """Return the tokens of a replay; None for a run without a model, and while a handler is at
        work or waits for its next attempt: the run rests only after it."""
        live = live_events(history)
        definition = self._definition(run, first_version(live) or run.version)
        if not hasattr(definition, "inspect"):
            return None
        opened = self._client.sealer.opener.run(run)
        state = definition.inspect(opened, live, OfflineContext(self._client.codec))
        tokens: list[RestingToken] = state.tokens
        if any(token.waits_for == "handler" for token in tokens):
            return None
        return tokens

    def _definition(self, run: RunRecord, version: str) -> Any:
        place = (run.namespace, run.workflow, version)
        if place not in self._definitions:
            self._definitions[place] = self._kinds.inspectable(*place)
        return self._definitions[place]


def _differences(stored: list[RestingToken], replayed: list[RestingToken]) -> str:
    """Describe how the stored tokens differ from the replayed ones; empty if they do not."""
    rows = {token.id: token for token in stored}
    lines = []
    for token in replayed:
        row = rows.pop(token.id, None)
        if row is None:
            lines.append(f"token {token.id} at {token.element} is not stored")
            continue
        for name in COMPARED:
            before, after = getattr(row, name), getattr(token, name)
            if before != after:
                lines.append(f"token {token.id} is stored with {name} {before!r}, not {after!r}")
    lines += [f"token {token.id} at {token.element} is stored" for token in rows.values()]
    return "; ".join(lines)
