"""A nightly report: one child run per region, two at a time. Regions may fail, and the report names
them.

It shows `map` over a workflow with `max_parallel` and `on_error="collect"`, a step per shop inside
each child, tags, and an id by which repeated requests start the report of a night once.

    python examples/nightly_report/workflow.py
"""

from __future__ import annotations

import sys

import holdfast
from holdfast import Engine, Fail, step, workflow
from holdfast.errors import ChildFailed

SHOPS = {
    "north": {"Tromso": 120, "Bodo": 80},
    "south": {"Malmo": 200, "Lund": 50, "Ystad": 30},
    "west": {"Bergen": 170, "Voss": None},
}


@step(retries=2, delay="10ms")
async def count_sales(region: str, shop: str) -> int:
    """Ask one shop for its sales."""
    sales = SHOPS[region][shop]
    if sales is None:
        raise Fail(f"{shop} has not closed its books")
    return sales


@step
async def publish(lines: list[str]) -> str:
    """Put the report where people read it."""
    return "\n".join(lines)


@workflow
async def region_report(region: str) -> int:
    """Add up the shops of one region, which are asked in parallel."""

    async def one(shop: str) -> int:
        return await count_sales(region, shop)

    return sum(await holdfast.gather(*(one(shop) for shop in SHOPS[region])))


@workflow
async def nightly_report(regions: list[str]) -> str:
    """Report every region, two at a time; a region that fails is reported as missing."""
    sums = await holdfast.map(
        region_report, regions, max_parallel=2, on_error="collect", tags={"report": "nightly"}
    )
    lines = [
        f"{region}: missing" if isinstance(total, ChildFailed) else f"{region}: {total}"
        for region, total in zip(regions, sums, strict=True)
    ]
    return await publish(lines)


def main(path: str = "nightly_report.db") -> None:
    """Ask twice for the report of one night: it runs once."""
    with Engine(path) as engine:
        runs = [
            engine.start(nightly_report, sorted(SHOPS), id="report-2026-01-31") for _ in range(2)
        ]
        print(runs[0].result())
        print(
            f"the same run: {runs[0].id == runs[1].id}; child runs:"
            f" {engine.runs(tags={'report': 'nightly'}).count()}"
        )


if __name__ == "__main__":
    main(*sys.argv[1:])
