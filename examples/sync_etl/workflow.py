"""A pipeline of plain functions, without async and await: extract pages, transform them in
parallel, load them, clean up.

It shows a `def` workflow with `holdfast.sync`: `map`, `gather`, `sleep`, and an idempotent step
that writes a file.

    python examples/sync_etl/workflow.py
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from holdfast import Engine, step, sync, workflow

PAGES = {1: [3, 1, 2], 2: [6, 5, 4], 3: [9, 7, 8]}


@step(retries=3, delay="10ms")
def extract(page: int) -> list[int]:
    """Fetch one page of raw numbers."""
    return PAGES[page]


@step
def transform(rows: list[int]) -> list[int]:
    """Put one page in order."""
    return sorted(rows)


@step
def load(target: str, rows: list[int]) -> int:
    """Write all rows, through a second file, so that a crash leaves the old file or the new one and
    nothing between."""
    draft = Path(f"{target}.draft")
    draft.write_text(json.dumps(rows), "utf-8")
    os.replace(draft, target)
    return len(rows)


@step
def measure(rows: list[int]) -> int:
    """Return the sum of the rows."""
    return sum(rows)


@workflow
def load_feed(target: str, pages: list[int]) -> dict[str, int]:
    """Extract, transform and load, as plain calls."""
    raw = sync.map(extract, pages, max_parallel=2)
    sync.sleep("10ms")  # limits the load of the source; a sleep of months works as well
    rows = [row for page in sync.map(transform, raw) for row in page]
    count, total = sync.gather(lambda: load(target, rows), lambda: measure(rows))
    return {"rows": count, "total": total}


def main(path: str = "sync_etl.db", target: str = "sync_etl.json") -> None:
    """Run the pipeline once and show what it has written."""
    with Engine(path) as engine:
        print(engine.start(load_feed, target, sorted(PAGES)).result())
    print(Path(target).read_text("utf-8"))


if __name__ == "__main__":
    main(*sys.argv[1:])
