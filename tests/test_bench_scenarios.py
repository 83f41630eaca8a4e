"""The scenarios of the benchmark: each one runs with little work, so that it follows every change
of the public names."""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import subprocess
import sys

import pytest

from bench.place import Place

ROOT = pathlib.Path(__file__).parent.parent

SIZES = {
    "events": {"n": 40, "steps": 3},
    "feel": {"n": 64},
    "frames": {"n": 60, "runs": 2},
    "graphs": {"n": 2, "length": 3, "width": 5, "turns": 2},
    "model_loop": {"n": 12, "restart": 5},
    "growth": {
        "runs": [5],
        "steps": [5],
        "bytes": [10],
        "workers": [1],
        "drained": 20,
        "latencies": [],
    },
    "held": {"n": 20, "seconds": 0.1},
    "http": {"n": 16, "clients": 4, "processes": 2, "pages": 2, "streams": 3, "events": 2},
    "lists": {"n": 300, "live": 5, "turns": 1},
    "models": {
        "n": 5,
        "few": 4,
        "many": 6,
        "parallel": 10,
        "elements": 50,
        "runs": 5,
    },
    "s1": {"seconds": 0.1, "steps": 5},
    "s2": {"n": 10, "steps": 2},
    "s4": {"n": 10},
    "s5": {"n": 20},
    "s7": {
        "levels": [2000, 3000],
        "compared": 2000,
        "runs": 5,
        "turns": 2,
        "steps": 2,
        "long": 20,
    },
    "styles": {"n": 10, "many": 20, "steps": 2},
    "shares": {"n": 20, "steps": 2, "shares": 4, "turns": 2},
    "ui": {"n": 60, "live": 2, "turns": 1, "steps": 30, "few": 5, "events": 0},
    "wf_calls": {"n": 5, "turns": 1},
    "wf_fanout": {"n": 5, "turns": 1},
    "wf_loop": {"n": 20, "turns": 1},
    "wf_parse": {"n": 50, "turns": 2},
    "tasks": {"n": 20, "workers": 2, "batch": 4, "signals": 12, "kinds": 4, "routed": 20},
}


@pytest.mark.parametrize("scenario", SIZES)
def test_a_scenario_runs_with_little_work(scenario, tmp_path):
    place = Place(
        scenario=scenario,
        contestant="holdfast",
        store="sqlite",
        url=str(tmp_path / "bench.db"),
        folder=str(tmp_path),
        size=SIZES[scenario],
    )

    child = subprocess.run(
        [sys.executable, "-m", "bench.child", json.dumps(dataclasses.asdict(place))],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'src'}"},
        capture_output=True,
        text=True,
        timeout=120,
    )

    assert "result " in child.stdout, child.stderr
