"""``holdfast bench``: measure Holdfast on the user's disk or server, and compare it with the bare
database driver."""

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
from holdfast.connect.blocking.engine import Engine

TURNS = 3
RUNS = 300


@step(name="bench_step")
async def return_number(number: int) -> int:
    return number


@step(name="bench_clock")
async def clock() -> int:
    return time.monotonic_ns()


@workflow(name="holdfast_bench_steps")
async def steps(count: int) -> int:
    for number in range(count):
        await return_number(number)
    return count


@workflow(name="holdfast_bench_waiter")
async def waiter() -> int:
    await wait_signal("go")
    return await clock()


@click.command(
    short_help="Measure the speed on this disk or server.",
    epilog="Example: holdfast --db orders.db bench --json",
)
@click.option(
    "--seconds",
    type=click.FloatRange(0.2, 600),
    default=5.0,
    show_default=True,
    help="The approximate duration of the benchmark. E.g. --seconds 10",
)
@printing
def bench(seconds: float) -> None:
    """Measure the speed of Holdfast on the disk or the server of the database, and compare it with
    commits of the bare driver.

    The benchmark runs in a new file in the same folder, or in a new database on the same server,
    and removes it afterwards; your data is not touched. All figures are at full durability."""
    with scratch_database(command_context().url) as scratch:
        figures = _measure(scratch, seconds)
    if command_context().as_json:
        print_json({"database": without_secret(command_context().url), **figures})
    else:
        _print(figures)


def _measure(scratch: ScratchDatabase, seconds: float) -> dict[str, float]:
    opened_at = time.perf_counter()
    with Engine(scratch.url, workflows=[steps, waiter]) as engine:
        engine.start(steps, 1).result()
        figures = {"first_run_ms": (time.perf_counter() - opened_at) * 1e3}
        figures |= _measure_steps(scratch, engine, seconds / 2)
        figures |= _measure_runs(engine, seconds / 4)
        figures |= _measure_signals(engine, seconds / 4)
    return {name: round(value, 3) for name, value in figures.items()}


def _measure_steps(scratch: ScratchDatabase, engine: Engine, seconds: float) -> dict[str, float]:
    """Measure sequential steps and commits of the bare driver.

    Both are measured in turns: the speed of a disk varies, so that only neighbouring measurements
    can be compared."""
    commit_rates: list[float] = []
    step_rates: list[float] = []
    cpu_per_step: list[float] = []
    for _ in range(TURNS):
        commit_rates.append(_rate(scratch.commit, 1, seconds / TURNS / 2))
        counter = _CallCounter(lambda: engine.start(steps, 50).result())
        cpu_before = time.process_time()
        step_rates.append(_rate(counter, 50, seconds / TURNS / 2))
        cpu_per_step.append((time.process_time() - cpu_before) / (counter.calls * 50))
    ratio = statistics.median(
        step_rate / commit_rate
        for step_rate, commit_rate in zip(step_rates, commit_rates, strict=True)
    )
    return {
        "commits_per_s": statistics.median(commit_rates),
        "steps_per_s": statistics.median(step_rates),
        "steps_to_commits": ratio,
        "cpu_ms_per_step": statistics.median(cpu_per_step) * 1e3,
    }


def _measure_runs(engine: Engine, seconds: float) -> dict[str, float]:
    counter = _CallCounter(lambda: [run.result() for run in engine.start_many(steps, [5] * RUNS)])
    cpu_before = time.process_time()
    rate = _rate(counter, RUNS, seconds)
    return {
        "runs_per_s": rate,
        "cpu_ms_per_run": (time.process_time() - cpu_before) / (counter.calls * RUNS) * 1e3,
    }


def _measure_signals(engine: Engine, seconds: float) -> dict[str, float]:
    latencies: list[float] = []
    deadline = time.perf_counter() + seconds
    while len(latencies) < 10 or time.perf_counter() < deadline:
        run = engine.start(waiter)
        while run.status.value == "running":
            time.sleep(0.001)
        sent_at = time.monotonic_ns()
        run.signal("go")
        latencies.append((run.result() - sent_at) / 1e6)
    latencies.sort()
    return {
        "signal_p50_ms": latencies[len(latencies) // 2],
        "signal_p99_ms": latencies[int(len(latencies) * 0.99)],
    }


class _CallCounter:
    def __init__(self, call: Callable[[], Any]) -> None:
        self._call = call
        self.calls = 0

    def __call__(self) -> None:
        self._call()
        self.calls += 1


def _rate(call: Callable[[], Any], each: int, seconds: float) -> float:
    """Repeat *call*, which does *each* units of work, for *seconds*; return units per second."""
    count = 0
    start = time.perf_counter()
    while (elapsed := time.perf_counter() - start) < seconds or count == 0:
        call()
        count += each
    return count / elapsed


def _print(figures: dict[str, float]) -> None:
    print_fields(
        [
            ("commits of the bare driver", f"{figures['commits_per_s']:,.0f} per second"),
            (
                "steps in sequence",
                (
                    f"{figures['steps_per_s']:,.0f} per second,"
                    f" {figures['steps_to_commits']:.2f} per commit of the bare driver,"
                    f" {figures['cpu_ms_per_step']:.2f} ms CPU each"
                ),
            ),
            (
                "concurrent runs of 5 steps",
                (
                    f"{figures['runs_per_s']:,.0f} per second,"
                    f" {figures['cpu_ms_per_run']:.2f} ms CPU each"
                ),
            ),
            (
                "from signal to next step",
                (
                    f"{figures['signal_p50_ms']:.1f} ms (median),"
                    f" {figures['signal_p99_ms']:.1f} ms (99th percentile)"
                ),
            ),
            ("from opening to the first result", f"{figures['first_run_ms']:.0f} ms"),
        ]
    )
