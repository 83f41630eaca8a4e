"""``holdfast bench``: how fast Holdfast is on your own disk or server, beside what the bare driver
reaches there."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import click

from holdfast.authoring.python.api_async import wait_signal
from holdfast.authoring.python.step import step
from holdfast.authoring.python.workflow import workflow
from holdfast.cli.context import command_context, printing, without_secret
from holdfast.cli.output import print_fields, print_json
from holdfast.cli.scratch_database import ScratchDatabase, scratch_database
from holdfast.connect.engine import Engine

TURNS = 3
RUNS = 300


@step(name="bench_step")
async def one(number: int) -> int:
    return number


@step(name="bench_clock")
async def clock() -> int:
    return time.monotonic_ns()


@workflow(name="holdfast_bench_steps")
async def steps(count: int) -> int:
    for number in range(count):
        await one(number)
    return count


@workflow(name="holdfast_bench_waiter")
async def waiter() -> int:
    await wait_signal("go")
    return await clock()


@click.command(
    short_help="Measure this disk or server.",
    epilog="Example: holdfast --db orders.db bench --json",
)
@click.option(
    "--seconds",
    type=click.FloatRange(0.2, 600),
    default=5.0,
    show_default=True,
    help="About how long it may take. E.g. --seconds 10",
)
@printing
def bench(seconds: float) -> None:
    """Measure how fast Holdfast is on the disk or the server of the database, beside commits of the
    bare driver.

    It works in a new file beside yours, or in a new database on the same server, and removes it;
    your data is not touched. All figures are at full durability."""
    with scratch_database(command_context().url) as place:
        found = _measure(place, seconds)
    if command_context().as_json:
        print_json({"database": without_secret(command_context().url), **found})
    else:
        _print(found)


def _measure(place: ScratchDatabase, seconds: float) -> dict[str, float]:
    began = time.perf_counter()
    with Engine(place.url, workflows=[steps, waiter]) as engine:
        engine.start(steps, 1).result()
        found = {"first_run_ms": (time.perf_counter() - began) * 1e3}
        found |= _steps(place, engine, seconds / 2)
        found |= _runs(engine, seconds / 4)
        found |= _signals(engine, seconds / 4)
    return {name: round(value, 3) for name, value in found.items()}


def _steps(place: ScratchDatabase, engine: Engine, seconds: float) -> dict[str, float]:
    """The driver and Holdfast in turn: what is compared is measured in the same moment."""
    raw, own, cpu = [], [], []
    for _ in range(TURNS):
        raw.append(_rate(place.commit, 1, seconds / TURNS / 2))
        before, counted = (
            time.process_time(),
            _CallCounter(lambda: engine.start(steps, 50).result()),
        )
        own.append(_rate(counted, 50, seconds / TURNS / 2))
        cpu.append((time.process_time() - before) / (counted.calls * 50))
    ratio = statistics.median(mine / bare for mine, bare in zip(own, raw, strict=True))
    return {
        "commits_per_s": statistics.median(raw),
        "steps_per_s": statistics.median(own),
        "steps_to_commits": ratio,
        "cpu_ms_per_step": statistics.median(cpu) * 1e3,
    }


def _runs(engine: Engine, seconds: float) -> dict[str, float]:
    before, counted = (
        time.process_time(),
        _CallCounter(lambda: [run.result() for run in engine.start_many(steps, [5] * RUNS)]),
    )
    rate = _rate(counted, RUNS, seconds)
    return {
        "runs_per_s": rate,
        "cpu_ms_per_run": (time.process_time() - before) / (counted.calls * RUNS) * 1e3,
    }


def _signals(engine: Engine, seconds: float) -> dict[str, float]:
    times: list[float] = []
    deadline = time.perf_counter() + seconds
    while len(times) < 10 or time.perf_counter() < deadline:
        run = engine.start(waiter)
        while run.status.value == "running":
            time.sleep(0.001)
        sent = time.monotonic_ns()
        run.signal("go")
        times.append((run.result() - sent) / 1e6)
    times.sort()
    return {"signal_p50_ms": times[len(times) // 2], "signal_p99_ms": times[int(len(times) * 0.99)]}


class _CallCounter:
    def __init__(self, call: Callable[[], Any]) -> None:
        self._call, self.calls = call, 0

    def __call__(self) -> None:
        self._call()
        self.calls += 1


def _rate(call: Callable[[], Any], each: int, seconds: float) -> float:
    """Return how many per second, *each* of them per call."""
    count, began = 0, time.perf_counter()
    while (taken := time.perf_counter() - began) < seconds or count == 0:
        call()
        count += each
    return count / taken


def _print(found: dict[str, float]) -> None:
    print_fields(
        [
            ("commits of the bare driver", f"{found['commits_per_s']:,.0f} per second"),
            (
                "steps in sequence",
                (
                    f"{found['steps_per_s']:,.0f} per second, {found['steps_to_commits']:.2f} of"
                    f" the commits, {found['cpu_ms_per_step']:.2f} ms CPU each"
                ),
            ),
            (
                "runs of 5 steps at once",
                f"{found['runs_per_s']:,.0f} per second, {found['cpu_ms_per_run']:.2f} ms CPU each",
            ),
            (
                "from signal to next step",
                (
                    f"{found['signal_p50_ms']:.1f} ms, 99 of 100 within"
                    f" {found['signal_p99_ms']:.1f} ms"
                ),
            ),
            ("from opening to the first run", f"{found['first_run_ms']:.0f} ms"),
        ]
    )
