"""Runs, gates, graphs and other things of one namespace, which no other may reach."""

from __future__ import annotations

from typing import Any, NamedTuple

import holdfast
from holdfast import step, wait_signal, workflow
from holdfast.authoring.python.api_async import AsyncChildHandle
from holdfast.waits import create_wait
from tests.engine.databases import execute


class Things(NamedTuple):
    """What there is in the namespace that belongs to somebody else."""

    run: str
    done: str
    gate: str
    link: str
    wait: str
    token: str
    flow: str
    graph: str
    proof: str
    operation: str
    model_run: str
    task: str
    external: str
    incident: str


@step
async def whisper() -> str:
    return "hush"


@workflow
async def whispering() -> str:
    holdfast.streams.emit("hush")
    return await whisper()


@workflow
async def idling() -> object:
    await create_wait("hush-answer")
    return await wait_signal("hush-signal")


@workflow
async def meddling_elsewhere(run_id: str) -> str:
    forged: AsyncChildHandle[object] = AsyncChildHandle(idling, "start", run_id)
    await forged.signal("hush-signal", "meddled")
    await forged.cancel()
    return "done"


TABLES = {
    "run": "id, status, generation, revision, priority",
    "event": "run_id, seq, kind",
    "signal": "run_id, name",
    "gate": "id, status, closed_at",
    "gate_entry": "gate_id, kind",
    "wait": "run_id, step, closed_at",
    "flow": "id, status, revision",
    "graph": "id, status, revision",
    "graph_member": "run_id, state",
    "schedule": "name, namespace",
    "subscription": "name",
    "lane": "name, paused",
    "budget": "name",
    "budget_line": "budget, dimension, hard, used, reserved",
    "session": "id, worker",
    "retention": "name",
    "operation": "id, namespace, status, revision, asked_by",
    "key": "kid",
    "definition": "namespace, kind, name, version, digest, state",
    "start_subscription": "namespace, process, kind, name, element, version",
    "message": "namespace, id, name, key, effect, run_id",
    "message_subscription": "run_id, step, namespace, kind, name",
    "resting_token": "run_id, token, element, status, version",
    "api_key": "id, name, namespace, revoked_at",
}


def theirs_stored(database: str) -> dict[str, set[tuple[Any, ...]]]:
    """Return every row that tells of something of theirs, and all that belongs to the
    installation."""
    found = {}
    for table, columns in TABLES.items():
        rows = execute(database, f"SELECT {columns} FROM holdfast.{table}")
        shared = table in ("lane", "budget", "retention", "key")
        found[table] = {tuple(row) for row in rows if shared or "hush" in str(row)}
    return found
