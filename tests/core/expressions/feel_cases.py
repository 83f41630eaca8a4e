"""The shared cases of FEEL: expressions with the values that the compatibility kit states."""

import json
import math
import os
from pathlib import Path

import pytest

from holdfast.core.expressions.temporal import (
    parse_date,
    parse_date_time,
    parse_duration,
    parse_time,
)
from holdfast.core.expressions.values import to_python

CASES = Path(
    os.environ.get("HOLDFAST_CASES", Path(__file__).parents[4] / "shared" / "cases")
).joinpath("dmn")
NOT_RUN = f"the DMN cases were not run: {CASES} does not exist; set HOLDFAST_CASES"

needs_cases = pytest.mark.skipif(not CASES.exists(), reason=NOT_RUN)

_PARSERS = {
    "date": parse_date,
    "time": parse_time,
    "date and time": parse_date_time,
    "duration": parse_duration,
}


def cases(name):
    """Return the cases of a file; none without the folder."""
    path = CASES / name
    return json.loads(path.read_bytes()) if path.exists() else []


def decoded(value):
    """Return a value of the cases as Python."""
    if isinstance(value, list):
        return [decoded(element) for element in value]
    if not isinstance(value, dict):
        return value
    if "@" in value:
        parsed = _PARSERS[value["@"]](value["text"])
        assert parsed is not None, value
        return to_python(parsed)
    return {key: decoded(entry) for key, entry in value.items()}


def same(left, right):
    """Return whether two values are equal; numbers to eight digits."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, int | float) and isinstance(right, int | float):
        return math.isclose(left, right, rel_tol=1e-8, abs_tol=1e-8)
    if type(left) is not type(right):
        return False
    if isinstance(left, list):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    return left == right
