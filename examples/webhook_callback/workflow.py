"""A payment that its provider confirms: the provider gets a link with a token and calls back, in
seconds or in days.

It shows `create_wait`, whose id and token make a link that is good for one wait of one run;
`wait_for`, which accepts a signal of the customer's bank as well; and `deliver`, whose answers
become statuses of HTTP. The call may come before the run waits, twice, or too late.

    python examples/webhook_callback/workflow.py
"""

from __future__ import annotations

import sys
import time
from typing import Any

from holdfast import Engine, compensate, step, workflow
from holdfast.errors import TokenRefused, TooManySignals, WaitClosed
from holdfast.waits import any_of, create_wait, matching, wait_for

calls: list[tuple[str, str]] = []
"""What the provider was given: where to call, and the proof that it may."""


@step(retries=5, delay="1s")
async def ask_provider(order: int, amount: int, path: str, token: str) -> str:
    """Ask the payment provider to collect the money and to call back."""
    calls.append((path, token))
    return f"payment of order {order}"


@step(retries=5, delay="1s")
async def give_up(payment: str) -> None:
    """Tell the provider that the payment is no longer awaited."""
    print(f"given up: {payment}")


@workflow
async def collect_payment(order: int, amount: int) -> dict[str, object]:
    """Request the payment of an amount, and wait until the provider or the bank confirms it."""
    callback = await create_wait("callback", expires="7d")
    payment = await ask_provider(order, amount, f"/callbacks/{callback.id}", callback.token)
    compensate(give_up, payment)
    paid = any_of(
        matching(callback, {"status": "paid", "amount": amount}),
        matching("booked", {"amount": amount}),
    )
    found = await wait_for(paid, timeout="7d", on_timeout="cancel")
    return {"payment": payment, "told by": found.signals[0].source, "released": found.released}


def receive(engine: Engine, path: str, token: str, body: Any, request_id: str) -> tuple[int, str]:
    """Answer a call as a web server would: with a status and a text."""
    try:
        done = engine.waits.deliver(
            path.rsplit("/", 1)[-1], token, payload=body, source="provider", key=request_id
        )
    except TokenRefused:
        return 404, "not found"  # a stranger learns nothing, not even that there is such a wait
    except WaitClosed:
        return 410, "too late"
    except TooManySignals:
        return 429, "enough"
    return 200, done.effect.value


def main(path: str = "webhook.db") -> None:
    """Collect a payment; the provider calls twice, after a stranger has tried."""
    with Engine(path, workflows=[collect_payment]) as engine:
        run = engine.start(collect_payment, 7, 120, key="order-7")
        while run.status != "waiting":
            time.sleep(0.01)
        print(engine.why(run.id).reason.split(";")[0])
        link, token = calls[-1]
        print(
            "stranger",
            receive(engine, link, "k1.e30.AAAA", {"status": "paid", "amount": 120}, "r0"),
        )
        print("provider", receive(engine, link, token, {"status": "pending"}, "r1"))
        for _ in range(2):
            print("provider", receive(engine, link, token, {"status": "paid", "amount": 120}, "r2"))
        print(run.result(timeout="1m"))


if __name__ == "__main__":
    main(*sys.argv[1:])
