"""A model that waits in every iteration of a loop, with restarts of its worker: the cost of an
iteration must not grow with the iterations before it."""

from __future__ import annotations

import threading

from bench.place import Place, check
from bench.scenario import Scenario, Target

SCENARIO = Scenario(
    "model_loop",
    "a waiting loop with restarts",
    "growth",
    "cost of the last tenth per cost of the first",
    rounds=1,
    timeout=600,
    size={"n": 10_000, "restart": 100},
    targets=(Target("sqlite", "growth", 1.5, at_most=True),),
)

MODEL = """<definitions xmlns="http://www.omg.org/spec/BPMN/20100524/MODEL">
  <message id="m" name="next"/>
  <process id="bench_loop" isExecutable="true">
    <startEvent id="start"/><exclusiveGateway id="again"/>
    <receiveTask id="wait" messageRef="m"/><serviceTask id="count"/>
    <exclusiveGateway id="more" default="out"/><endEvent id="end"/>
    <sequenceFlow id="f1" sourceRef="start" targetRef="again"/>
    <sequenceFlow id="f2" sourceRef="again" targetRef="wait"/>
    <sequenceFlow id="f3" sourceRef="wait" targetRef="count"/>
    <sequenceFlow id="f4" sourceRef="count" targetRef="more"/>
    <sequenceFlow id="back" sourceRef="more" targetRef="again">
      <conditionExpression>${n &lt; total}</conditionExpression>
    </sequenceFlow>
    <sequenceFlow id="out" sourceRef="more" targetRef="end"/>
  </process>
</definitions>"""


def holdfast(place: Place) -> dict[str, float]:
    from holdfast import Engine

    counted = threading.Event()

    def count(n: int) -> dict[str, int]:
        counted.set()
        return {"n": n + 1}

    restart = place.size["restart"]
    seconds: list[float] = []
    cpu: list[float] = []
    run_id = ""
    for first in range(0, place.n, restart):
        with place.meter() as meter, Engine(place.url, handlers={"count": count}) as engine:
            if not run_id:
                engine.models.deploy(MODEL)
                run_id = engine.start("bench_loop", {"n": 0, "total": place.n}).id
            for _ in range(first, min(first + restart, place.n)):
                counted.clear()
                engine.models.message("next", ttl="1h")
                check(counted.wait(60), True)
            if first + restart >= place.n:
                result = engine.run(run_id).result(timeout=60)
                check(result["n"], place.n)
        seconds.append(meter.wall)
        cpu.append(meter.cpu)
    tenth = max(len(cpu) // 10, 1)
    return {
        "growth": sum(cpu[-tenth:]) / sum(cpu[:tenth]),
        "ms_per_iteration": sum(seconds) / place.n * 1e3,
        "cpu_ms_per_iteration": sum(cpu) / place.n * 1e3,
        "seconds": sum(seconds),
    }
