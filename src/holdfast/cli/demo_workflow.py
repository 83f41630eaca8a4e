"""An order workflow in ordinary Python. The process may be killed at any point of it."""

import asyncio
import os

from holdfast import compensate, sleep, step, workflow


async def work(line: str) -> None:
    print(f"[process {os.getpid()}] {line}", flush=True)
    await asyncio.sleep(0.3)


@step
async def reserve(order: int) -> str:
    await work(f"reserve: put the goods of order {order} aside")
    return f"shelf {order % 7 + 1}"


@step
async def charge(order: int) -> str:
    await work("charge: take 42.00 from the card, once and never twice")
    return f"payment-{order}"


@step
async def pack(shelf: str) -> str:
    await work(f"pack: carry the goods from {shelf} to the packing table")
    await work("pack: wrap them up")
    await work("pack: close the parcel")
    return "parcel of 1.2 kg"


@step
async def ship(parcel: str) -> str:
    await work(f"ship: hand the {parcel} to the carrier")
    return "TRACK-007"


@step
async def invoice(order: int, payment: str) -> str:
    await work(f"invoice: write the invoice for {payment}")
    return f"invoice-{order}"


@step
async def notify(tracking: str) -> None:
    await work(f"notify: tell the customer that {tracking} is on its way")


@step
async def refund(payment: str) -> None:
    await work(f"refund: give {payment} back")


@workflow
async def fulfil(order: int) -> dict[str, str]:
    shelf = await reserve(order)
    payment = await charge(order)
    compensate(refund, payment)  # should a later step fail
    await sleep("500ms")  # might as well be three months
    parcel = await pack(shelf)
    tracking = await ship(parcel)
    bill = await invoice(order, payment)
    await notify(tracking)
    return {"payment": payment, "tracking": tracking, "invoice": bill}
