"""The figures of the documentation: one set, from one run, with its date and its machine.

``make figures`` measures and calls ``publish``: it writes ``docs/bench/figures.json``, the
pictures, and the parts of README.md and of the guide between the marks. A test compares these texts
with the file, so that they show the same."""

from __future__ import annotations

import json
import pathlib
from typing import Any

from bench import picture
from bench.report import number

FILE = pathlib.Path("docs/bench/figures.json")
BEGIN, END = "<!-- figures: written by make figures -->", "<!-- end of figures -->"

COLUMNS = {
    "holdfast": "Holdfast",
    "dbos": "DBOS",
    "absurd": "absurd",
    "procrastinate": "procrastinate",
    "openworkflow": "OpenWorkflow",
    "restate": "Restate",
    "raw": "bare driver",
}
"""The peers of the table, in order."""

ROWS = (
    ("s1", "rate", "steps in sequence per second"),
    ("s1", "all_cpu_ms_per_step", "CPU of such a step, ms"),
    ("s2", "rate", "5-step runs per second, 1,000 at once"),
    ("s2", "all_cpu_ms_per_run", "CPU of such a run, ms"),
    ("styles", "rate", "the same with `def` functions"),
    ("styles", "singly_rate", "started singly by one caller"),
    ("styles", "own_gc_rate", "with Python's own garbage collector settings"),
    ("s3", "drain", "jobs drained per second, one process"),
    ("s3", "drain_by_two", "by two processes"),
    ("s4", "seconds", "fan-out to 1,000 children and join, s"),
    ("s5", "p50_ms", "from signal to the next step, ms"),
    ("s6", "restart_s", "`kill -9` with 1,000 runs in flight: all done, s"),
    ("s6", "lost", "steps lost by it"),
    ("s6", "done_again", "recorded steps repeated by it"),
    ("s6", "executed_twice", "steps in flight that ran again"),
)
"""The rows of the table: a figure of a scenario, and its name."""

SHORT = {"s1", "s2", "s6"}
"""The scenarios that README.md shows; the guide shows all."""


def publish(results: dict[str, Any], root: pathlib.Path) -> None:
    """Write the figures of one run into the documentation."""
    figures = kept(results)
    (root / FILE).write_text(json.dumps(figures, indent=1) + "\n", "utf-8")
    picture.draw(results, (root / FILE).parent)
    for path, text in texts(figures).items():
        place = root / path
        place.write_text(replaced(place.read_text("utf-8"), text), "utf-8")


def stale(root: pathlib.Path) -> list[str]:
    """Return the pages that do not show the figures of the file."""
    if not (root / FILE).exists():
        return []
    figures = json.loads((root / FILE).read_text("utf-8"))
    return [
        path
        for path, text in texts(figures).items()
        if replaced((root / path).read_text("utf-8"), text) != (root / path).read_text("utf-8")
    ]


def kept(results: dict[str, Any]) -> dict[str, Any]:
    """Return what is kept of a run: no single rounds, but the medians and the goals."""
    scenarios = {
        name: {
            "rounds": len(found["rounds"]),
            "title": found["title"],
            "medians": found["medians"],
            "targets": found["targets"],
        }
        for name, found in results["scenarios"].items()
    }
    return {name: results[name] for name in ("date", "machine", "versions")} | {
        "scenarios": scenarios
    }


def texts(figures: dict[str, Any]) -> dict[str, str]:
    """Return the texts by the page that shows them."""
    long = "\n\n".join([source(figures), table(figures), goals(figures)])
    return {
        "README.md": "\n\n".join([source(figures), table(figures, SHORT)]),
        "docs/guides/performance.md": long,
    }


def replaced(page: str, text: str) -> str:
    """Return a page with *text* between its marks. Raises ValueError if it has none."""
    begin = page.index(BEGIN) + len(BEGIN)
    end = page.index(END, begin)
    return f"{page[:begin]}\n{text}\n{page[end:]}"


def source(figures: dict[str, Any]) -> str:
    """Return the sentence with the date, the machine and the versions."""
    machine = figures["machine"]
    rounds = sorted({found["rounds"] for found in figures["scenarios"].values()})
    count = f"{rounds[0]}" if len(rounds) == 1 else f"{rounds[0]} to {rounds[-1]}"
    medians = "one round" if rounds == [1] else f"medians of {count} rounds, all engines in each"
    versions = ", ".join(
        f"{COLUMNS[peer]} {version}"
        for peer, version in figures["versions"].items()
        if peer in COLUMNS and peer not in ("holdfast", "raw")
    )
    compared = f" Compared: {versions}." if versions else ""
    return (
        f"Measured on {figures['date']} on {machine['cpus']} cores ({machine['cpu']}),"
        f" {machine['system']}, Python {machine['python']}; {medians}; SQLite / PostgreSQL."
        f"{compared}"
    )


def table(figures: dict[str, Any], only: set[str] | None = None) -> str:
    """Return the table of the peers."""
    shown = [
        row for row in ROWS if row[0] in figures["scenarios"] and (only is None or row[0] in only)
    ]
    peers = [peer for peer in COLUMNS if any(_cell(figures, row, peer) for row in shown)]
    lines = [
        "| | " + " | ".join(COLUMNS[peer] for peer in peers) + " |",
        "|---" * (len(peers) + 1) + "|",
    ]
    for row in shown:
        cells = [_cell(figures, row, peer) for peer in peers]
        lines.append(f"| {row[2]} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _cell(figures: dict[str, Any], row: tuple[str, str, str], peer: str) -> str:
    medians = figures["scenarios"][row[0]]["medians"]
    found = [medians.get(f"{peer}/{store}", {}).get(row[1]) for store in ("sqlite", "postgres")]
    own = medians.get(f"{peer}/own", {}).get(row[1])
    if own is not None:
        return number(own)
    if found == [None, None]:
        return ""
    return " / ".join("-" if value is None else number(value) for value in found)


def goals(figures: dict[str, Any]) -> str:
    """Return the table of the goals: the median of the ratios within a round, or of a figure."""
    lines = [
        "| goal | store | median | rounds | wanted | |",
        "|---|---|---|---|---|---|",
    ]
    for name, found in figures["scenarios"].items():
        for goal in found["targets"]:
            what = goal["metric"].replace("_", " ")
            if goal["peer"]:
                what += f", of {COLUMNS.get(goal['peer'], goal['peer'])}"
            spread = f"{number(min(goal['rounds']))} to {number(max(goal['rounds']))}"
            sign = "at most" if goal["at_most"] else "at least"
            reached = "reached" if goal["holds"] else "not reached"
            lines.append(
                f"| {name.upper()} {what} | {goal['store']} | {number(goal['median'])} | {spread} |"
                f" {sign} {number(goal['bound'])} | {reached} |"
            )
    return "\n".join(lines)
