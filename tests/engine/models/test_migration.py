"""Runs of models that move to another version of their process."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from holdfast import Engine
from holdfast.connect import model_tasks
from holdfast.errors import (
    BadOption,
    MappingRefused,
    ModelNotFound,
    NoReceiver,
    NotThere,
    RunFinished,
    RunNotFound,
)
from holdfast.service.runs import RunService
from tests.bpmn.models import boundary, flows, process_of, timer
from tests.engine.databases import execute
from tests.engine.models.test_operators import waiting
from tests.engine.models.toy_models import toy
from tests.engine.waiting import until

FIRST = '<startEvent id="s"/><userTask id="a"/><userTask id="b"/>' + flows("s a", "a b")
SECOND = (
    '<startEvent id="s"/><userTask id="review"/><userTask id="b"/><userTask id="c"/>'
    + boundary("late", "review", timer("timeDuration", "PT1H"))
    + flows("s review", "review b", "b c", "late c")
)


def deployed(engine, *bodies, process="p", **options):
    for body in bodies:
        engine.models.deploy(process_of(body, process), **options)


def complete(engine, run, element):
    (task,) = until(
        lambda: [each for each in engine.models.tasks(run=run.id) if each.element == element]
    )
    engine.models.complete(task.id, {}, by="ann")


def test_a_run_moves_with_its_open_task_and_ends_in_the_other_version(engine, database):
    deployed(engine, FIRST)
    run = waiting(engine, "p", {"x": 1})
    (gate,) = engine.gates.list()
    deployed(engine, SECOND)

    preview = engine.models.migrate(run.id, 2, {"a": "review"}, dry_run=True)
    assert run.history()[-1].kind == "gate_opened"
    moved = engine.models.migrate(run.id, 2, {"a": "review"}, by="ann", reason="a deadline")

    assert moved == preview
    (token,) = engine.models.tokens(run.id)
    assert (token.element, moved.moved, token.waits_for) == ("review", [token.id], "user")
    instructed = next(event for event in run.history() if event.kind == "instructed")
    assert (instructed.data["by"], instructed.data["reason"]) == ("ann", "a deadline")
    query = "SELECT element FROM holdfast.resting_token WHERE run_id = :run"
    assert [tuple(row) for row in execute(database, query, run=run.id)] == [("review",)]
    assert [each.id for each in engine.gates.list()] == [gate.id]
    assert [each.element for each in engine.models.tokens(run.id, at=1)] == ["a"]

    first, second = (engine.models.diagram(run.id, at) for at in (1, None))
    assert (first["version"], second["version"]) == ("1", "2")
    assert 'id="a"' in first["xml"] and 'id="review"' in second["xml"]
    assert second["elements"]["review"]["active"] == 1
    assert second["tokens"][0]["element"] == "review"

    complete(engine, run, "review")
    complete(engine, run, "b")
    complete(engine, run, "c")
    assert run.result(timeout=60) == {"x": 1}
    assert engine.models.trace(run.id).flows == ["f1", "f2", "f3"]
    assert "late" in {node.id for node in run.diagram().nodes}


def test_a_run_that_moves_while_its_tasks_are_read_is_shown_as_it_was(
    engine, database, monkeypatch
):
    deployed(engine, FIRST)
    run = waiting(engine, "p", {"x": 1})
    deployed(engine, SECOND)
    load = model_tasks.history_to_load

    def move_and_load(view, run_id):
        monkeypatch.setattr(model_tasks, "history_to_load", load)
        with Engine(database, work=False) as other:
            other.models.migrate(run_id, 2, {"a": "review"})
            complete(other, run, "review")
            until(lambda: [task.element for task in other.models.tasks()] == ["b"])
        return load(view, run_id)

    monkeypatch.setattr(model_tasks, "history_to_load", move_and_load)

    assert [(task.element, task.variables) for task in engine.models.tasks()] == [("a", {"x": 1})]
    assert [task.element for task in engine.models.tasks()] == ["b"]


def test_a_plan_knows_the_version_that_its_history_has(engine, database, monkeypatch):
    deployed(engine, FIRST)
    run = waiting(engine, "p", {"x": 1})
    deployed(engine, SECOND)
    get = RunService.get

    def get_and_move(service, run_id):
        monkeypatch.setattr(RunService, "get", get)
        record = get(service, run_id)
        with Engine(database, work=False) as other:
            other.models.migrate(run_id, 2, {"a": "review"})
        return record

    monkeypatch.setattr(RunService, "get", get_and_move)

    with pytest.raises(BadOption, match="the run has this version"):
        engine.models.migrate(run.id, 2, {"a": "review"}, dry_run=True)


def test_a_refused_migration_changes_nothing(engine):
    deployed(engine, FIRST)
    run = waiting(engine, "p")
    deployed(engine, SECOND)
    events = [event.seq for event in run.history()]

    refused = engine.models.migrate(run.id, 2)
    assert refused.moved == []
    assert list(refused.refused.values()) == [
        "the other version has no element 'a': map a to another element"
    ]
    wrong = engine.models.migrate(run.id, 2, {"a": "s"}, dry_run=True)
    assert "a userTask, and s" in next(iter(wrong.refused.values()))
    for call, error in (
        (lambda: engine.models.migrate(run.id, 2, {"a": "s"}), MappingRefused),
        (lambda: engine.models.migrate(run.id, 2, {"a": "review", "b": "x"}), MappingRefused),
        (lambda: engine.models.migrate(run.id, 3, {}), ModelNotFound),
        (lambda: engine.models.migrate(run.id, 1, {}), BadOption),
        (lambda: engine.models.migrate(run.id, 2, {"a": 1}), BadOption),
        (lambda: engine.models.migrate("nowhere", 2), RunNotFound),
    ):
        with pytest.raises(error):
            call()

    assert [event.seq for event in run.history()] == events
    assert engine.run(run.id).record.version == "1"
    run.cancel()
    until(lambda: run.status == "cancelled")
    with pytest.raises(RunFinished):
        engine.models.migrate(run.id, 2, {"a": "review"})


def test_a_worker_without_the_handlers_leaves_the_run_to_another_one(database):
    body = '<startEvent id="s"/><userTask id="a"/><serviceTask id="{}"/>' + flows("s a", "a {}")
    first, second = (body.replace("{}", name) for name in ("pack", "send"))
    pack = {"pack": lambda: {"done": "pack"}}
    both = {**pack, "send": lambda: {"done": "send"}}
    with Engine(database, handlers=both, work=False) as client:
        deployed(client, first, second)
        client.models.activate("p", 1)
        with Engine(database, handlers=pack, shutdown_timeout=1) as engine:
            run = waiting(engine, "p")
            engine.models.migrate(run.id, 2)
            assert client.run(run.id).record.version == "2"
        complete(client, run, "a")
        with Engine(database, handlers=both, shutdown_timeout=1) as engine:
            assert engine.run(run.id).result(timeout=60) == {"done": "send"}
            assert engine.models.trace(run.id).elements["send"].completed == 1
            assert engine.database.check() == []


def test_a_handler_at_work_goes_on_in_the_other_version(database):
    entered, release = threading.Event(), threading.Event()

    def work():
        entered.set()
        assert release.wait(60)
        return {"worked": True}

    body = '<startEvent id="s"/><serviceTask id="work"/>{}' + flows("s work")
    later = '<userTask id="after"/><sequenceFlow id="x" sourceRef="work" targetRef="after"/>'
    with Engine(database, handlers={"work": work}, shutdown_timeout=1) as engine:
        deployed(engine, body.replace("{}", ""))
        run = engine.start("p", {})
        assert entered.wait(60)
        deployed(engine, body.replace("{}", later))

        engine.models.migrate(run.id, 2)
        release.set()

        complete(engine, run, "after")
        assert run.result(timeout=60) == {"worked": True}
        assert [event.kind for event in run.history()].count("step_completed") == 1


def test_a_migration_is_refused_if_the_run_goes_on_meanwhile(database):
    with Engine(database, shutdown_timeout=1) as engine:
        deployed(engine, FIRST, '<startEvent id="s"/><userTask id="a"/>' + flows("s a"))
        engine.models.activate("p", 1)
        run = waiting(engine, "p")
    with Engine(database, work=False) as client:
        complete(client, run, "a")  # no worker has taken it yet: the plan sees the token at a
        revision = client.run(run.id).record.revision
        with ThreadPoolExecutor() as threads:
            answer = threads.submit(client.models.migrate, run.id, 2, by="ann")
            until(lambda: client.run(run.id).record.revision > revision)
            with Engine(database, shutdown_timeout=1) as engine:
                migration = answer.result(timeout=30)
                (token,) = engine.models.tokens(run.id)

        assert (migration.moved, token.element) == ([], "b")
        assert list(migration.refused) == [token.id]
        assert "the other version has no element 'b'" in migration.refused[token.id]
        kinds = [event.kind for event in client.run(run.id).history()]
        assert "version_changed" not in kinds and "instructed" in kinds
        with Engine(database, shutdown_timeout=1) as engine:  # the refusal is part of the history
            complete(engine, run, "b")
            assert engine.run(run.id).result(timeout=60) == {}
            assert engine.run(run.id).record.version == "1"
            assert engine.database.check() == []


def waits_version(prefix):
    """Return a process with an external task, an incident and a wait for a message."""
    broken, send, money = (f"{prefix}-{name}" for name in ("broken", "send", "money"))
    body = (
        f'<startEvent id="s"/><serviceTask id="{broken}" camunda:topic="broken-waits"/>'
        f'<serviceTask id="{send}" camunda:topic="ship-waits"/>'
        f'<receiveTask id="{money}" messageRef="m"/>'
        + flows(f"s {broken}", f"s {send}", f"s {money}")
    )
    return process_of(body, "renamed_waits", more='<message id="m" name="paid"/>')


def test_open_waits_show_the_elements_of_the_other_version(database):
    def broken():
        raise ValueError("no")

    names = {f"old-{name}": f"new-{name}" for name in ("broken", "send", "money")}
    with Engine(database, handlers={"broken-waits": broken}, shutdown_timeout=1) as engine:
        engine.models.deploy(waits_version("old"))
        engine.models.deploy(waits_version("new"))
        engine.models.activate("renamed_waits", 1)
        run = engine.start("renamed_waits", {})
        until(lambda: engine.models.incidents(run=run.id) and engine.models.tasks(run=run.id))
        engine.models.migrate(run.id, 2, names)

        (incident,) = engine.models.incidents(run=run.id)
        (task,) = engine.models.tasks(run=run.id, element="new-send")
        assert (incident.element, task.element) == ("new-broken", "new-send")
        assert engine.models.tasks(run=run.id, element="old-send") == []
        texts = " ".join(blocker.text for blocker in engine.why(run.id).blockers)
        assert all(name in texts for name in names.values()) and "old-" not in texts
        with pytest.raises(NoReceiver):
            engine.models.message("paid", run=run.id, element="old-money")
        assert engine.models.message("paid", element="new-money").element == "new-money"

        engine.models.skip(incident.id)
        engine.models.complete(task.id)
        run.result(timeout=60)
        assert engine.database.check() == []


def test_a_replay_from_a_step_before_the_migration_is_in_the_version_of_that_step(engine):
    deployed(engine, FIRST)
    run = waiting(engine, "p")
    complete(engine, run, "a")
    until(lambda: engine.models.tasks(run=run.id, element="b"))
    other = '<startEvent id="s"/><userTask id="x"/><userTask id="c"/>' + flows("s x", "x c")
    deployed(engine, other)
    engine.models.migrate(run.id, 2, {"b": "c"})
    complete(engine, run, "c")
    run.result(timeout=60)

    copy = engine.fork(run.id, from_step="b")
    assert run.replay(from_step="b") == "pending"

    for each in (run, copy):
        each.wait_until("waiting", timeout=60)
        assert each.record.version == "1"
        assert [token.element for token in engine.models.tokens(each.id)] == ["b"]
        complete(engine, each, "b")
        assert each.result(timeout=60) == {}
        assert list(engine.models.trace(each.id).elements) == ["s", "a", "b"]
    replayed = next(event for event in run.history() if event.kind == "run_replayed")
    assert replayed.data["version"] == "1"
    assert engine.fork(run.id).record.version == "1"
    assert engine.database.check() == []


def test_many_runs_move_at_once_and_the_others_are_refused(engine):
    deployed(engine, FIRST)
    runs = [waiting(engine, "p") for _ in range(3)]
    complete(engine, runs[0], "a")
    until(lambda: [token.element for token in engine.models.tokens(runs[0].id)] == ["b"])
    deployed(engine, SECOND)
    query = engine.runs(workflow="p", version="1")

    preview = query.migrate(2, {"a": "review"}, dry_run=True)
    plain = query.migrate(2, dry_run=True)
    report = query.migrate(2, {"a": "review"}, by="ann")

    assert sorted(preview.done) == sorted(run.id for run in runs)
    assert plain.done == [runs[0].id]
    assert "map a to another element" in plain.refused[runs[1].id]
    assert (report.changed, report.refusals) == (3, 0)
    until(lambda: engine.runs(workflow="p", version="2").count() == 3)
    again = engine.runs(ids=[runs[0].id]).migrate(2)
    assert "has this version" in again.refused[runs[0].id]
    for run in runs[1:]:
        complete(engine, run, "review")


def test_a_replay_and_a_fork_follow_the_migration(database):
    body = '<startEvent id="s"/><userTask id="{}"/><serviceTask id="fail"/>'
    calls = []

    def fail():
        calls.append(1)
        if len(calls) < 2:
            raise ValueError("no")
        return {"calls": len(calls)}

    with Engine(database, handlers={"fail": fail}, shutdown_timeout=1) as engine:
        deployed(engine, body.replace("{}", "a") + flows("s a", "a fail"), saga="instance")
        run = waiting(engine, "p")
        deployed(engine, body.replace("{}", "b") + flows("s b", "b fail"), saga="instance")
        engine.models.migrate(run.id, 2, {"a": "b"})
        complete(engine, run, "b")
        until(lambda: run.status == "failed")

        run.replay()
        assert run.result(timeout=60) == {"calls": 2}
        assert engine.models.trace(run.id).elements["b"].completed == 1
        copy = engine.fork(run.id, from_step="fail")
        assert copy.result(timeout=60) == {"calls": 3}


def test_an_exported_run_has_all_of_its_versions(engine, tmp_path):
    deployed(engine, FIRST)
    run = waiting(engine, "p")
    deployed(engine, SECOND)
    engine.models.migrate(run.id, 2, {"a": "review"})

    engine.database.export(run.id, tmp_path / "one.db")

    with Engine(tmp_path / "one.db", work=False) as copy:
        assert [token.element for token in copy.models.tokens(run.id)] == ["review"]
        assert [token.element for token in copy.models.tokens(run.id, at=1)] == ["a"]
        assert copy.database.check() == []


def test_only_runs_of_models_migrate(engine):
    engine.models.deploy(toy("order", ("wait", "paid")))
    run = waiting(engine, "order")

    with pytest.raises(NotThere):
        engine.models.migrate(run.id, 2)
    engine.models.message("paid", {})
    run.result(timeout=60)
