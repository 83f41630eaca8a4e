"""The state of an instance as JSON, for checkpoints."""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.authoring.bpmn.token_machine.state import (
    ACTIVE,
    CompensationRun,
    MachineState,
    ProcessToken,
    ScopeState,
    TokenWait,
)
from holdfast.core import typed_json


class MachineSnapshot(msgspec.Struct):
    """All that a machine needs to go on."""

    tokens: list[ProcessToken]
    scopes: list[ScopeState]
    waits: list[TokenWait]
    runs: list[CompensationRun]
    counts: dict[str, int]
    last_id: int
    now: int
    version: int
    suspended: bool = False
    more: dict[str, Any] = {}


class _RootScope(msgspec.Struct):
    id: int
    variables: dict[str, Any] = {}


class _Place(msgspec.Struct):
    id: str
    node: str


class _Overview(msgspec.Struct):
    """The part of a snapshot that has the variables of the instance and the elements of waits."""

    scopes: list[_RootScope]
    waits: list[_Place]


_decoder = typed_json.decoder(MachineSnapshot)
_overview_decoder = typed_json.decoder(_Overview)


def overview_of(data: bytes) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the variables of the instance in a snapshot, and the elements of its waits, without
    restoring its tokens."""
    overview = _overview_decoder.decode(data)
    return overview.scopes[0].variables, {wait.id: wait.node for wait in overview.waits}


def snapshot_of(state: MachineState, more: dict[str, Any]) -> bytes:
    """Return the state as JSON; *more* is kept with it."""
    return msgspec.json.encode(
        MachineSnapshot(
            tokens=list(state.tokens.values()),
            scopes=list(state.scopes.values()),
            waits=list(state.waits.values()),
            runs=list(state.runs.values()),
            counts=state.counts,
            last_id=state.last_id,
            now=state.now,
            version=state.version,
            suspended=state.suspended,
            more=more,
        )
    )


def restore(state: MachineState, data: bytes) -> dict[str, Any]:
    """Fill a new state from JSON, and return the facts that were kept with it."""
    snapshot = _decoder.decode(data)
    state.tokens = {token.id: token for token in snapshot.tokens}
    state.scopes = {scope.id: scope for scope in snapshot.scopes}
    state.waits = {wait.id: wait for wait in snapshot.waits}
    state.conditions = {wait.id: wait for wait in snapshot.waits if wait.kind == "condition"}
    state.runs = {run.id: run for run in snapshot.runs}
    state.counts = snapshot.counts
    state.last_id = snapshot.last_id
    state.now = snapshot.now
    state.version = snapshot.version
    state.suspended = snapshot.suspended
    state.queue.extend(token.id for token in snapshot.tokens if token.stage != ACTIVE)
    state.working = sum(wait.kind == "work" for wait in snapshot.waits)
    return snapshot.more
