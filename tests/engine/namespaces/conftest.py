"""An engine of one namespace, with one thing of each kind."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from holdfast import Engine, Graph, gate, workflow
from tests.engine.every_model import decision_model, started_model, waiting_model
from tests.engine.namespaces.things import Things, idling, whispering
from tests.engine.waiting import wait_until


@workflow
async def asking_hushed() -> object:
    return await gate("hush: ship it?", assignees=["hush-ann"])


@pytest.fixture
def theirs(database) -> Iterator[Engine]:
    with Engine(
        database, namespace="hush-theirs", name="hush-worker", shutdown_timeout=1
    ) as engine:
        yield engine


@pytest.fixture
def things(database, theirs) -> Things:
    """Let another namespace have one of each."""
    with closing(Engine(database, workflows=[])) as unbound:
        unbound.api_keys.add("hush-key", roles="admin", namespace="hush-theirs")
    done = theirs.start(whispering, id="hush-done", tags={"hush": "hush"})
    assert done.result(timeout=30) == "hush"
    asked = theirs.start(asking_hushed, id="hush-asked")
    idle = theirs.start(idling, id="hush-idle")
    wait_until(
        theirs,
        lambda: asked.status == "waiting" and idle.status == "waiting" and theirs.waits.list(),
    )
    (open_gate,) = theirs.gates.list()
    (wait,) = (each_wait.id for each_wait in theirs.waits.list(idle.id) if each_wait.id is not None)
    theirs.start("hush-spending", id="hush-spender", budget={"tokens": 5})
    flow = theirs.flows.create("hush-controller", "hush-goal", owner="hush-owner", id="hush-flow")
    graph = Graph("hush-graph-name")
    graph.add(idling, name="hush-later").after(graph.add(idling, name="hush-member"))
    theirs.graphs.start(graph, id="hush-graph")
    theirs.schedules.set("hush-schedule", whispering, cron="0 0 1 1 *")
    theirs.webhooks.set("hush-hook", "https://example.org/hush")
    list(theirs.events.read(name="hush-reader"))
    theirs.start("hush-task", 1, id="hush-leased")
    with_proof = theirs.tasks.worker("hush-holder", workflows=["hush-task"], ttl="1h")
    (lease,) = with_proof.claim()
    link = theirs.gates.link(open_gate, "approve", by="hush-ann")
    operation = theirs.runs(ids=["hush-leased"]).prioritise(5, by="hush-ann")
    theirs.models.deploy(waiting_model("hush"), started_model("hush"), decision_model("hush"))
    theirs.models.message("hush-kept", key="hush-key", id="message-1", ttl="1h")
    modelled = theirs.start("hush-model", {}, id="hush-modelled")
    wait_until(theirs, lambda: len(theirs.models.tasks()) == 2 and theirs.models.incidents() != [])
    user_task, external_task = theirs.models.tasks()
    (incident,) = theirs.models.incidents()
    return Things(
        run=idle.id,
        done=done.id,
        gate=open_gate.id,
        link=str(link),
        wait=wait,
        token=str(theirs.waits.token(wait)),
        flow=flow.id,
        graph="hush-graph",
        proof=lease.proof,
        operation=str(operation.id),
        model_run=modelled.id,
        task=user_task.id,
        external=external_task.id,
        incident=incident.id,
    )
