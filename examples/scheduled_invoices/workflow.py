"""Invoices by schedule: on the first of each month at six in the morning, in the time zone of
Berlin.

It shows `@schedule` with a time zone, `scheduled_time` (the tick, however late the run begins), and
a backfill of months in which no worker was running.

    python examples/scheduled_invoices/workflow.py
"""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from holdfast import Engine, schedule, step, workflow
from holdfast.schedules import scheduled_time

CUSTOMERS = {"Anna": 40, "Ben": 25}
BERLIN = ZoneInfo("Europe/Berlin")


@step(retries=2, delay="10ms")
async def write_invoice(customer: str, month: str) -> str:
    """Write one invoice."""
    return f"{month}: {customer} owes {CUSTOMERS[customer]}"


@schedule(
    "monthly invoices", cron="0 6 1 * *", zone="Europe/Berlin", misfire="all", overlap="queue"
)
@workflow
async def write_invoices() -> list[str]:
    """Write the invoices of the month before the tick."""
    tick = scheduled_time() or datetime.now(UTC)
    first = tick.astimezone(BERLIN).replace(day=1)
    month = f"{first.year - (first.month == 1)}-{(first.month - 2) % 12 + 1:02}"
    return [await write_invoice(customer, month) for customer in sorted(CUSTOMERS)]


def main(path: str = "scheduled_invoices.db") -> None:
    """Show the next ticks, and backfill two months of the past."""
    with Engine(path, workflows=[write_invoices]) as engine:
        upcoming = engine.schedules.next("monthly invoices", 12)
        print(
            "the next twelve are all at"
            f" {', '.join(sorted({f'{tick:%H:%M}' for tick in upcoming}))} in Berlin"
        )
        for tick in engine.schedules.backfill(
            "monthly invoices", datetime(2026, 2, 1), datetime(2026, 4, 1)
        ):
            for line in engine.run(tick.run or "").result(timeout="20s"):
                print(line)


if __name__ == "__main__":
    main(*sys.argv[1:])
