"""Workflows that wait, and what their tests ask of them."""

from __future__ import annotations

from holdfast import compensate, step, sync, wait_signal, workflow
from holdfast.waits import Waited, all_of, any_of, count, create_wait, wait_for
from tests.engine.waiting import wait_for as wait_for_status
from tests.engine.waiting import wait_until

undone: list[str] = []


@step
async def undo(what: str) -> None:
    undone.append(what)


def waited_fields(waited: Waited) -> list[object]:
    return [
        waited.how,
        [(signal.id, signal.name, signal.payload, signal.source) for signal in waited.signals],
    ]


@workflow
async def order_desk(timeout: str = "3d", on_timeout: str = "fail") -> list[object]:
    compensate(undo, on_timeout)
    ready = all_of("paid", any_of("shipped", count(2, "vote", distinct="sources")))
    return waited_fields(await wait_for(ready, timeout=timeout, on_timeout=on_timeout))


@workflow
def order_desk_plain(timeout: str = "3d", on_timeout: str = "fail") -> list[object]:
    ready = sync.waits.all_of(
        "paid", sync.waits.any_of("shipped", sync.waits.count(2, "vote", distinct="sources"))
    )
    return waited_fields(sync.waits.wait_for(ready, timeout=timeout, on_timeout=on_timeout))


@workflow
async def callback(
    expires: str | None = None, timeout: str | None = None, on_timeout: str = "fail"
) -> object:
    wait = await create_wait("callback", expires=expires)
    waited = await wait_for(wait, timeout=timeout, on_timeout=on_timeout)
    return [waited.how, waited.payload, waited.by]


@workflow
async def late_callback() -> list[object]:
    wait = await create_wait("callback")
    await wait_signal("go")
    return waited_fields(await wait_for(wait))


def parked(engine, workflow, *args):
    run = engine.start(workflow, *args)
    wait_for_status(engine, run, "waiting")
    return run


def handed_out(engine, run, name="callback"):
    wait_until(
        engine, lambda: any(wait.name == name and wait.id for wait in engine.waits.list(run.id))
    )
    found = next(wait for wait in engine.waits.list(run.id) if wait.name == name and wait.id)
    return found.id, engine.waits.token(found.id)
