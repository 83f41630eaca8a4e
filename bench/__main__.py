"""``python -m bench``: all scenarios, everybody, some rounds; a table, a JSON file, pictures."""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import pathlib
import platform
import shutil
import signal
import sys
import tempfile
import time
from typing import Any

from bench import environments, picture, report
from bench.publish import publish
from bench.rounds import Rounds, contestants
from bench.scenario import PEERS, STORES, scenarios

DEFAULT = ("s1", "s2", "styles", "s3", "s5", "s6")
"""The scenarios that run unless others are named: the others take long, or are about one
feature."""

FIGURES = (*DEFAULT, "s4", "s8", "graphs", "held")
"""The scenarios whose figures the documentation shows."""

MINUTES = 10


def main() -> int:
    given = _arguments()
    signal.signal(
        signal.SIGTERM, lambda *_: sys.exit(143)
    )  # leave by the door: the server and the folder go, too
    found = scenarios()
    asked = given.scenario or (FIGURES if given.publish else DEFAULT)
    minutes = given.minutes if given.minutes is not None else (0 if given.scenario else MINUTES)
    deadline = math.inf
    chosen = [name for name in found if "all" in asked or name in asked]
    if not chosen:
        sys.exit(f"no such scenario: {', '.join(given.scenario)}; there are {', '.join(found)}")
    wanted = {*given.peer, "holdfast", "raw"} if given.peer else set(PEERS)
    if given.before:
        environments.check_out(given.before)
        wanted |= {"async", "before", "before_async"}
    else:
        wanted -= {"before", "before_async"}
    peers = _peers(wanted)
    began = time.monotonic()
    results = {
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "machine": _machine(),
        "versions": {peer: environments.version(peer) for peer in sorted(peers)},
        "scenarios": {},
    }
    with _ground(given) as (server, folder):
        measuring = Rounds(server, folder, _say)
        if minutes:
            deadline = time.monotonic() + minutes * 60
        for place, name in enumerate(chosen):
            scenario, module = found[name]
            who = contestants(module, peers, set(given.store or STORES))
            _say(f"{name.upper()} {scenario.title}")
            rounds = min(given.rounds, scenario.rounds or given.rounds)
            # Each gets its part of the time that is left: what a quick one leaves is for the rest.
            seconds = (deadline - time.monotonic()) / (len(chosen) - place)
            rows = measuring.run(scenario, module, who, rounds, json.loads(given.size), seconds)
            results["scenarios"][name] = _result(scenario, rows)
            _write(given, results)
    for name in chosen:
        _say("")
        for line in results["scenarios"][name]["table"]:
            _say(line)
    if given.publish:
        publish(results, environments.ROOT)
    _say(f"\n{time.monotonic() - began:.0f} s; figures in {given.out}")
    return 0


def _result(scenario: Any, rows: report.Rounds) -> dict[str, Any]:
    return {
        "title": scenario.title,
        "metric": scenario.metric,
        "unit": scenario.unit,
        "rounds": rows,
        "medians": report.medians(rows),
        "targets": report.verdicts(scenario, rows),
        "table": report.table(scenario, rows),
    }


def _write(given: argparse.Namespace, results: dict[str, Any]) -> None:
    """Write the figures, beside those of scenarios that were not run now."""
    path = pathlib.Path(given.out)
    path.parent.mkdir(parents=True, exist_ok=True)
    old = json.loads(path.read_text())["scenarios"] if path.exists() else {}
    whole = results | {"scenarios": old | results["scenarios"]}
    path.write_text(json.dumps(whole, indent=1) + "\n")
    if given.pictures:
        picture.draw(whole, pathlib.Path(given.pictures))


def _peers(wanted: set[str]) -> set[str]:
    """Return the peers that can be installed; say which cannot."""
    able = set()
    for peer in PEERS:
        if peer not in wanted:
            continue
        try:
            environments.environment(peer)
            able.add(peer)
        except (RuntimeError, OSError) as error:
            _say(f"{peer} is left out: it cannot be installed: {error}")
    if "holdfast" not in able:
        sys.exit("Holdfast itself cannot be installed")
    return able


@contextlib.contextmanager
def _ground(given: argparse.Namespace) -> Any:
    """Give a folder on the disk that is measured and, if wanted, a PostgreSQL server on the same
    disk, as durable as it comes."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="holdfast-bench-", dir=given.work))
    tempfile.tempdir = str(folder)
    try:
        if given.store and "postgres" not in given.store:
            yield None, folder
            return
        from holdfast.testing.postgres import postgres

        with postgres(durable=True) as server:
            yield server, folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _machine() -> dict[str, Any]:
    return {
        "cpus": os.cpu_count(),
        "cpu": _cpu(),
        "system": f"{platform.system()} {platform.release().split('-')[0]}",
        "python": platform.python_version(),
        "load": os.getloadavg()[0],
    }


def _cpu() -> str:
    """Return the name of the processor."""
    with contextlib.suppress(OSError):
        for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return " ".join(line.partition(":")[2].split())
    return platform.machine()


def _say(line: str) -> None:
    print(line, flush=True)


def _words(text: str) -> list[str]:
    return [word for word in text.replace(",", " ").lower().split() if word]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument(
        "--scenario",
        type=_words,
        default=[],
        help=f"which of them, e.g. s1,s2, or all; {','.join(DEFAULT)} unless given",
    )
    parser.add_argument(
        "--peer", type=_words, default=[], help="beside whom, e.g. dbos; everybody unless given"
    )
    parser.add_argument(
        "--before", default="", help="beside an earlier revision of Holdfast as well, e.g. HEAD~1"
    )
    parser.add_argument(
        "--store", type=_words, default=[], help="sqlite or postgres; both unless given"
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--minutes",
        type=float,
        default=None,
        help=f"do as many rounds as fit; {MINUTES} unless scenarios are named; 0: no limit",
    )
    parser.add_argument(
        "--publish",
        action="store_true",
        help=f"write the figures into the documentation; runs {','.join(FIGURES)} unless given",
    )
    parser.add_argument(
        "--size", default="{}", help='JSON that changes the size of the work, e.g. {"n": 100}'
    )
    parser.add_argument(
        "--work",
        default=None,
        help="a folder on the disk to be measured; the temporary one unless given",
    )
    parser.add_argument("--out", default=str(environments.FOLDER / "results.json"))
    parser.add_argument("--pictures", default="", help="draw the pictures into this folder")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
