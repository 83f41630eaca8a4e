"""The caller of each operation is recorded, in the history of the run and in the audit log."""

import pytest

from holdfast import Engine, Fail, step, workflow
from holdfast.server import app
from tests.server.clients import ApiClient, problem


@step
async def refuse() -> None:
    raise Fail("no")


@workflow(name="audit.fails")
async def fails() -> None:
    await refuse()


@pytest.fixture
def ann(both):
    """A client with the API key of an operator, on both databases."""
    with Engine(both, workflows=[fails], shutdown_timeout=1) as engine:
        client = ApiClient.maker(engine, app(engine))("operator", "admin", name="ann")
        client.engine = engine
        yield client


def failed(engine) -> str:
    run = engine.start(fails)
    run.wait_until("failed", timeout="60s")
    return run.id


def test_the_history_and_the_audit_log_name_the_caller(ann):
    run_id = failed(ann.engine)
    later = ann.engine.start(fails, delay="1h").id

    ann.json("POST", f"/runs/{run_id}/replay", {})
    fork = ann.json("POST", f"/runs/{run_id}/fork", {})["id"]
    ann.json("POST", f"/runs/{later}/prioritise", {"priority": 3})
    ann.json("POST", f"/runs/{later}/override", {"reason": "not needed", "result": 1})
    ann.json("PUT", "/budgets/team", {"limits": {"tokens": 10}})
    ann.json("POST", "/budgets/team/raise-limits", {"amounts": {"tokens": 5}})
    ann.json("PATCH", "/lanes/mail", {"concurrency": 2})

    entries = ann.json("GET", "/audit")["items"]
    assert [(entry["action"], entry["subject"], entry["by"]) for entry in entries] == [
        ("lanes.set", "mail", "ann"),
        ("budgets.raise_limits", "team", "ann"),
        ("budgets.set", "team", "ann"),
        ("tasks.override", later, "ann"),
        ("tasks.prioritise", later, "ann"),
        ("run.fork", run_id, "ann"),
        ("run.replay", run_id, "ann"),
    ]
    named = {
        event.kind: event.data["by"]
        for one in (run_id, later, fork)
        for event in ann.engine.run(one).history()
        if isinstance(event.data, dict) and "by" in event.data
    }
    assert named == dict.fromkeys(
        ("run_replayed", "run_forked", "priority_changed", "run_overridden"), "ann"
    )


def test_a_refused_action_leaves_no_entry(ann):
    run_id = ann.engine.start(fails, delay="1h").id

    assert problem(ann("POST", f"/runs/{run_id}/replay", {})) == "RunNotFinished"
    assert problem(ann("POST", "/budgets/none/reset", {})) == "BudgetNotFound"

    assert ann.json("GET", "/audit")["items"] == []


def test_the_audit_log_is_read_in_pages_and_by_person(ann, both):
    ann.engine.lanes.set("a", concurrency=1, by="bob")
    for name in ("b", "c"):
        ann.json("PATCH", f"/lanes/{name}", {"concurrency": 1})

    first = ann.json("GET", "/audit?limit=2")
    rest = ann.json("GET", f"/audit?limit=2&cursor={first['next']}")

    assert [entry["subject"] for entry in first["items"] + rest["items"]] == ["c", "b", "a"]
    assert [e["subject"] for e in ann.json("GET", "/audit?person=bob")["items"]] == ["a"]


def test_a_namespace_sees_its_own_actions_only(tmp_path):
    with Engine(tmp_path / "audit.db", workflows=[fails], work=False) as engine:
        connect = ApiClient.maker(engine, app(engine))
        run_id = engine.start(fails, namespace="acme").id
        connect("operator", name="root").json("POST", f"/runs/{run_id}/cancel", {})
        engine.lanes.set("mail", concurrency=1, by="root")

        inside = connect("viewer", namespace="acme").json("GET", "/audit")["items"]
        other = connect("viewer", namespace="other").json("GET", "/audit")["items"]

    assert [(entry["action"], entry["by"]) for entry in inside] == [("run.cancel", "root")]
    assert other == []


def test_bulk_verbs_name_the_caller_in_each_history(ann):
    run_id = failed(ann.engine)

    report = ann.json("POST", "/operations/replay", {"filters": {"ids": [run_id]}, "wait": True})

    replayed = [e for e in ann.engine.run(run_id).history() if e.kind == "run_replayed"]
    assert report["changed"] == 1
    assert [event.data["by"] for event in replayed] == ["ann"]
    assert ann.json("GET", "/audit")["items"][0]["action"] == "runs.replay"
