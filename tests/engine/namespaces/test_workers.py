"""Workers, task holders and workflows of a namespace reach no other one."""

from __future__ import annotations

import asyncio
from contextlib import closing
from typing import Any

import pytest

import holdfast
from holdfast import AsyncEngine, Engine, workflow
from holdfast.errors import LeaseLost
from tests.engine.databases import execute
from tests.engine.namespaces.things import meddling_elsewhere, theirs_stored, whispering
from tests.engine.receiver import Receiver

HOLDER_CALLS = {"claim", "close", "complete_all", "reclaim", "renew", "rest", "session_id"}
"""What a holder of leases does. Only claim, complete_all and reclaim concern a run that the holder
may not have."""


@pytest.mark.parametrize("size", [1, 500_000])
def test_a_holder_completes_no_lease_of_another_namespace(database, theirs, things, size):
    lease, result = theirs.tasks.lease(things.proof), "x" * size
    with (
        closing(Engine(database, namespace="ours", workflows=[])) as engine,
        engine.tasks.worker("ours", workflows=["ours-task"]) as ours,
    ):
        assert {name for name in dir(ours) if not name.startswith("_")} == HOLDER_CALLS
        engine.start("ours-task", id="ours")
        (own,) = ours.claim()

        refused, done = ours.complete_all([(lease, result), (own, result)])

        assert isinstance(refused, LeaseLost)
        assert (done.status, engine.run("ours").status) == ("completed", "completed")
    assert theirs.run("hush-leased").status == "running"
    assert lease.complete("kept").status == "completed"


def test_an_asynchronous_holder_completes_no_lease_of_another_namespace(database, things):
    async def main() -> list[Any]:
        theirs = AsyncEngine(database, namespace="hush-theirs", workflows=[])
        engine = AsyncEngine(database, namespace="ours", workflows=[])
        try:
            lease = await theirs.tasks.lease(things.proof)
            async with engine.tasks.worker("ours", workflows=["ours-task"]) as ours:
                assert {name for name in dir(ours) if not name.startswith("_")} <= HOLDER_CALLS
                return await ours.complete_all([(lease, "x")])
        finally:
            await engine.close()
            await theirs.close()

    (refused,) = asyncio.run(main())

    assert isinstance(refused, LeaseLost)
    assert execute(database, "SELECT status FROM holdfast.run WHERE id = 'hush-leased'") == [
        ("running",)
    ]


@workflow
async def drawing_elsewhere(options: dict[str, Any]) -> object:
    return await holdfast.start(whispering, **options)


@pytest.mark.parametrize(
    "options", [{"id": "hush-graph::hush-later"}, {"budget": "tree:hush-spender"}]
)
def test_a_child_takes_neither_the_id_of_a_member_nor_the_budget_of_another_tree(
    database, things, options
):
    before = theirs_stored(database)
    with (
        Engine(database, namespace="ours", shutdown_timeout=1) as engine,
        pytest.raises(holdfast.errors.RunFailed, match="BadOption"),
    ):
        engine.start(drawing_elsewhere, options).result(timeout=30)

    assert theirs_stored(database) == before


def test_an_engine_that_is_bound_to_none_sees_all(database, things):
    with closing(Engine(database, workflows=[])) as engine:
        assert {run.namespace for run in engine.runs()} == {"hush-theirs"}
        assert engine.gates.get(things.gate).run == "hush-asked"
        assert engine.waits.token(things.wait) == things.token
        assert {subscription.name for subscription in engine.events.subscriptions()} == {
            "hush-hook",
            "hush-reader",
        }
        assert len(engine.waits.list()) == 3
        assert engine.why(things.run).run == things.run
        assert engine.database.check() == []


def test_a_workflow_of_a_bound_worker_reaches_no_other_namespace(database, things):
    with Engine(database, namespace="ours", shutdown_timeout=1) as engine:
        assert engine.start(meddling_elsewhere, things.run).result(timeout=30) == "done"

    with closing(Engine(database, workflows=[])) as engine:
        assert engine.run(things.run).status == "waiting"
        assert execute(
            database, "SELECT COUNT(*) FROM holdfast.signal WHERE run_id = :run", run=things.run
        ) == [(0,)]


def test_a_bound_worker_delivers_no_webhooks_of_others(database):
    receiver = Receiver()
    with (
        closing(Engine(database, namespace="hush-theirs", workflows=[])) as theirs,
        closing(Engine(database, workflows=[])) as all_,
    ):
        theirs.webhooks.set("hush-hook", receiver.url, kind="completions", after="beginning")
        all_.webhooks.set("hush-all", receiver.url, kind="completions", after="beginning")
    with Engine(
        database, namespace="ours", shutdown_timeout=1, webhook_hosts=["127.0.0.1"]
    ) as ours:
        ours.webhooks.set("ours-hook", receiver.url, kind="completions", after="beginning")
        ours.start(whispering, id="ours").result(timeout=30)
        receiver.wait(1)
        owners = dict(execute(database, "SELECT name, session_id FROM holdfast.subscription"))
    receiver.close()

    assert {name for name, session in owners.items() if session is not None} == {"ours-hook"}
    assert {headers["Holdfast-Subscription"] for headers, _ in receiver.heard} == {"ours-hook"}


def test_pruning_leaves_the_runs_of_others(database, theirs):
    theirs.start(whispering, id="hush-old").result(timeout=30)
    with Engine(database, namespace="ours", shutdown_timeout=1) as ours:
        ours.start(whispering, id="ours-old").result(timeout=30)

        assert ours.retention.prune("0s") == 1

    assert theirs.run("hush-old").status == "completed"


def test_flows_of_others_are_not_woken(database, clock):
    with closing(Engine(database, namespace="theirs", clock=clock)) as theirs:
        flow = theirs.flows.create("c", "g", owner="o")
        flow = theirs.flows.start(flow.id)
        theirs.flows.wait(flow.id, until="1m")
        clock.advance("2m")
        with closing(Engine(database, namespace="ours", clock=clock)) as ours:
            assert ours.flows.wake().resumed == 0
        assert theirs.flows.wake().resumed == 1
