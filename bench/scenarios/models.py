"""Models: instances of ten service tasks, one user task among very many, a multi-instance activity,
reading, and a broadcast. SpiffWorkflow runs the same ten tasks in memory, and serializes the
instance after each."""

from __future__ import annotations

import io
import itertools
import time
from typing import Any

from bench.place import Place, check
from bench.scenario import Scenario, Target

SCENARIO = Scenario(
    "models",
    "BPMN models",
    "instances_cpu_ms",
    "ms of CPU per instance of ten service tasks",
    size={
        "n": 1000,
        "few": 50,
        "many": 10_000,
        "parallel": 10_000,
        "elements": 5000,
        "runs": 10_000,
    },
    share={"spiff": 0.1},
    targets=(
        Target("sqlite", "instances_cpu_ms", 1 / 3, "spiff", at_most=True),
        Target("sqlite", "instances_over_python", 1.3, at_most=True),
        Target("sqlite", "complete_many_over_few", 2.0, at_most=True),
        Target("postgres", "complete_many_over_few", 2.0, at_most=True),
        Target("sqlite", "list_many_over_few", 2.0, at_most=True),
        Target("sqlite", "take_up_many_over_few", 2.0, at_most=True),
        Target("sqlite", "parallel_seconds", 2.0, at_most=True),
        Target("sqlite", "reading_seconds", 0.2, at_most=True),
        Target("sqlite", "broadcast_seconds", 5.0, at_most=True),
    ),
    rounds=1,
    timeout=600,
)

TASKS = 10
HEAD = '<definitions xmlns="http://www.omg.org/spec/BPMN/20100524/MODEL" id="d">'


def chain(tag: str, count: int, inner: str = "", id: str = "chain") -> bytes:
    """Return a process of tasks that follow each other."""
    ids = ["start", *(f"t{number}" for number in range(count)), "end"]
    tasks = "".join(f'<{tag} id="{task}" name="{task}">{inner}</{tag}>' for task in ids[1:-1])
    flows = "".join(
        f'<sequenceFlow id="f{number}" sourceRef="{source}" targetRef="{target}"/>'
        for number, (source, target) in enumerate(itertools.pairwise(ids))
    )
    ends = '<startEvent id="start"/><endEvent id="end"/>'
    body = f'<process id="{id}" isExecutable="true">{ends}{tasks}{flows}</process>'
    return f"{HEAD}{body}</definitions>".encode()


def spread(tag: str, id: str) -> bytes:
    """Return a process with one activity for each of ``n`` instances at once."""
    loop = (
        "<multiInstanceLoopCharacteristics><loopCardinality>${n}</loopCardinality>"
        "</multiInstanceLoopCharacteristics>"
    )
    return chain(tag, 1, loop, id)


def catching(id: str) -> bytes:
    """Return a process that waits for a signal."""
    body = (
        f'<signal id="go" name="go"/><process id="{id}" isExecutable="true"><startEvent id="s"/>'
        '<intermediateCatchEvent id="c"><signalEventDefinition signalRef="go"/>'
        '</intermediateCatchEvent><endEvent id="e"/>'
        '<sequenceFlow id="f" sourceRef="s" targetRef="c"/>'
        '<sequenceFlow id="g" sourceRef="c" targetRef="e"/></process>'
    )
    return f"{HEAD}{body}</definitions>".encode()


def holdfast(place: Place) -> dict[str, float]:
    from bench.peers import ours
    from bench.scenarios.s2 import run_at_once
    from holdfast import Engine, bpmn

    async def count(x: int = 0) -> dict[str, int]:
        return {"x": x + 1}

    handlers = {f"t{number}": count for number in range(TASKS)}
    figures: dict[str, float] = {}
    with Engine(place.url, handlers=handlers) as engine:
        run_at_once(engine, ours.steps, 100, 5)
        engine.models.deploy(chain("serviceTask", TASKS))
        with place.meter() as meter:
            for run in engine.start_many("chain", [{"x": 0}] * place.n):
                check(run.result(timeout=300), {"x": TASKS})
        figures["instances_cpu_ms"] = meter.cpu / place.n * 1e3
        with place.meter() as python:
            run_at_once(engine, ours.steps, place.n, TASKS)
        figures["instances_over_python"] = meter.cpu / python.cpu
        engine.models.deploy(spread("serviceTask", "parallel"))
        with place.meter() as meter:
            engine.start("parallel", {"n": place.parallel, "x": 0}).result(timeout=300)
        figures["parallel_seconds"] = meter.cpu
        engine.models.deploy(catching("catching"))
        figures["broadcast_seconds"] = _broadcast(engine, place)
    text = chain("task", place.elements // 2)
    with place.meter() as meter:
        check(len(bpmn.load(text).elements) >= place.elements, True)
    figures["reading_seconds"] = meter.cpu
    figures |= _open_tasks(place)
    return figures


def _broadcast(engine: Any, place: Place) -> float:
    """Send a signal to many runs that wait for it, and wait for their ends."""
    runs = engine.start_many("catching", [{}] * place.runs)
    for run in runs:
        run.wait_until("waiting", timeout=300)
    with place.meter() as meter:
        check(len(engine.models.broadcast("go").reached), place.runs)
        for run in runs:
            run.result(timeout=300)
    return meter.cpu


def _open_tasks(place: Place) -> dict[str, float]:
    """Complete, list and take up again one run with few open user tasks, and one with many."""
    few, many = (_tasks_of(place, size) for size in (place.few, place.many))
    figures = {f"{name}_few_ms": value for name, value in few.items()}
    figures |= {f"{name}_many_ms": value for name, value in many.items()}
    return figures | {f"{name}_many_over_few": many[name] / few[name] for name in few}


def _tasks_of(place: Place, size: int) -> dict[str, float]:
    from holdfast import Engine

    turns = min(place.few - 2, 40)
    with Engine(place.url) as engine:
        engine.models.deploy(spread("userTask", "people"))
        run = engine.start("people", {"n": size})
        run.wait_until("waiting", timeout=300)
        with place.meter() as listing:
            tasks = engine.models.tasks(run=run.id, limit=size)
        check(len(tasks), size)
        seen = len(run.history())
        with place.meter() as completing:
            for task in tasks[:turns]:
                engine.models.complete(task.id, {"x": 1}, by="ann")
            _wait_for(lambda: len(run.history(after=seen)) >= turns)
    with Engine(place.url, work=False) as client:
        client.models.complete(tasks[turns].id, by="ann")
        seen = len(client.run(run.id).history())
    with place.meter() as taking, Engine(place.url) as engine:
        _wait_for(lambda: bool(engine.run(run.id).history(after=seen)))
        engine.run(run.id).wait_until("waiting", timeout=300)
    with Engine(place.url) as engine:
        engine.run(run.id).cancel()
    return {
        "list": listing.cpu / size * 1e3,
        "complete": completing.cpu / turns * 1e3,
        "take_up": taking.cpu / size * 1e3,
    }


def _wait_for(condition: Any) -> None:
    until = time.monotonic() + 300
    while not condition():
        if time.monotonic() > until:
            raise RuntimeError("nothing came within five minutes")
        time.sleep(0.002)


def spiff(place: Place) -> dict[str, float]:
    from SpiffWorkflow import TaskState  # type: ignore[import-not-found]
    from SpiffWorkflow.bpmn.parser import BpmnParser  # type: ignore[import-not-found]
    from SpiffWorkflow.bpmn.serializer import (  # type: ignore[import-not-found]
        BpmnWorkflowSerializer,
    )
    from SpiffWorkflow.bpmn.workflow import BpmnWorkflow  # type: ignore[import-not-found]

    parser = BpmnParser()
    parser.add_bpmn_io(io.BytesIO(chain("scriptTask", TASKS, "<script>x = x + 1</script>")))
    spec = parser.get_spec("chain")
    serializer = BpmnWorkflowSerializer()
    with place.meter() as meter:
        for _ in range(place.n):
            instance = BpmnWorkflow(spec)
            while (task := instance.get_next_task(state=TaskState.READY)) is not None:
                task.data.setdefault("x", 0)
                task.run()
                serializer.serialize_json(instance)
            check(instance.data, {"x": TASKS})
    return {"instances_cpu_ms": meter.cpu / place.n * 1e3}
