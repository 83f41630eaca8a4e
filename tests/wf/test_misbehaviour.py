"""Programs, tasks, providers and resolvers that are killed, hang, raise, answer late or twice."""

import logging
import sys
from contextlib import closing

import pytest

import holdfast
from holdfast import wf
from holdfast.core.status import Status
from holdfast.errors import HoldfastError
from holdfast.testing import Lab
from tests.engine.waiting import until
from tests.wf.flows import Flows
from tests.wf.test_executors import error_of, is_alive, pids_of

PROGRAM = """
import json, os, sys, time
call = json.load(sys.stdin)
modes = open("modes").read().split()
open("modes", "w").write(" ".join(modes[1:]))
mode = modes[0]
if mode == "killed":
    os.kill(os.getpid(), 9)
if mode == "hang":
    open("program.pid", "w").write(str(os.getpid()))
    time.sleep(600)
if mode == "raises":
    raise ValueError("no route")
answer = json.dumps({"context": mode, "output": {"key": call["idempotency_key"]}})
print({"list": "[1]", "field": '{"verdict": 1}', "twice": answer + answer}.get(mode, answer))
"""


@pytest.fixture
def program(tmp_path):
    """Return a function that runs a call by a program, which misbehaves as told."""
    labs = []

    def run(text, *modes):
        (tmp_path / "modes").write_text(" ".join(modes))
        (tmp_path / "program.py").write_text(PROGRAM)
        library = wf.Library(root=tmp_path)
        library.add(text, path="w.wf")
        command = wf.Program([sys.executable, "program.py"], name="scorer")
        library.executor("score")(command)
        lab = Lab(tmp_path / "runs.db", workflows=[library])
        labs.append(lab)
        return lab, lab.start(library["w"], {}, cwd=str(tmp_path))

    yield run
    for lab in labs:
        lab.close()


@pytest.mark.parametrize(
    "mode, message",
    [
        ("killed", "SIGKILL"),
        ("raises", "no route"),
        ("list", "JSON object"),
        ("twice", "no JSON"),
        ("field", "verdict"),
    ],
)
def test_a_program_that_misbehaves_is_started_again(program, mode, message):
    lab, run = program("workflow w { call score { retries = 1 } }", mode, "ok")
    assert lab.finish(run)["context"] == "ok"
    (step,) = lab.engine.run(run.id).steps()
    assert step.attempts == 2

    lab, run = program("workflow w { call score }", mode)
    lab.settle()
    assert message in error_of(lab, run)


def test_a_program_that_hangs_is_stopped_at_its_time_limit(program, tmp_path):
    lab, run = program('workflow w { call score { timeout = "1m" retries = 1 } }', "hang", "ok")
    pids = pids_of(tmp_path, "program.pid")
    lab.clock.advance("61s")

    assert lab.finish(run)["context"] == "ok"
    until(lambda: not any(is_alive(pid) for pid in pids))


@holdfast.task(name="render_elsewhere")
def render_elsewhere(call: dict) -> dict:
    raise AssertionError("a remote worker does it")


def test_a_task_of_a_dead_worker_is_leased_again_and_late_answers_change_nothing(database):
    library = wf.Library()
    library.add("workflow w { call render { lane = gpu } call z }", path="w.wf")
    library.executor("render")(render_elsewhere)
    library.executor("z")(lambda call: {"context": call.inputs["prior_context"]})
    with closing(Lab(database, workflows=[library], lanes=["default"])) as lab:
        run = lab.start(library["w"])
        lab.settle()
        tasks = lab.engine.tasks
        with tasks.worker("dies", workflows=["render_elsewhere"], lanes=["gpu"], ttl="30s") as dead:
            (lost,) = dead.claim()
            assert lost.input["step"] == "render"
            lab.advance("2m")
            with tasks.worker("next", workflows=["render_elsewhere"], lanes=["gpu"]) as worker:
                (lease,) = worker.claim()
                with pytest.raises(HoldfastError):
                    lost.complete({"context": "late"})
                lease.complete({"context": "in time"})
                lease.complete({"context": "in time"})
                with pytest.raises(HoldfastError):
                    lease.complete({"context": "another answer"})

        assert lab.finish(run)["context"] == "in time"
        assert [step.attempts for step in lab.engine.run(run.id).steps()] == [1, 1]


@pytest.mark.parametrize("answer", [ValueError("no route"), [{"name": "x"}], 7, [{"id": ""}]])
def test_a_provider_that_misbehaves_fails_the_run_with_its_reason(tmp_path, answer):
    text = "workflow w { foreach each { over = things max_parallel = 1 do { call a } } }"
    flows = Flows(text, root=tmp_path)

    @flows.library.provider("things")
    def things(ask):
        if isinstance(answer, Exception):
            raise answer
        return answer

    with closing(Lab(tmp_path / "x.db", workflows=[flows.library])) as lab:
        run = lab.start(flows["w"])
        lab.settle()
        assert lab.engine.run(run.id).status is Status.FAILED
        expected = "no route" if isinstance(answer, Exception) else "things"
        assert expected in error_of(lab, run)
        (step,) = lab.engine.run(run.id).steps()
        assert (step.step, step.status) == ("each", "failed")
        assert flows.calls == []


def test_a_resolver_that_raises_is_asked_again(tmp_path, caplog):
    answers = [ValueError("no route"), "soon", None, wf.rejected("red")]
    flows = Flows('workflow w { gate checks { prompt = "green?" } }', root=tmp_path)

    @flows.library.resolver("checks", every="30s")
    def checks(ask):
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    caplog.set_level(logging.WARNING, "holdfast")
    with closing(Lab(tmp_path / "x.db", workflows=[flows.library])) as lab:
        run = lab.start(flows["w"])
        for _ in range(6):
            lab.advance("31s")
        assert answers == []
        assert "red" in error_of(lab, run)

    assert "no route" in caplog.text
