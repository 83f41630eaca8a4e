"""Rounds: everybody does the same work, one after another, in each round in another order; then
again. What is compared was measured in the same minute."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable
from types import ModuleType
from typing import Any

from bench.environments import BEFORE, ROOT, environment
from bench.place import Place
from bench.scenario import OWN, PEERS, Scenario, function_of

Figures = dict[str, float]
Say = Callable[[str], None]


@dataclasses.dataclass(frozen=True)
class Contestant:
    """A peer on a store."""

    peer: str
    store: str

    @property
    def name(self) -> str:
        return f"{self.peer}/{self.store}"


def contestants(module: ModuleType, peers: set[str], stores: set[str]) -> list[Contestant]:
    """Return who takes part in a scenario."""
    found = [
        Contestant(peer, store)
        for peer, able in PEERS.items()
        if peer in peers
        for store in able
        if store in stores or store == OWN
    ]
    return [one for one in found if function_of(module, one.peer, one.store)]


class Rounds:
    """Measures scenarios."""

    def __init__(self, server: Any, folder: pathlib.Path, say: Say) -> None:
        self._server, self._folder, self._say = server, folder, say
        self._server_pid = (
            int((server.data / "postmaster.pid").read_text().split()[0])
            if server is not None
            else 0
        )

    def run(
        self,
        scenario: Scenario,
        module: ModuleType,
        who: list[Contestant],
        rounds: int,
        size: dict[str, Any],
        seconds: float = math.inf,
    ) -> list[dict[str, Figures]]:
        """Return, for each round, what everybody came to. Who fails twice is not asked again. No
        round begins that would not end within *seconds*, by the time of those before it, but one
        does."""
        found: list[dict[str, Figures]] = []
        failed: dict[str, int] = {}
        began = time.monotonic()
        for number in range(rounds):
            passed = time.monotonic() - began
            if number and passed * (number + 1) / number > seconds:
                self._say(f"  no time for more than {number} of {rounds} rounds")
                break
            turn = number % max(len(who), 1)
            results: dict[str, Figures] = {}
            for one in who[turn:] + who[:turn]:
                if failed.get(one.name, 0) >= 2:
                    continue
                figures = self._measure(scenario, module, one, size)
                if figures is None:
                    failed[one.name] = failed.get(one.name, 0) + 1
                    continue
                results[one.name] = figures
                self._say(
                    f"  round {number + 1}  {one.name:22s}"
                    f" {figures.get(scenario.metric, float('nan')):>12,.2f} {scenario.unit}"
                )
            found.append(results)
        return found

    def _measure(
        self, scenario: Scenario, module: ModuleType, one: Contestant, size: dict[str, Any]
    ) -> Figures | None:
        function = function_of(module, one.peer, one.store)
        assert function is not None
        folder = tempfile.mkdtemp(dir=self._folder)
        given = scenario.size | size
        if "n" in given:
            given["n"] = max(int(given["n"] * scenario.share.get(one.peer, 1)), 1)
        place = Place(
            scenario.name,
            function,
            one.store,
            self._database(one, folder),
            folder,
            given,
            self._pid(one),
        )
        try:
            return _child(environment(one.peer), place, _source(one, place), scenario.timeout)
        except Exception as error:
            self._say(
                f"  {one.name} failed:"
                f" {str(error).strip().splitlines()[-1] if str(error) else type(error).__name__}"
            )
            return None
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            if one.store == "postgres":
                self._server.execute(f'DROP DATABASE IF EXISTS "{_name(place.url)}" WITH (FORCE)')

    def _database(self, one: Contestant, folder: str) -> str:
        if one.store != "postgres":
            return os.path.join(folder, "bench.db")
        name = _name(self._server.new_database())
        return f"postgresql://postgres@/{name}?host={self._server.base}"

    def _pid(self, one: Contestant) -> int:
        return self._server_pid if one.store == "postgres" else 0


def _name(url: str) -> str:
    return url.split("?", 1)[0].rsplit("/", 1)[1]


def _source(one: Contestant, place: Place) -> pathlib.Path:
    """Return where the scenario is read from. An earlier revision is measured by its own scenario,
    because names may have changed since; where it has none, by that of today."""
    if one.peer.startswith("before"):
        scenario = BEFORE / "bench" / "scenarios" / f"{place.scenario}.py"
        if scenario.exists() and f"def {place.contestant}(" in scenario.read_text():
            return BEFORE
    return ROOT


def _child(python: pathlib.Path, place: Place, source: pathlib.Path, timeout: float) -> Figures:
    """Measure in a process of its own; it and all that it started are gone afterwards."""
    environ = os.environ | {"PYTHONPATH": str(source), "BENCH_DEFAULT": str(environment("default"))}
    process = subprocess.Popen(
        [str(python), "-m", "bench.child", json.dumps(dataclasses.asdict(place))],
        env=environ,
        cwd=place.folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        out, err = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        raise RuntimeError(f"it took longer than {timeout:g} s") from None
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    for line in out.splitlines():
        if line.startswith("result "):
            return json.loads(line[7:])
    raise RuntimeError(err.strip() or "it ended without a result")
