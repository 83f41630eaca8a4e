"""A saga: reserve, charge, ship. When a step fails, the completed steps before it are compensated,
in reverse order.

It shows retries, `Fail`, `compensate`, an idempotency key for the outside world, and what the
caller of a failed run sees.

    python examples/order_saga/workflow.py
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field

import holdfast
from holdfast import Engine, Fail, step, workflow
from holdfast.errors import RunFailed


@dataclass
class Order:
    """An order of a customer."""

    id: str
    items: list[str]
    card: str


@dataclass
class World:
    """The shop and the bank: systems outside, which know idempotency keys."""

    reserved: dict[str, list[str]] = field(default_factory=dict)
    charged: dict[str, str] = field(default_factory=dict)
    shipped: list[str] = field(default_factory=list)


world = World()


@step
async def reserve(order: Order) -> str:
    """Put the items aside. Asked twice with the same key, the shop does it once."""
    key = holdfast.info().idempotency_key
    world.reserved[key] = order.items
    return key


@step
async def release(reservation: str) -> None:
    """Put the items back. Undoing twice does no harm."""
    world.reserved.pop(reservation, None)


@step(retries=3, delay="20ms")
async def charge(order: Order) -> str:
    """Take the money. A network error is retried; a refused card is not."""
    if order.card == "refused":
        raise Fail("the card was refused")
    key = holdfast.info().idempotency_key
    world.charged[key] = order.card
    return key


@step
async def refund(payment: str) -> None:
    """Give the money back."""
    world.charged.pop(payment, None)


@step
async def ship(order: Order) -> str:
    """Hand the parcel over. There is no way back from here."""
    if "unicorn" in order.items:
        raise Fail("unicorns cannot be shipped")
    world.shipped.append(order.id)
    return f"parcel of {order.id}"


@workflow
async def buy(order: Order) -> str:
    """Reserve, charge and ship, or leave nothing behind."""
    reservation = await reserve(order)
    holdfast.compensate(release, reservation)
    payment = await charge(order)
    holdfast.compensate(refund, payment)
    return await ship(order)


def main(path: str = "order_saga.db") -> None:
    """Buy three times: one goes well, one card is refused, one parcel cannot be shipped."""
    orders = [
        Order("good", ["tea"], "visa"),
        Order("poor", ["tea"], "refused"),
        Order("odd", ["unicorn"], "visa"),
    ]
    with Engine(path) as engine:
        for order in orders:
            run = engine.start(buy, order)
            try:
                print(f"{order.id}: {run.result()}")
            except RunFailed as error:
                print(f"{order.id}: {run.status}, {error.facts['message']}")
    print(
        f"reserved: {len(world.reserved)}, charged: {len(world.charged)}, shipped:"
        f" {len(world.shipped)}"
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
