"""What a contestant gets: a database of its own, the size of the work, and a meter. Standard
library only: it runs in the environment of every peer."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

TICK = os.sysconf("SC_CLK_TCK")


@dataclasses.dataclass
class Meter:
    """How long something took: by the clock, and in CPU seconds of this process and of the database
    server."""

    wall: float = 0.0
    cpu: float = 0.0
    server: float = 0.0


@dataclasses.dataclass
class Place:
    """Where one measurement happens."""

    scenario: str
    contestant: str
    store: str
    url: str
    folder: str
    size: dict[str, Any]
    server_pid: int = 0

    def __getattr__(self, name: str) -> Any:
        try:
            return self.size[name]
        except KeyError:
            raise AttributeError(name) from None

    @contextmanager
    def meter(self) -> Iterator[Meter]:
        """Measure a block."""
        found = Meter()
        cpu, server, began = _own_cpu(), _tree_cpu(self.server_pid), time.perf_counter()
        yield found
        found.wall = time.perf_counter() - began
        found.cpu, found.server = _own_cpu() - cpu, _tree_cpu(self.server_pid) - server

    def per(self, meter: Meter, count: int, unit: str) -> dict[str, float]:
        """Return what a meter says, for each of *count* units of work."""
        found = {
            "rate": count / meter.wall,
            f"cpu_ms_per_{unit}": meter.cpu / count * 1e3,
            "seconds": meter.wall,
        }
        if self.server_pid:
            found[f"server_cpu_ms_per_{unit}"] = meter.server / count * 1e3
        return found | {f"all_cpu_ms_per_{unit}": (meter.cpu + meter.server) / count * 1e3}

    def spawn(self, function: str, **more: Any) -> Helper:
        """Start a process of the same contestant that calls *function* of the same scenario; it is
        gone when this one is."""
        return Helper(dataclasses.replace(self, contestant=function, size=self.size | more))


class Helper:
    """A process beside this one: it says when it is ready, and begins when it is told."""

    def __init__(self, place: Place) -> None:
        command = [sys.executable, "-m", "bench.child", json.dumps(dataclasses.asdict(place))]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.listen("ready")

    def go(self) -> None:
        """Let it begin."""
        assert self.process.stdin is not None
        self.process.stdin.write("go\n")
        self.process.stdin.flush()

    def listen(self, word: str) -> str:
        """Wait for a line that begins with *word*, and return the rest of it."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith(word):
                return line[len(word) :].strip()
        raise RuntimeError(f"a helper ended before it said {word}")

    def cpu(self) -> float:
        """Return the CPU seconds that it has used."""
        return _cpu_of(self.process.pid)[0]

    def peak_mb(self) -> float:
        """Return the most memory that it has had, in MB."""
        with open(f"/proc/{self.process.pid}/status") as status:
            return next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) / 1024

    def kill(self) -> None:
        """Kill it as a power failure would."""
        self.process.kill()
        self.process.wait()


def say(word: str) -> None:
    """Tell the process that started this one."""
    sys.stdout.write(word + "\n")
    sys.stdout.flush()


def ready() -> None:
    """In a helper: say that it is ready, wait for the word to begin, and end with the process that
    started it."""
    say("ready")
    if not sys.stdin.readline():
        os._exit(0)
    threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start()


def wait_until(
    count: Any, wanted: int, *, seconds: float = 120.0, pause: float = 0.02, gently: bool = False
) -> None:
    """Wait until *count* says *wanted*. Raises when it never does.

    *gently*: to count is work for the database, too, so it is asked often only when the end is
    near, by the rate so far."""
    began = time.monotonic()
    first = found = count()
    while found < wanted:
        passed = time.monotonic() - began
        if passed > seconds:
            raise RuntimeError(f"only {found} of {wanted} after {seconds:g} s")
        left = passed * (wanted - found) / (found - first) if gently and found > first else pause
        time.sleep(min(max(pause, left / 2), 0.25) if gently else pause)
        found = count()


def latencies(seconds: Iterable[float]) -> dict[str, float]:
    """Return percentiles in milliseconds."""
    found = sorted(seconds)
    return {
        "p50_ms": percentile(found, 50) * 1e3,
        "p99_ms": percentile(found, 99) * 1e3,
        "max_ms": found[-1] * 1e3,
    }


def percentile(found: list[float], share: float) -> float:
    """Return a percentile of sorted figures."""
    place = (len(found) - 1) * share / 100
    low, high = math.floor(place), math.ceil(place)
    return found[low] + (found[high] - found[low]) * (place - low)


def check(found: Any, wanted: Any) -> None:
    """Fast and wrong is not fast."""
    if found != wanted:
        raise AssertionError(f"the result is {found!r}, not {wanted!r}")


def memory_mb() -> float:
    """Return the memory of this process, in MB."""
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def _own_cpu() -> float:
    times = os.times()
    return time.process_time() + times.children_user + times.children_system


def _cpu_of(pid: int) -> tuple[float, int]:
    """Return the CPU seconds of a process with those of its ended children, and the pid of its
    parent."""
    try:
        with open(f"/proc/{pid}/stat") as stat:
            fields = stat.read().rsplit(")", 1)[1].split()
    except OSError:
        return 0.0, 0
    return sum(int(field) for field in fields[11:15]) / TICK, int(fields[1])


def _tree_cpu(pid: int) -> float:
    """Return the CPU seconds of a server and all its processes."""
    if not pid:
        return 0.0
    found = [_cpu_of(int(entry)) for entry in os.listdir("/proc") if entry.isdigit()]
    return _cpu_of(pid)[0] + sum(cpu for cpu, parent in found if parent == pid)
