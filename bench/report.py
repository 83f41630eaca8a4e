"""From rounds to figures: medians, ratios of the same round, and whether the promises hold."""

from __future__ import annotations

import statistics
from typing import Any

from bench.rounds import Figures
from bench.scenario import OWN, Scenario, Target, kept_speed

Rounds = list[dict[str, Figures]]


def medians(rounds: Rounds) -> dict[str, Figures]:
    """Return the median of each figure of each contestant."""
    names = sorted({name for one in rounds for name in one})
    return {name: _median_of([one[name] for one in rounds if name in one]) for name in names}


def _median_of(figures: list[Figures]) -> Figures:
    keys = [key for key, value in figures[0].items() if isinstance(value, int | float)]
    return {key: statistics.median(one[key] for one in figures if key in one) for key in keys}


def ratios(rounds: Rounds, target: Target) -> list[float]:
    """Return, for each round in which both took part, the figure that a target is about."""
    found = []
    for one in rounds:
        ours = one.get(f"{target.ours}/{target.store}")
        theirs = one.get(f"{target.peer}/{target.store}", one.get(f"{target.peer}/{OWN}"))
        if ours is None or target.metric not in ours:
            continue
        if not target.peer:
            found.append(ours[target.metric])
        elif theirs is not None and theirs.get(target.baseline or target.metric):
            found.append(ours[target.metric] / theirs[target.baseline or target.metric])
    return found


def verdicts(scenario: Scenario, rounds: Rounds) -> list[dict[str, Any]]:
    """Return what became of each target."""
    found = []
    for target in (*scenario.targets, *kept_speed(scenario)):
        values = ratios(rounds, target)
        if values:
            value = statistics.median(values)
            found.append(
                {
                    "store": target.store,
                    "metric": target.metric,
                    "peer": target.peer,
                    "bound": target.bound,
                    "at_most": target.at_most,
                    "median": value,
                    "rounds": values,
                    "holds": target.holds(value),
                }
            )
    return found


def table(scenario: Scenario, rounds: Rounds) -> list[str]:
    """Return the lines of a table, as wide as a terminal."""
    found = medians(rounds)
    shown = [
        key
        for key in dict.fromkeys(key for figures in found.values() for key in figures)
        if key != "seconds" or scenario.metric == key
    ]
    lines = [f"{scenario.name.upper()} {scenario.title} ({scenario.unit}; median of {len(rounds)})"]
    for name, figures in found.items():
        cells = "  ".join(f"{key} {number(figures[key])}" for key in shown if key in figures)
        lines.append(f"  {name:22s} {cells}")
    for one in verdicts(scenario, rounds):
        what = f"{one['metric']} / {one['peer']}" if one["peer"] else one["metric"]
        sign = "<=" if one["at_most"] else ">="
        spread = f"[{number(min(one['rounds']))} .. {number(max(one['rounds']))}]"
        mark = "ok  " if one["holds"] else "MISS"
        lines.append(
            f"  {mark} {one['store']:8s} {what:34s} {number(one['median'])} {spread}  goal"
            f" {sign} {number(one['bound'])}"
        )
    return lines


def number(value: float) -> str:
    """Return a figure with three digits that matter."""
    if value == 0 or abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.2f}" if abs(value) >= 1 else f"{value:.3g}"
