"""``db check`` replays the runs of models and compares the tokens at rest."""

from __future__ import annotations

from holdfast import Engine
from tests.bpmn.models import boundary, flows, process_of, timer
from tests.engine.databases import execute
from tests.engine.models.test_operators import until, waiting

BODY = (
    '<startEvent id="s"/><userTask id="a"/><userTask id="b"/><parallelGateway id="j"/>'
    + boundary("late", "a", timer("timeDuration", "PT1H"))
    + flows("s a", "s b", "a j", "b j")
)


def test_tokens_at_rest_that_differ_from_the_history_are_found(database):
    with Engine(database, shutdown_timeout=1) as engine:
        engine.models.deploy(process_of(BODY))
        moved, lost, extra, _ = (waiting(engine, "p") for _ in range(4))
        assert engine.database.check() == []
    change = "UPDATE holdfast.resting_token SET element = 'b' WHERE run_id = :run AND element = 'a'"
    execute(database, change, run=moved.id)
    execute(database, "DELETE FROM holdfast.resting_token WHERE run_id = :run", run=lost.id)
    execute(
        database,
        "UPDATE holdfast.resting_token SET token = '77' WHERE run_id = :run AND element = 'b'",
        run=extra.id,
    )

    with Engine(database, work=False) as client:
        faults = {
            id: line for line in client.database.check() for id in ids_in(line, moved, lost, extra)
        }

        assert "element 'b', not 'a'" in faults[moved.id]
        assert faults[lost.id].count("is not stored") == 2
        assert "token 77 at b is stored" in faults[extra.id]
        assert len(client.database.check()) == 3


def ids_in(line, *runs):
    return [run.id for run in runs if run.id in line]


def test_a_run_whose_history_is_damaged_keeps_no_other_from_its_check(database):
    with Engine(database, shutdown_timeout=1) as engine:
        engine.models.deploy(process_of(BODY))
        damaged, woken, moved = (waiting(engine, "p") for _ in range(3))
        for run in (damaged, woken, moved):
            engine.models.set_variables(run.id, {"x": 1})
    change = "UPDATE holdfast.resting_token SET element = 'b' WHERE run_id = :run AND element = 'a'"
    execute(database, change, run=moved.id)
    wrong = "UPDATE holdfast.event SET kind = 'step_completed' WHERE run_id = :run AND kind = :kind"
    for run in (damaged, woken):
        execute(database, wrong, run=run.id, kind="instructed")

    with Engine(database, work=False) as client:
        # A damaged run hides no task, not even its own.
        tasks = {task.run_id: task for task in client.models.tasks()}
        assert tasks.keys() == {damaged.id, woken.id, moved.id}
        assert (tasks[moved.id].variables, tasks[woken.id].variables) == ({"x": 1}, {})
        client.models.complete(tasks[woken.id].id, by="ann")
        assert client.run(woken.id).status == "pending"
        lines = client.database.check()

        for run in (damaged, woken):
            assert any(run.id in line and "cannot be replayed" in line for line in lines)
        assert any(moved.id in line and "not 'a'" in line for line in lines)


def test_a_call_of_a_process_that_comes_later_is_followed_by_a_replay(database):
    calls = '<startEvent id="s"/><callActivity id="c" calledElement="token_check_later"/>'
    with Engine(database, shutdown_timeout=1) as engine:
        engine.models.deploy(process_of(calls + flows("s c")))
        run = waiting(engine, "p")
        assert [token.waits_for for token in engine.models.tokens(run.id)] == ["incident"]
        assert engine.database.check() == []
        engine.models.deploy(process_of(BODY, "token_check_later"))
        (incident,) = engine.models.incidents(run=run.id)
        engine.models.retry(incident.id)
        until(lambda: len(engine.models.tasks()) == 2)
    with Engine(database, shutdown_timeout=1) as engine:
        for task in engine.models.tasks():
            engine.models.complete(task.id, {}, by="ann")

        assert engine.run(run.id).result(timeout=60) == {}
        assert engine.runs(workflow="token_check_later").count() == 1
        assert engine.models.trace(run.id).elements["c"].incidents == 1
        assert engine.database.check() == []
