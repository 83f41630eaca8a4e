"""The program whose disk loses power: it starts runs, sends signals and waits for results, then
judges what each failure left.

It is a process of its own, because it replaces the disk of SQLite for the whole process. Arguments:
folder, seed, images. Prints one line per finding and, at the end, what it has done.
"""

from __future__ import annotations

import json
import pathlib
import sys

from holdfast import Engine, gather, step, wait_signal, workflow
from holdfast.streams import emit
from tests.crash.lossy_disk import Recording, power_losses

RUNS = 120
FINISH_EVERY = 8
"""Of so many images one gets a worker that finishes what is open."""


@step
async def act(n: int) -> int:
    emit(n)
    return n + 1


@workflow(name="power_loss.chain")
async def chain(n: int) -> int:
    for _ in range(3):
        n = await act(n)
    n += sum(await gather(act(0), act(1)))
    return n + int(await wait_signal("add"))


def work(database: pathlib.Path, recording: Recording) -> None:
    """Run until many runs have ended, and acknowledge each step of the way."""
    with Engine(database, driver="apsw") as engine:
        runs = []
        for number in range(RUNS):
            run = engine.start(chain, number, id=f"run-{number}")
            recording.acknowledge(["started", run.id, number])
            runs.append(run)
            if number % 2:
                engine.signal(run.id, "add", 1, key="once")
                recording.acknowledge(["signalled", run.id, number])
        for number, run in enumerate(runs):
            if number % 2:
                recording.acknowledge(["completed", run.id, run.result(timeout="60s")])


def judge(image: pathlib.Path, facts: list[list[object]], *, finish: bool) -> list[str]:
    """Return what a power failure has lost."""
    findings = []
    engine = Engine(image, driver="apsw")
    try:
        findings += [f"law broken: {law}" for law in engine.database.check()]
        runs = {run.id: run for run in engine.runs().page(limit=10_000)}
        for kind, run_id, value in facts:
            run = runs.get(str(run_id))
            if run is None:
                findings.append(f"{run_id} was acknowledged and is lost")
            elif kind == "completed" and (run.status != "completed" or run.result != value):
                findings.append(f"{run_id} had completed with {value} and is {run.status}")
        if finish:
            findings += _finish(engine, facts)
    finally:
        engine.close()
    return findings


def _finish(engine: Engine, facts: list[list[object]]) -> list[str]:
    """Let a worker go on from the image: each run whose signal was acknowledged must complete."""
    engine.work()
    findings = []
    for kind, run_id, number in facts:
        if kind == "signalled":
            result = engine.run(str(run_id)).result(timeout="60s")
            expected = int(str(number)) + 3 + 1 + 2 + 1
            if result != expected:
                findings.append(f"{run_id} came to {result}, not {expected}")
    return findings + [f"law broken: {law}" for law in engine.database.check()]


def main() -> None:
    folder, seed, count = pathlib.Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    recording = Recording()
    recording.record()
    database = folder / "power.db"
    work(database, recording)
    operations = list(recording.operations)
    images = 0
    acknowledged = 0
    for number, (image, facts) in enumerate(
        power_losses(operations, database, folder, count=count, seed=seed)
    ):
        for finding in judge(image, facts, finish=number % FINISH_EVERY == 0):
            sys.stdout.write(f"image {image.parent.name}: {finding}\n")
        images += 1
        acknowledged += len(facts)
    checkpoints = sum(operation[:2] == ("sync", str(database)) for operation in operations)
    sys.stdout.write(
        json.dumps({"images": images, "acknowledged": acknowledged, "checkpoints": checkpoints})
        + "\n"
    )


if __name__ == "__main__":
    main()
