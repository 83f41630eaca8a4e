"""Stored definitions: a run keeps its content, and any worker can continue it."""

from __future__ import annotations

import msgspec
import pytest

from holdfast import Engine
from holdfast.errors import BadOption, ModelKindUnknown, ModelNotFound
from tests.engine.databases import execute
from tests.engine.models.toy_models import ToyModel, toy
from tests.engine.waiting import until

calls: list[str] = []


def note(variables):
    calls.append("note")
    return len(calls)


HANDLERS = {"note": note}
ORDER = toy("order", ("call", "note"), ("sleep", "pause", 3600), ("call", "note"))


@pytest.fixture(autouse=True)
def forget_calls():
    calls.clear()


def frozen(source):
    return ToyModel(msgspec.json.encode(source), HANDLERS)


def contents(database):
    return execute(database, "SELECT content FROM holdfast.definition_content")


def test_a_worker_without_the_source_continues_a_run(database, clock):
    with Engine(database, clock=clock, shutdown_timeout=1) as first:
        run = first.start(frozen(ORDER), {"x": 1})
        run.wait_until("waiting")
    clock.advance(3600)

    with Engine(database, clock=clock, handlers=HANDLERS, shutdown_timeout=1) as second:
        result = second.run(run.id).result(timeout=60)
        assert second.database.check() == []

    assert result == {"x": 1, "note": 2, "timer": "fired"}
    assert calls == ["note", "note"]


def test_many_runs_store_their_content_once(database):
    with Engine(database, handlers=HANDLERS, shutdown_timeout=1) as engine:
        source = toy("many", ("call", "note"))
        runs = [engine.start(frozen(source)) for _ in range(20)]
        runs += engine.start_many(frozen(source), [{"n": n} for n in range(20)])
        for run in runs:
            run.result(timeout=60)

    assert len(contents(database)) == 1
    (kept,) = execute(database, "SELECT kind, name, state FROM holdfast.definition")
    assert tuple(kept) == ("toy", "many", "frozen")


def test_a_changed_source_does_not_change_a_run_that_waits(database, clock):
    changed = toy("order", ("sleep", "pause", 3600))
    with Engine(database, clock=clock, handlers=HANDLERS, shutdown_timeout=1) as engine:
        old = engine.start(frozen(ORDER))
        old.wait_until("waiting")
        new = engine.start(frozen(changed))
        new.wait_until("waiting")
        clock.advance(3600)

        assert old.result(timeout=60) == {"note": 2, "timer": "fired"}
        assert new.result(timeout=60) == {"timer": "fired"}


def test_a_child_keeps_the_content_of_its_parent(database, clock):
    source = toy("above", ("run", "below"), children={"below": [[("sleep", "pause", 3600)]]})
    with Engine(database, clock=clock, shutdown_timeout=1) as first:
        run = first.start(frozen(source))
        # The child sets its timer before the clock moves.
        until(lambda: first.runs(status="waiting").count() == 2)
        clock.advance(1)
    clock.advance(3600)

    with Engine(database, clock=clock, shutdown_timeout=1) as second:
        assert second.run(run.id).result(timeout=60) == {"below": {"timer": "fired"}}

    assert len(contents(database)) == 1
    names = execute(database, "SELECT name FROM holdfast.definition ORDER BY name")
    assert [name for (name,) in names] == ["above", "below"]


def test_a_run_waits_for_a_worker_that_has_the_handlers(database, clock):
    with Engine(database, clock=clock, shutdown_timeout=1) as engine:
        engine.models.deploy(toy("order", ("call", "note")))
        run = engine.start("order", {})
        assert run.status == "pending"
        why = engine.why(run.id)
        assert "no live worker" in why.reason

    with Engine(database, clock=clock, handlers=HANDLERS, shutdown_timeout=1) as engine:
        assert engine.run(run.id).result(timeout=60) == {"note": 1}


def test_a_deployed_model_is_started_by_its_name(engine):
    first = engine.models.deploy(toy("order", ("sleep", "pause", 0)), by="ann")
    again = engine.models.deploy(toy("order", ("sleep", "pause", 0)))
    second = engine.models.deploy(toy("order", ("sleep", "pause", 0), ("sleep", "again", 0)))

    assert (first.processes, first.created) == ({"order": 1}, ("order",))
    assert (again.processes, again.created) == ({"order": 1}, ())
    assert second.processes == {"order": 2}
    run = engine.start("order", {"x": 1})
    assert run.result(timeout=60) == {"x": 1, "timer": "fired"}
    assert run.record.version == "2"
    assert engine.start("order", {}, version="1").record.version == "1"


def test_models_are_listed_with_their_versions(engine):
    engine.models.deploy(toy("order", ("sleep", "pause", 1)), by="ann")
    engine.models.deploy(toy("order", ("sleep", "pause", 2)), toy("claim", ("sleep", "pause", 1)))

    models = engine.models.list()
    assert [(model.name, model.version, model.state) for model in models] == [
        ("claim", 1, "active"),
        ("order", 1, "active"),
        ("order", 2, "active"),
    ]
    assert engine.models.get("order").version == 2
    one = engine.models.get("order", 1)
    assert (one.by, one.kind, msgspec.json.decode(one.xml)["name"]) == ("ann", "toy", "order")


def test_new_runs_use_the_active_version(engine):
    engine.models.deploy(toy("order", ("sleep", "pause", 1)))
    engine.models.deploy(toy("order", ("sleep", "pause", 2)))

    engine.models.deprecate("order", 2)
    assert engine.start("order", {}).record.version == "1"
    engine.models.activate("order", 2)
    assert engine.start("order", {}).record.version == "2"
    with pytest.raises(ModelNotFound, match="known=1, 2"):
        engine.start("order", {}, version=3)
    for version in (1, 2):
        engine.models.deprecate("order", version)
    with pytest.raises(ModelNotFound, match="all versions are deprecated"):
        engine.start("order", {})
    assert engine.start("order", {}, version=1).record.version == "1"
    assert engine.runs(workflow="order").count() == 3


def test_the_audit_log_has_who_changed_a_version_and_why(engine):
    engine.models.deploy(toy("order", ("sleep", "pause", 1)), by="ann", reason="first")
    engine.models.deploy(toy("order", ("sleep", "pause", 2)))

    engine.models.activate("order", 1, by="ann", reason="a fault")
    engine.models.activate("order", 1, by="bob")  # changes nothing
    engine.models.deprecate("order", 2, reason="a fault")

    entries = engine.audit.list(subject="order")
    assert [(entry.by, entry.action, entry.details) for entry in entries] == [
        ("anonymous", "models.deprecate", {"version": "2", "reason": "a fault"}),
        ("ann", "models.activate", {"version": "1", "reason": "a fault"}),
        ("ann", "models.deploy", {"reason": "first"}),
    ]
    with pytest.raises(BadOption):
        engine.models.activate("order", 2, by="ann", reason=7)
    assert engine.models.get("order").version == 1


@pytest.mark.sqlite_only
def test_bad_requests_are_refused(engine):
    engine.models.deploy(toy("order", ("sleep", "pause", 1)))

    with pytest.raises(ModelNotFound):
        engine.models.get("nope")
    with pytest.raises(ModelNotFound):
        engine.models.get("order", 7)
    with pytest.raises(ModelNotFound):
        engine.models.activate("order", 7)
    with pytest.raises(ModelKindUnknown):
        engine.models.deploy(toy("fine_model", ("sleep", "pause", 1)), 7)
    assert [model.name for model in engine.models.list()] == ["order"]


@pytest.mark.sqlite_only
def test_an_export_takes_the_definition_along(database, clock, tmp_path):
    target = str(tmp_path / "other.db")
    with Engine(database, clock=clock, shutdown_timeout=1) as engine:
        run = engine.start(frozen(toy("order", ("sleep", "pause", 3600))))
        run.wait_until("waiting")
        run.cancel()
        run.wait_until("cancelled")
        engine.database.export(run.id, target)

    assert len(contents(target)) == 1
