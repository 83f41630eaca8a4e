"""A report as an object, which a worker that has lost its run cannot overwrite.

`fencing.put` reads the metadata of the object, and writes on condition that it has not changed
since: with `If-Match` and `If-None-Match` in a store like S3, here in a folder. The run and its
generation are in the metadata.

    python examples/fenced_report/workflow.py
"""

from __future__ import annotations

import sys
from pathlib import Path

from holdfast import Engine, fencing, step, workflow


@step(retries=3, delay="50ms")
def write_report(folder: str, day: str, lines: list[str]) -> int:
    """Write the report of a day and return how many lines it has."""
    fencing.put(fencing.Files(folder), f"{day}.txt", "\n".join(lines).encode())
    return len(lines)


@workflow
async def daily_report(folder: str, day: str) -> int:
    """Write a draft, then overwrite it with the report."""
    await write_report.aio(folder, day, ["draft"])
    return await write_report.aio(folder, day, ["sold: 7", "returned: 1"])


def main(path: str = "fenced_report.db", folder: str = "reports") -> None:
    """Write the report of a day; then let another run try to overwrite it."""
    with Engine(path) as engine:
        engine.start(daily_report, folder, "monday").result()
    print((Path(folder) / "monday.txt").read_text("utf-8"))
    try:
        fencing.put(
            fencing.Files(folder),
            "monday.txt",
            b"mine",
            fence=fencing.Fence("other-run", 1, "report"),
        )
    except fencing.Fenced as refused:
        print(type(refused).__name__)


if __name__ == "__main__":
    main(*sys.argv[1:])
