"""OpenWorkflow: a program of Node.js does the work (``openworkflow.mjs``) and measures itself."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
from typing import Any

from bench.environments import node, node_modules
from bench.place import Meter, Place

PROGRAM = pathlib.Path(__file__).with_suffix(".mjs")
CONCURRENCY = 200


def command(place: Place, work: str, **more: Any) -> list[str]:
    """Return the command that starts the program with some work."""
    given = {
        "modules": str(node_modules("openworkflow")),
        "url": place.url,
        "work": work,
        "concurrency": CONCURRENCY,
        **{key: value for key, value in place.size.items() if isinstance(value, int | float)},
        **more,
    }
    return [str(node("openworkflow")), "--no-warnings", str(PROGRAM), json.dumps(given)]


def become(place: Place, work: str, **more: Any) -> None:
    """Replace this process by the program, so that it is the one that is killed."""
    started = command(place, work, **more)
    os.execv(started[0], started)


def result(place: Place, work: str, **more: Any) -> dict[str, Any]:
    """Return what the program prints at its end."""
    ended = subprocess.run(
        command(place, work, **more), stdout=subprocess.PIPE, text=True, check=False
    )
    for line in ended.stdout.splitlines():
        if line.startswith("result "):
            found: dict[str, Any] = json.loads(line[7:])
            return found
    raise RuntimeError("the program of OpenWorkflow ended without a result")


def measured(place: Place, work: str, unit: str) -> dict[str, float]:
    """Return the figures of the work that the program has measured."""
    found = result(place, work)
    return place.per(Meter(found["wall"], found["cpu"]), found["count"], unit)
