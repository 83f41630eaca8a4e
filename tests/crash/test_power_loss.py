"""A power failure loses or tears what was not synced, and nothing that was acknowledged."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys

import pytest

pytest.importorskip("apsw")

ROOT = pathlib.Path(__file__).parents[2]


@pytest.mark.timeout(300)
def test_a_power_failure_loses_nothing_that_was_acknowledged(tmp_path):
    command = [sys.executable, "-m", "tests.crash.power_loss_victim", str(tmp_path), "1", "40"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    *findings, figures = done.stdout.splitlines()
    assert findings == []
    assert json.loads(figures)["images"] == 40
    assert json.loads(figures)["checkpoints"] >= 2
