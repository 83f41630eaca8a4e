"""``Idempotency-Key``: a repeated request takes effect once, and another one is refused."""

from __future__ import annotations

import pytest

from holdfast import Engine, wait_signal, workflow
from holdfast.core.api_keys import Right
from holdfast.server import app
from holdfast.server.operation_table import OPERATIONS
from tests.server.clients import ApiClient, problem
from tests.server.conftest import WORKFLOWS

ONCE = {"headers": {"Idempotency-Key": "once"}}
GRAPHS = [{"members": {name: {"workflow": "server.double"}}} for name in ("a", "b")]
SIGNAL_PROCESS = """\
<definitions xmlns="http://www.omg.org/spec/BPMN/20100524/MODEL" targetNamespace="t">
  <signal id="s" name="alarm"/>
  <process id="woken" isExecutable="true">
    <startEvent id="bell"><signalEventDefinition signalRef="s"/></startEvent>
    <sequenceFlow id="f" sourceRef="bell" targetRef="end"/>
    <endEvent id="end"/>
  </process>
</definitions>
"""


@workflow(name="server.request_key_listener")
async def listener() -> object:
    return await wait_signal("go")


@pytest.fixture
def idle(both):
    """An engine on each database that executes nothing."""
    with Engine(both, workflows=[*WORKFLOWS, listener], work=False) as engine:
        yield engine


def connected(engine: Engine, *roles: str) -> ApiClient:
    return ApiClient.maker(engine, app(engine))(*roles)


def test_a_bulk_operation_is_stored_once(idle):
    admin = connected(idle, "admin")
    idle.start("server.double", id="r1")
    body = {"filters": {"workflow": "server.double"}, "reason": "closed", "wait": True}

    first = admin.json("POST", "/operations/cancel", body, **ONCE)
    idle.start("server.double", id="r2")
    again = admin.json("POST", "/operations/cancel", body, **ONCE)
    another = admin("POST", "/operations/cancel", {**body, "reason": "x"}, **ONCE)
    other_verb = admin.json("POST", "/operations/resume", {"filters": {}, "wait": True}, **ONCE)

    assert first["changed"] == 1 and again == first
    assert (another.status_code, problem(another)) == (409, "RequestKeyReused")
    assert other_verb["id"] != first["id"]
    assert idle.run("r2").status == "pending"
    assert len(idle.audit.list(action="runs.cancel")) == 1


def test_a_dry_run_does_not_use_up_a_key(idle):
    admin = connected(idle, "admin")
    idle.start("server.double", id="r1")
    body = {"filters": {"workflow": "server.double"}, "wait": True}

    preview = admin.json("POST", "/operations/cancel", {**body, "dry_run": True}, **ONCE)
    done = admin.json("POST", "/operations/cancel", body, **ONCE)

    assert preview["id"] is None and done["changed"] == 1


def test_a_batch_of_graphs_is_started_once(idle):
    admin = connected(idle, "admin")

    first = admin.json("POST", "/graphs/batch", {"graphs": GRAPHS}, **ONCE)
    again = admin.json("POST", "/graphs/batch", {"graphs": GRAPHS}, **ONCE)
    another = admin("POST", "/graphs/batch", {"graphs": GRAPHS[:1]}, **ONCE)
    elsewhere = connected(idle, "admin").json("POST", "/graphs/batch", {"graphs": GRAPHS}, **ONCE)

    assert again == first
    assert (another.status_code, problem(another)) == (409, "RequestKeyReused")
    ids = {graph["id"] for graph in (*first["items"], *elsewhere["items"])}
    assert {graph.id for graph in idle.graphs.list()} == ids and len(ids) == 4


def test_a_broadcast_starts_its_processes_once(idle):
    admin = connected(idle, "admin")
    admin.json("POST", "/models", {"sources": [SIGNAL_PROCESS]})
    body = {"name": "alarm", "variables": {"floor": 3}}

    first = admin.json("POST", "/broadcasts", body, **ONCE)
    again = admin.json("POST", "/broadcasts", body, **ONCE)
    another = admin("POST", "/broadcasts", {**body, "variables": {"floor": 4}}, **ONCE)
    unnamed = admin.json("POST", "/broadcasts", body)

    assert again == first and len(first["started"]) == 1
    assert (another.status_code, problem(another)) == (409, "RequestKeyReused")
    assert unnamed["started"] != first["started"]
    assert idle.runs(workflow="woken").count() == 2


@pytest.mark.parametrize(
    ("path", "body", "another"),
    [
        ("/runs/r1/signals", {"name": "go", "payload": 1}, {"name": "go", "payload": 2}),
        ("/messages", {"name": "paid", "ttl": "1h"}, {"name": "due", "ttl": "1h"}),
        ("/budgets/team/spend", {"amounts": {"tokens": 1}}, {"amounts": {"tokens": 2}}),
        ("/budgets/team/raise-limits", {"amounts": {"tokens": 1}}, {"amounts": {"tokens": 2}}),
        ("/runs/r1/cancel", {"reason": "a"}, {"reason": "b"}),
        ("/lanes/mail/pause", {}, {"by": "root"}),
    ],
)
def test_another_body_under_the_same_key_is_refused(idle, path, body, another):
    admin = connected(idle, "admin")
    idle.start(listener, id="r1")
    idle.budgets.set("team", {"tokens": 9})

    assert admin("POST", path, body, **ONCE).status_code < 300
    refused = admin("POST", path, another, **ONCE)

    assert (refused.status_code, problem(refused)) == (409, "RequestKeyReused")
    assert idle.budgets.get("team").dimensions["tokens"].used <= 1
    assert idle.budgets.get("team").dimensions["tokens"].hard <= 10


def test_the_same_body_may_be_written_in_another_way(admin, engine):
    body = b'{"amounts": {"a": 1, "b": 2}}'
    other = b'{"amounts":{"b":2,"a":1}}'
    engine.budgets.set("team", {"a": 9, "b": 9})

    for content in (body, other):
        response = admin("POST", "/budgets/team/spend", content=content, **ONCE)
        assert response.status_code == 200
    assert engine.budgets.get("team").dimensions["a"].used == 1


def test_a_refused_request_gives_its_key_back(admin, engine):
    engine.budgets.set("team", {"tokens": 1})

    refused = admin("POST", "/budgets/team/spend", {"amounts": {"tokens": 2}}, **ONCE)
    corrected = admin("POST", "/budgets/team/spend", {"amounts": {"tokens": 1}}, **ONCE)

    assert (refused.status_code, problem(refused)) == (409, "BudgetExceeded")
    assert corrected.status_code == 200


def test_a_signal_to_a_wait_is_delivered_once_per_key(admin, engine, stranger):
    (lease,) = _leased(engine)
    wait = lease.create_wait("paid", expires="1h")
    path = f"/waits/{wait.id}/signals"

    first = stranger("POST", path, {"token": wait.token, "payload": 1}, **ONCE)
    again = stranger("POST", path, {"token": wait.token, "payload": 1}, **ONCE)
    forged = stranger("POST", path, {"token": "x", "payload": 1}, **ONCE)

    assert first.status_code == 200 and again.json() == first.json()
    assert forged.status_code == 401


def _leased(engine: Engine):
    engine.start("server.leased", id="leased")
    return engine.tasks.worker("w", workflows=["server.leased"], ttl="1h").claim(1)


RECOGNISED = ("idempotent_by", "derived_id")
IN_THE_HANDLER = {
    "engine.start_many",
    "graphs.start_many",
    "models.broadcast",
    "server.claim",
    *(operation.name for operation in OPERATIONS if operation.path.startswith("/operations/")),
} - {"operations.get", "operations.stop", "operations.wait"}
"""Operations whose handlers derive ids from the key."""

CREATES = {
    "models.deploy": "an equal definition is the same version",
    "schedules.backfill": "a tick has one run",
    "api_keys.add": "a name has one key, whose secret is shown once: ApiKeyExists",
    "graphs.extend": "a member has one name: MemberExists",
    "graphs.join": "a run is a member once",
    "keys.rotate": "the name of a key is used once, if the request has one: KeyExists",
    "gates.link": "a link stores nothing",
    "waits.token": "a token stores nothing",
    "server.open_remote_worker": "a worker that is not renewed ends by itself",
    "models.start_activity": "an instruction for the run",
    "flows.append_event": "the owner of a flow appends in order",
}
"""Operations that create something and do not recognise a repetition by its key."""


def test_every_operation_that_creates_recognises_a_key_or_says_why_not():
    starts = {"start", "add", "create", "submit", "spend", "signal", "message", "fork", "trigger"}
    verbs = starts | {"start_many", "broadcast", "deliver", "raise_limits", "append_event"}
    creating = {
        operation.name
        for operation in OPERATIONS
        if operation.method == "POST"
        and operation.right is not Right.WORK
        and (operation.name.rpartition(".")[2] in verbs or operation.status in (201, 202))
    }
    recognised = {
        operation.name
        for operation in OPERATIONS
        if any(getattr(operation, name) for name in RECOGNISED)
    }
    known = recognised | IN_THE_HANDLER | set(CREATES)

    assert sorted(creating - known - MOVES) == []


MOVES = {"flows.start", "flows.deliver", "models.trigger"}
"""Operations on one flow or run, whose revision or state refuses a repetition."""
