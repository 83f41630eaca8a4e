"""Pictures of the figures, as plain SVG that reads well on light and on dark pages."""

from __future__ import annotations

import math
import pathlib
from collections.abc import Iterable
from typing import Any
from xml.sax.saxutils import escape

from bench.report import number

STYLE = """<style>
text { font: 13px system-ui, sans-serif; fill: #1f2328 } .small { font-size: 11px } .dim { fill:
    #59636e }
.title { font-weight: 600 } .axis { stroke: #8c959f; stroke-width: 1 } .line { fill: none;
    stroke-width: 2 }
.ours { fill: #0b7285 } .theirs { fill: #adb5bd } .raw { fill: #e8a33d } .sqlite { stroke: #0b7285
    } .postgres { stroke: #e8a33d }
.dot-sqlite { fill: #0b7285 } .dot-postgres { fill: #e8a33d }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 } .dim { fill: #9198a1 } .ours { fill: #3bc9db } .theirs { fill: #5c6570 }
    .sqlite { stroke: #3bc9db }
.dot-sqlite { fill: #3bc9db } }
</style>"""

PANELS = (
    ("s1", "sqlite", "step", "One step of many in sequence, SQLite"),
    ("s1", "postgres", "step", "One step of many in sequence, PostgreSQL"),
    ("s2", "sqlite", "run", "One run of 5 steps among 1,000 at once, SQLite"),
    ("s2", "postgres", "run", "One run of 5 steps among 1,000 at once, PostgreSQL"),
    ("s4", "sqlite", "child", "One child of a fan-out to 1,000, SQLite"),
    ("s4", "postgres", "child", "One child of a fan-out to 1,000, PostgreSQL"),
)
"""CPU of client and server, because it is steady where time by the clock is not."""

NAMES = {
    "holdfast": "Holdfast",
    "raw": "bare driver",
    "dbos": "DBOS",
    "absurd": "absurd",
    "procrastinate": "procrastinate",
    "openworkflow": "OpenWorkflow",
    "restate": "Restate",
}
SERIES = (
    ("runs", "_cpu_ms", "CPU per run, by runs at once", "runs", "ms"),
    ("steps", "_cpu_ms", "CPU per step, by steps of the run", "steps", "ms"),
    ("bytes", "_ms", "Time per step, by bytes of its result", "bytes", "ms"),
    ("workers", "_rate", "Runs per second, by worker processes", "workers", "runs/s"),
    ("finished", "_cpu_part", "Speed of an empty database, by finished runs", "runs", "part"),
    ("latency", "_step_ms", "Time per step, by round trip to the database", "ms", "ms"),
)
LEAST = 0.1
"""Where a figure of none is drawn on an axis of powers of ten."""


def draw(results: dict[str, Any], folder: pathlib.Path) -> None:
    """Draw what there are figures for."""
    folder.mkdir(parents=True, exist_ok=True)
    medians = {name: found["medians"] for name, found in results["scenarios"].items()}
    panels = [panel for panel in PANELS if panel[0] in medians]
    if panels:
        (folder / "peers.svg").write_text(_peers(medians, panels))
    growing = {who: dict(found) for who, found in medians.get("growth", {}).items()}
    for who, found in medians.get("s7", {}).items():
        growing.setdefault(who, {}).update(found)
    if growing:
        (folder / "growth.svg").write_text(_growth(growing))


def _peers(medians: dict[str, Any], panels: list[tuple[str, str, str, str]]) -> str:
    drawn, y = [_text(16, 24, "CPU, client and server together; shorter is better", "dim")], 56.0
    for scenario, store, unit, title in panels:
        bars = {
            name.split("/")[0]: figures[f"all_cpu_ms_per_{unit}"]
            for name, figures in medians[scenario].items()
            if name.split("/")[0] in NAMES and _is_shown(name.split("/")[1], store)
        }
        drawn.append(_text(16, y, title, "title"))
        longest = max(bars.values(), default=1)
        for peer, value in sorted(bars.items(), key=lambda bar: bar[1]):
            y += 22
            width = max(440 * value / longest, 2)
            drawn.append(_text(120, y + 1, NAMES[peer], "dim", anchor="end"))
            kind = {"holdfast": "ours", "raw": "raw"}.get(peer, "theirs")
            drawn.append(
                f'<rect class="{kind}" x="130" y="{y - 12:.0f}" width="{width:.0f}" height="16"'
                ' rx="2"/>'
            )
            drawn.append(_text(138 + width, y + 1, f"{number(value)} ms", "small"))
        y += 38
    return _svg(720, y - 14, drawn)


def _is_shown(own: str, store: str) -> bool:
    """Return whether the panel of a store shows a peer; one with its own store is beside SQLite."""
    return own == store or (own == "own" and store == "sqlite")


def _growth(found: dict[str, Any]) -> str:
    drawn = []
    for place, (name, suffix, title, unit_x, unit_y) in enumerate(SERIES):
        lines = {
            who.split("/")[1]: _points(figures, name, suffix) for who, figures in found.items()
        }
        drawn += _chart(16 + place % 2 * 356, 16 + place // 2 * 230, title, unit_x, unit_y, lines)
    for place, store in enumerate(("sqlite", "postgres")):
        drawn.append(f'<circle class="dot-{store}" cx="{290 + place * 90}" cy="700" r="5"/>')
        drawn.append(
            _text(
                300 + place * 90,
                704,
                {"sqlite": "SQLite", "postgres": "PostgreSQL"}[store],
                "small",
            )
        )
    return _svg(720, 716, drawn)


def _points(figures: dict[str, float], name: str, suffix: str) -> list[tuple[float, float]]:
    found = [
        (key.split("_")[1], value)
        for key, value in figures.items()
        if key.startswith(f"{name}_") and key.endswith(suffix)
    ]
    if suffix == "_ms":
        found = [
            (key.split("_")[1], figures[key])
            for key in figures
            if key.startswith(f"{name}_") and key.count("_") == 2
        ]
    return sorted((float(x), value) for x, value in found)


def _chart(
    left: float,
    top: float,
    title: str,
    unit_x: str,
    unit_y: str,
    lines: dict[str, list[tuple[float, float]]],
) -> Iterable[str]:
    width, height = 300.0, 140.0
    points = [point for line in lines.values() for point in line]
    if not points:
        return
    xs, highest = [_power(x) for x, _ in points], max(y for _, y in points) * 1.15
    low, span = min(xs), max(max(xs) - min(xs), 1e-9)

    def at(x: float, y: float) -> tuple[float, float]:
        return (
            left + 40 + (_power(x) - low) / span * (width - 40),
            top + 30 + height - y / highest * height,
        )

    yield _text(left, top + 14, title, "title")
    yield (
        f'<path class="axis" fill="none" d="M{left + 40} {top + 30} V{top + 30 + height}'
        f' H{left + width}"/>'
    )
    yield _text(left + 36, top + 40, f"{number(highest / 1.15)}", "small dim", anchor="end")
    yield _text(left + 36, top + 54, unit_y, "small dim", anchor="end")
    yield _text(left + 36, top + 30 + height, "0", "small dim", anchor="end")
    for x in sorted({x for x, _ in points}):
        yield _text(at(x, 0)[0], top + 46 + height, _short(x), "small dim", anchor="middle")
    yield _text(left + width + 12, top + 62 + height, unit_x, "small dim", anchor="end")
    for store, line in lines.items():
        path = " ".join(
            f"{'L' if place else 'M'}{x:.1f} {y:.1f}"
            for place, (x, y) in enumerate(at(*point) for point in line)
        )
        yield f'<path class="line {store}" d="{path}"/>'
        for x, y in (at(*point) for point in line):
            yield f'<circle class="dot-{store}" cx="{x:.1f}" cy="{y:.1f}" r="3"/>'


def _power(value: float) -> float:
    return math.log10(max(value, LEAST))


def _short(value: float) -> str:
    for size, letter in ((1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:g}{letter}"
    return f"{value:g}"


def _text(x: float, y: float, text: str, kind: str = "", *, anchor: str = "start") -> str:
    return (
        f'<text class="{kind}" x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}">{escape(text)}</text>'
    )


def _svg(width: float, height: float, drawn: list[str]) -> str:
    body = "\n".join(drawn)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}"'
        f' role="img">\n{STYLE}\n{body}\n</svg>\n'
    )
