"""What a server writes for its callers: killed before and after each commit."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest

from holdfast import Engine
from holdfast.connect.remote_holder import RemoteHolder, open_remote
from holdfast.errors import ApiKeyExists, ApiKeyNotFound
from holdfast.server import Caller, app
from holdfast.testing.clock import VirtualClock
from tests.crash.test_operators import outcomes
from tests.crash.test_tasks import lend  # noqa: F401
from tests.server.clients import ApiClient
from tests.server.test_request_keys import SIGNAL_PROCESS

SIDES = pytest.mark.parametrize("side", ["before", "after"])


@SIDES
def test_a_change_and_its_audit_entry_are_written_together(lend, side):  # noqa: F811
    def setup(engine: Engine, clock: VirtualClock) -> None:
        engine.budgets.set("team", {"tokens": 1})

    def act(engine: Engine, clock: VirtualClock) -> None:
        done = engine.lanes.get("mail").concurrency == 2
        assert done == bool(engine.audit.list(action="lanes.set"))
        engine.lanes.set("mail", concurrency=2, by="ann")
        engine.budgets.raise_limits("team", {"tokens": 1}, key="once", by="ann")

    def read(engine: Engine, clock: VirtualClock) -> Any:
        raised = engine.audit.list(action="budgets.raise_limits")
        return engine.budgets.get("team").dimensions["tokens"].hard, len(raised)

    assert set(outcomes(lend, setup, act, read, side)) == {(2, 1)}


@SIDES
def test_an_api_key_is_added_and_revoked_once(lend, side):  # noqa: F811
    def setup(engine: Engine, clock: VirtualClock) -> None:
        engine.api_keys.add("old", roles="viewer")

    def act(engine: Engine, clock: VirtualClock) -> None:
        with suppress(ApiKeyExists):
            engine.api_keys.add("new", roles="viewer", by="root")
        with suppress(ApiKeyNotFound):
            engine.api_keys.revoke("old", by="root")

    def read(engine: Engine, clock: VirtualClock) -> Any:
        return tuple(sorted((key.name, key.state) for key in engine.api_keys.list()))

    expected = (("new", "active"), ("old", "revoked"))
    assert set(outcomes(lend, setup, act, read, side)) == {expected}


@SIDES
def test_a_named_claim_that_is_repeated_gets_the_same_leases(lend, side):  # noqa: F811
    opened: dict[str, str] = {}

    def setup(engine: Engine, clock: VirtualClock) -> None:
        for number in range(4):
            engine.start("render", number, id=f"r{number}")
        opened["id"], _ = open_remote(
            engine._calls.opened(),
            worker="far",
            workflows=["render"],
            lanes=None,
            capabilities=(),
            ttl="1h",
            horizon=None,
        )

    def act(engine: Engine, clock: VirtualClock) -> None:
        holder = RemoteHolder(engine._calls.opened(), opened["id"], "claim-1")
        leases = holder.claimed_before() or holder.take(2)
        assert len(leases) == 2

    def read(engine: Engine, clock: VirtualClock) -> Any:
        return sorted(run.status.value for run in engine.runs())

    seen = outcomes(lend, setup, act, read, side)
    assert len(seen) > 1
    assert [state for state in seen if state != ["pending"] * 2 + ["running"] * 2] == []


KEYED = {
    "operation": ("/operations/cancel", {"filters": {"workflow": "render"}, "wait": True}),
    "graphs": ("/graphs/batch", {"graphs": [{"members": {"a": {"workflow": "render"}}}] * 2}),
    "broadcast": ("/broadcasts", {"name": "alarm", "variables": {"floor": 3}}),
    "spending": ("/budgets/team/spend", {"amounts": {"tokens": 1}}),
    "signal": ("/runs/r0/signals", {"name": "go"}),
}


@SIDES
@pytest.mark.parametrize("kind", KEYED)
def test_a_request_with_an_idempotency_key_takes_effect_once(lend, side, kind):  # noqa: F811
    path, body = KEYED[kind]
    server = {"who": lambda request: Caller(name="ci", roles=["admin"])}

    def setup(engine: Engine, clock: VirtualClock) -> None:
        engine.budgets.set("team", {"tokens": 9})
        engine.models.deploy(SIGNAL_PROCESS.encode())
        engine.start("render", id="r0")

    def act(engine: Engine, clock: VirtualClock) -> None:
        client = ApiClient(app(engine, **server), {"Idempotency-Key": "once"})
        client.json("POST", path, body)

    def read(engine: Engine, clock: VirtualClock) -> Any:
        return (
            len(engine.operations.list()),
            len(engine.graphs.list()),
            engine.runs(workflow="woken").count(),
            engine.budgets.get("team").dimensions["tokens"].used,
            len(engine._calls.opened().store.signals.of_run("r0")),
        )

    counts = dict.fromkeys(KEYED, 0) | {kind: 2 if kind == "graphs" else 1}
    expected = tuple(counts.values())
    seen = outcomes(lend, setup, act, read, side)
    assert set(seen) == {expected} and len(seen) > 2
