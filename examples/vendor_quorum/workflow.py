"""A graph with a quorum: ask all vendors, take the first two offers, cancel the other requests, and
let the buyer extend the graph by the deliveries.

The members of the graph are ordinary runs. The vendor that never answers is cancelled when two
others have, and its request is withdrawn.

    python examples/vendor_quorum/workflow.py
"""

from __future__ import annotations

import sys

from holdfast import Engine, Graph, compensate, step, wait_signal, workflow
from holdfast.graphs import extend

withdrawn: list[str] = []
"""What was undone."""


@step
async def withdraw(vendor: str) -> None:
    withdrawn.append(vendor)


@workflow
async def ask_vendor(vendor: str, price: int | None) -> int:
    """Ask a vendor. A vendor without a price answers later, by a signal."""
    compensate(withdraw, vendor)
    return price if price is not None else await wait_signal("offer", type=int)


@workflow
async def deliver(vendor: str, part: int) -> str:
    return f"part {part} from {vendor}"


@workflow
async def buy_cheapest(offers: dict[str, int], parts: int) -> str:
    """Choose an offer, and extend the graph by its deliveries, whose number is known only now."""
    vendor = min(offers, key=lambda name: offers[name])
    more = Graph()
    for part in range(parts):
        more.add(deliver, vendor, part, name=f"part-{part}")
    await extend(more)
    return vendor


def procurement(prices: dict[str, int | None], parts: int) -> Graph:
    """Build the graph."""
    graph = Graph("procurement")
    vendors = [
        graph.add(ask_vendor, vendor, price, name=vendor) for vendor, price in prices.items()
    ]
    graph.add(buy_cheapest, parts=parts, name="buy").after(
        *vendors, need=2, rest="cancel", into="offers"
    )
    return graph


def main(path: str) -> None:
    with Engine(path) as engine:
        run = engine.graphs.start(procurement({"anna": 5, "ben": 3, "cleo": None}, parts=2))
        print(run.result(timeout=30))
        print({member.name: member.state.value for member in run.show().members})


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "quorum.db")
