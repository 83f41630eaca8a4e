"""The workflows of the server that schemathesis calls, and one run in each state."""

from __future__ import annotations

from holdfast import Engine, Fail, gate, step, wait_signal, workflow


@step
async def count(number: int) -> int:
    return number


@step
async def refuse() -> None:
    raise Fail("no")


@workflow(name="openapi.completes")
async def completes(number: int = 1) -> int:
    return await count(number)


@workflow(name="openapi.fails")
async def fails() -> None:
    await refuse()


@workflow(name="openapi.asks")
async def asks() -> str:
    return (await gate("Ship it?", options=["yes", "no"])).choice


@workflow(name="openapi.waits")
async def waits() -> None:
    await wait_signal("go")


def populate(database: str) -> None:
    """Create one thing of each kind, so that operations find what they are called for."""
    with Engine(database, workflows=[completes, fails, asks, waits]) as engine:
        engine.start(completes, id="completed").wait_until("completed", timeout="60s")
        engine.start(fails, id="failed").wait_until("failed", timeout="60s")
        engine.start(asks, id="asking").wait_until("waiting", timeout="60s")
        engine.start(waits, id="waiting").wait_until("waiting", timeout="60s")
        engine.lanes.set("lane", concurrency=1)
        engine.budgets.set("budget", {"tokens": 10})
        engine.schedules.set("schedule", completes, cron="0 3 * * *", paused=True)
        engine.webhooks.set("webhook", "https://example.org/hook")
        engine.retention.set("rule", older_than="90d")
