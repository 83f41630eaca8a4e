"""Start runs: create new ones, and recognise existing ones with the same input."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.core import claiming
from holdfast.core.runs import NewRun, Route
from holdfast.errors import LaneDraining, RunExists
from holdfast.store.budgets.apply import check_names, open_trees
from holdfast.store.database import Row, Started, Transaction
from holdfast.store.definitions.apply import keep_definitions
from holdfast.store.lanes.fair_queue import rank_fairly, set_clocks
from holdfast.store.payloads.apply import fetch, keep
from holdfast.store.runs.operations import StartRuns
from holdfast.store.runs.start_leases import StartLeases
from holdfast.store.soundness import without_route


def start_runs(tx: Transaction, op: StartRuns) -> list[Started]:
    """Create the runs that are new and recognise the others. Raises RunExists, LaneDraining."""
    if any(run.budgets for run in op.runs):
        check_names(tx, op.runs)
    start_leases = StartLeases(tx)
    leased = start_leases.leased(op.runs)
    rows = [_row(tx, run, leased=place in leased) for place, run in enumerate(op.runs)]
    clocks, idle = (
        rank_fairly(tx, op.runs, rows)
        if any(run.share is not None for run in op.runs)
        else ({}, set())
    )
    new = tx.insert_runs(rows)
    start_leases.note(new)
    # Not for a repeated start: it must not push back the later runs of its share.
    if clocks and new:
        set_clocks(tx, clocks, idle)
    open_trees(tx, [run for run in op.runs if run.limits is not None and run.id in new])
    for run in op.runs:
        if run.payloads and run.id in new:
            keep(tx, run.id, run.payloads)
    frozen = [run.definition for run in op.runs if run.definition is not None and run.id in new]
    if frozen:
        keep_definitions(tx, frozen)
    _tag(tx, [run for run in op.runs if run.id in new])
    with_policy = [run for run in op.runs if run.policy is not None and run.id in new]
    if with_policy:
        tx.many("insert_task", [{"run_id": run.id, "policy": run.policy} for run in with_policy])
    return [_answer(tx, run, row, new) for run, row in zip(op.runs, rows, strict=True)]


def _tag(tx: Transaction, runs: Sequence[NewRun]) -> None:
    # Reversed: of two runs of one call with the same id, the first is created.
    first = {run.id: run for run in reversed(runs)}
    tags: list[Row] = [
        {"name": name, "value": value, "run_id": run.id, "created_at": tx.now}
        for run in first.values()
        for name, value in run.tags.items()
    ]
    if tags:
        tx.many("insert_tag", tags)


def _is_delayed(tx: Transaction, run: NewRun) -> bool:
    return run.available_at is not None and run.available_at > tx.now


def _answer(tx: Transaction, run: NewRun, row: Row, new: set[str]) -> Started:
    if run.id not in new:
        return _recognised(tx, run, row["key"])
    new.discard(run.id)  # a second run with this id in the same call is only recognised
    leased = row["session_id"] is not None
    if not leased:
        tx.hints.ready = True
    return Started(id=run.id, created=True, leased=leased, now=tx.now)


def _row(tx: Transaction, run: NewRun, *, leased: bool) -> dict[str, object]:
    delayed = _is_delayed(tx, run)
    return {
        "id": run.id,
        "route_id": tx.route_id(run.route),
        "status": "running" if leased else "pending",
        "priority": run.priority,
        "generation": 1 if leased else 0,
        "session_id": run.session_id if leased else None,
        "rank": None if leased or delayed else claiming.rank(tx.now, run.priority),
        "wake_at": run.available_at if delayed else None,
        "deadline": run.deadline,
        "input": run.input,
        "key": stored_key(run.route, run.key),
        "parent_id": run.parent_id,
        "parent_step": run.parent_step,
        "parent_index": run.parent_index,
        "on_parent_end": run.on_parent_end if run.parent_id else None,
        "root_id": run.root_id,
        "forked_from": run.forked_from,
        "created_at": tx.now,
        "started_at": tx.now if leased else None,
        "budgets": "\n".join(run.budgets) or None,
        "share": run.share,
        "graph_id": run.graph_id,
        "schedule": run.schedule,
        "tick_at": run.tick_at,
    }


def stored_key(route: Route, key: str | None) -> str | None:
    """Return a key as it is stored, unique within its namespace and workflow."""
    return None if key is None else f"{route.namespace}\n{route.workflow}\n{key}"


def _recognised(tx: Transaction, run: NewRun, key: object) -> Started:
    # By the key first: a repeated start mostly has another id.
    runs = tx.rows("run_by_key", key=key) if key is not None else []
    runs = runs or tx.rows("run_identity", id=run.id)
    if not runs:
        # Neither created nor found: the insert leaves out new runs of a draining lane.
        raise LaneDraining(lane=run.route.lane)
    old = runs[0]
    routes = tx.rows("route", route_id=old["route_id"])
    if not routes:
        raise without_route(old["id"], old["route_id"])
    route = routes[0]
    same_workflow = (route["namespace"], route["workflow"]) == (
        run.route.namespace,
        run.route.workflow,
    )
    if not same_workflow or not _is_same(tx, run, old["id"], bytes(old["input"])):
        raise RunExists(run=old["id"], **({"key": run.key} if run.key is not None else {}))
    return Started(id=old["id"], created=False, leased=False, now=tx.now)


def _is_same(tx: Transaction, run: NewRun, old_id: str, old: bytes) -> bool:
    """Return whether an existing run was started with the same input, even if it is sealed
    otherwise."""
    return old == run.input or (
        run.same is not None and run.same(run, old_id, old, lambda digest: fetch(tx.rows, digest))
    )
