"""A subscription that lives for a year: it sleeps for months, and costs a row while it sleeps, no
thread and no memory.

It shows long sleeps, a race between a timer and a signal, and `holdfast.now()`, which is the same
in every replay. Stop the program at any time and start it again: the run continues. Its test moves
the clock instead of waiting.

    python examples/long_wait/workflow.py            start a subscription, or look at it
    python examples/long_wait/workflow.py cancel     end it at its next bill
"""

from __future__ import annotations

import sys
import time

import holdfast
from holdfast import Engine, sleep, step, wait_signal, workflow
from holdfast.errors import ResultTimeout


@step(retries=5, delay="1m", cap="1h")
async def send(customer: str, text: str) -> str:
    """Write to the customer."""
    print(f"to {customer}: {text}")
    return text


@step(retries=5, delay="1m", cap="1h")
async def bill(customer: str, month: int) -> int:
    """Charge for one month."""
    print(f"billing {customer} for month {month}")
    return 10


@workflow
async def subscription(customer: str, months: int = 12) -> dict[str, object]:
    """Bill every thirty days, until a year is over or the customer has had enough."""
    began = holdfast.now()
    await send(customer, "welcome")
    await sleep("14d")
    await send(customer, "your trial is over")
    paid, ended = 0, "a year is over"
    for month in range(1, months + 1):
        paid += await bill(customer, month)
        try:
            await wait_signal("cancel", timeout="30d")
        except TimeoutError:
            continue
        ended = "cancelled"
        break
    await send(customer, "good bye")
    return {"paid": paid, "days": (holdfast.now() - began).days, "ended": ended}


def main(command: str = "start", path: str = "long_wait.db") -> None:
    """Start the subscription of one customer, or continue it, for a moment."""
    with Engine(path) as engine:
        run = engine.start(subscription, "ann", id="ann")
        if command == "cancel":
            run.signal("cancel")
        while run.status in ("pending", "running"):
            time.sleep(0.01)
        try:
            print(run.result(timeout="1s"))
        except ResultTimeout:
            print(f"{run.id} is {run.status}; come back when you like")


if __name__ == "__main__":
    main(*sys.argv[1:])
