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
    "frames": {"n": 60, "runs": 2},
    "graphs": {"n": 2, "length": 3, "width": 5, "turns": 2},
    "s1": {"seconds": 0.1, "steps": 5},
    "s2": {"n": 10, "steps": 2},
    "s4": {"n": 10},
    "s5": {"n": 20},
    "shares": {"n": 20, "steps": 2, "shares": 4, "turns": 2},
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
