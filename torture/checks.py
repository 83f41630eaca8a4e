"""Compare the ledger with the database at the end of a round.

Each check returns what is wrong, in words. A round is good when no check finds anything.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any

from holdfast import Engine
from holdfast.views.events import EventView
from holdfast.views.runs import RunView
from torture import workflows
from torture.ledger import Entry

_EXCUSE = 1.0
"""Seconds after a gap in which a process may end what it had begun before the gap."""

EXPECTED_ERRORS = frozenset(
    {
        "StoreFull",
        "StoreUnavailable",
        "StoreBusy",
        "StoreReadOnly",
        "StoreError",
        "StoreGone",
        "EngineClosed",
    }
)
"""Refusals that faults explain: nothing was acknowledged."""


class Evidence:
    """The ledger by subject."""

    def __init__(self, entries: list[Entry]) -> None:
        self.by_kind: dict[str, list[Entry]] = defaultdict(list)
        self.gaps: dict[int, list[tuple[float, float]]] = defaultdict(list)
        self.effects: dict[str, list[Entry]] = defaultdict(list)
        for entry in entries:
            self.by_kind[entry.kind].append(entry)
            if entry.kind == "gap":
                self.gaps[entry.pid].append((entry.facts["since"], entry.facts["until"]))
            elif entry.kind == "effect":
                self.effects[entry.facts["run"]].append(entry)

    def started(self) -> dict[str, tuple[str, int]]:
        """Return shape and input of each acknowledged start, by run id."""
        return {
            entry.facts["run"]: (entry.facts["shape"], entry.facts["n"])
            for entry in self.by_kind["started"]
        }

    def is_excused(self, entry: Entry) -> bool:
        """Return whether the process stood still just before this entry: then it may not yet know
        that it lost the run."""
        return any(
            since <= entry.at and entry.at - until <= _EXCUSE
            for since, until in self.gaps[entry.pid]
        )


def check_all(engine: Engine, evidence: Evidence, entries: list[tuple[Any, ...]]) -> list[str]:
    """Return everything that is wrong."""
    runs = {run.id: run for run in engine.runs().page(limit=1_000_000)}
    histories = {run_id: engine.run(run_id).history() for run_id in runs}
    wrong = [*check_errors(evidence), *engine.database.check()]
    if not evidence.effects:
        wrong.append("no step has happened at all: the round has tested nothing")
    for run_id, (shape, n) in evidence.started().items():
        wrong += check_start(engine, runs, histories, run_id, shape, n)
    for run_id, run in runs.items():
        wrong += check_effects(run, histories[run_id], evidence)
    wrong += check_order(evidence)
    wrong += check_tokens(histories, evidence)
    wrong += check_entries(histories, entries)
    wrong += check_leases(runs, evidence)
    return wrong


def check_errors(evidence: Evidence) -> Iterator[str]:
    """Find exceptions that are not errors of Holdfast, and refusals that no fault explains."""
    for entry in evidence.by_kind["raw error"]:
        yield f"{entry.facts['action']} raised {entry.facts['error']}:\n{entry.facts['trace']}"
    for entry in evidence.by_kind["refused"]:
        if entry.facts["error"] not in EXPECTED_ERRORS:
            yield (
                f"{entry.facts['action']} was refused: {entry.facts['error']}:"
                f" {entry.facts['message']}"
            )
    for entry in evidence.by_kind["logged"]:
        if entry.facts["trace"]:
            yield f"the engine logged: {entry.facts['message']}\n{entry.facts['trace']}"


def check_start(
    engine: Engine,
    runs: dict[str, RunView],
    histories: dict[str, list[EventView]],
    run_id: str,
    shape: str,
    n: int,
) -> Iterator[str]:
    """Find acknowledged starts that do not exist, or did not come to what they must."""
    if shape == "graph":
        yield from check_graph(engine, run_id, n)
        return
    run = runs.get(run_id)
    if run is None:
        yield f"{shape} {run_id} was acknowledged and does not exist"
        return
    if shape == "task":
        expected: Any = n + 1
    else:
        yield from check_history(run_id, shape, histories[run_id])
        result = workflows.SHAPES[shape].result
        if result is None:
            if run.status != "failed":
                yield f"{shape} {run_id} is {run.status}, and must have failed"
            return
        expected = result(run_id, n)
    if run.status != "completed" or run.result != expected:
        yield (
            f"{shape} {run_id} is {run.status} with {run.result!r}, not {expected!r}; error:"
            f" {run.error!r}"
        )
    if shape == "talker":
        yield from check_output(engine, run_id, histories[run_id])


def check_graph(engine: Engine, graph_id: str, n: int) -> Iterator[str]:
    """Find graphs that did not come to what they must."""
    try:
        status = engine.graphs.status(graph_id)
        result = (
            engine.graphs.result(graph_id, timeout="1s") if str(status) == "completed" else None
        )
    except Exception as error:
        yield f"graph {graph_id} was acknowledged and cannot be read: {error!r}"
        return
    if result != workflows.diamond_result(n):
        yield f"graph {graph_id} is {status} with {result}, not {workflows.diamond_result(n)}"


def check_history(run_id: str, shape: str, history: list[EventView]) -> Iterator[str]:
    """Find runs whose history lacks steps, or has too many: a step that was done and not recorded
    is one of them."""
    steps = sorted(event.step or "" for event in history if event.kind == "step_completed")
    if steps != workflows.SHAPES[shape].steps:
        yield f"{shape} {run_id} has recorded {steps}"


def check_effects(run: RunView, history: list[EventView], evidence: Evidence) -> Iterator[str]:
    """Find recorded steps that never happened, and steps that happened under another run's name."""
    done = {
        (entry.facts["step"], entry.facts["attempt"]) for entry in evidence.effects.get(run.id, [])
    }
    for event in history:
        is_recorded = event.kind == "step_completed" and not (event.step or "").startswith("insert")
        if is_recorded and (event.step, event.attempt) not in done:
            yield f"{run.id} {event.step} attempt {event.attempt} is recorded, but never happened"


def check_order(evidence: Evidence) -> Iterator[str]:
    """Find steps that happened again after a later step of their run began: by then the first one
    was recorded."""
    shapes = evidence.started()
    for run_id, effects in evidence.effects.items():
        shape = shapes.get(run_id, ("", 0))[0]
        if shape not in workflows.SHAPES:
            continue
        places = {step: place for place, step in enumerate(workflows.SHAPES[shape].in_sequence)}
        latest: Entry | None = None
        for entry in effects:
            place = places.get(entry.facts["step"])
            if place is None:
                continue
            if latest is not None and place < places[latest.facts["step"]]:
                if (
                    not evidence.is_excused(entry)
                    or entry.facts["generation"] >= latest.facts["generation"]
                ):
                    yield (
                        f"{shape} {run_id} did {entry.facts['step']} (generation"
                        f" {entry.facts['generation']}, pid {entry.pid}, at {entry.at:.3f}) after"
                        f" {latest.facts['step']} (generation {latest.facts['generation']}, pid"
                        f" {latest.pid}, at {latest.at:.3f})"
                    )
            else:
                latest = entry


def check_tokens(histories: dict[str, list[EventView]], evidence: Evidence) -> Iterator[str]:
    """Find outcomes that a later step was given, so that they were recorded, and that are lost or
    differ now."""
    for run_id, effects in evidence.effects.items():
        history = histories.get(run_id, [])
        recorded = [event.data for event in history if event.kind == "step_completed"]
        for entry in effects:
            known = entry.facts.get("known", [])
            if known != recorded[: len(known)]:
                yield (
                    f"{run_id} {entry.facts['step']} was given {known}, but the history has"
                    f" {recorded}"
                )


def check_output(engine: Engine, run_id: str, history: list[EventView]) -> Iterator[str]:
    """Find output with gaps, repetitions or another order: of an attempt that died a beginning is
    there, of the last one all."""
    expected = list(range(workflows.FRAMES))
    streams: dict[tuple[str, int], list[Any]] = defaultdict(list)
    last_of: dict[str, tuple[str, int]] = {}
    for frame in engine.streams.read(run_id, limit=10_000):
        streams[frame.step, frame.stream].append(frame.value)
        if frame.superseded_by is None:
            last_of[frame.step] = (frame.step, frame.stream)
    for (step, stream), values in streams.items():
        if values != expected[: len(values)]:
            yield f"{run_id} {step} has emitted {values} in stream {stream}"
    for event in history:
        if event.kind == "step_completed":
            values = streams[last_of.get(event.step or "", ("", 0))]
            if values != expected:
                yield f"{run_id} {event.step} has completed with the output {values}"


def check_entries(
    histories: dict[str, list[EventView]], entries: list[tuple[Any, ...]]
) -> Iterator[str]:
    """Find transactional steps that did not take effect exactly once."""
    counts = Counter(entries)
    for run_id, history in histories.items():
        for event in history:
            if event.kind == "step_completed" and (event.step or "").startswith("insert"):
                count = counts.pop((run_id, event.step), 0)
                if count != 1:
                    yield f"{run_id} {event.step} is recorded once and took effect {count} times"
    for (run_id, step), count in counts.items():
        yield f"{run_id} {step} is not recorded and took effect {count} times"


def check_leases(runs: dict[str, RunView], evidence: Evidence) -> Iterator[str]:
    """Find tasks that were leased again after their completion was acknowledged, or twice under one
    generation."""
    completed: dict[str, Entry] = {}
    generations: dict[str, int] = defaultdict(int)
    events = sorted(
        evidence.by_kind["leased"] + evidence.by_kind["completed"], key=lambda entry: entry.number
    )
    for entry in events:
        run_id = entry.facts["run"]
        if entry.kind == "completed":
            completed[run_id] = entry
            continue
        before = completed.get(run_id)
        if before is not None and entry.facts["generation"] > before.facts["generation"]:
            yield f"task {run_id} was leased again after its completion was acknowledged"
        if entry.facts["generation"] == generations[run_id]:
            yield f"task {run_id} was leased twice under generation {generations[run_id]}"
        generations[run_id] = max(generations[run_id], entry.facts["generation"])
    for run_id in completed:
        if run_id in runs and runs[run_id].status != "completed":
            yield f"task {run_id} was completed, acknowledged, and is {runs[run_id].status}"
