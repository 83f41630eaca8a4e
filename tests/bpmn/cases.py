"""The shared cases: models of other projects with the outcomes that they state."""

import json
import os
from pathlib import Path

import pytest

CASES = Path(
    os.environ.get("HOLDFAST_CASES", Path(__file__).parents[3] / "shared" / "cases")
).joinpath("bpmn")
NOT_RUN = f"the BPMN cases were not run: {CASES} does not exist; set HOLDFAST_CASES"

needs_cases = pytest.mark.skipif(not CASES.exists(), reason=NOT_RUN)


def manifest():
    """Return all cases; none without the folder."""
    path = CASES / "manifest.json"
    return json.loads(path.read_bytes())["cases"] if path.exists() else []


def reading():
    """Return what an independent reader reads of each file; nothing without the folder."""
    path = CASES / "reading.json"
    return json.loads(path.read_bytes()) if path.exists() else {}
