"""End the processes of scripts if this process dies, also by SIGKILL.

A process that is killed cannot stop what it has started. So a small process beside it, the guard,
reads a pipe whose other end only this process has. When the pipe ends, the guard ends every process
group that was not reported as ended. It is started with the first script and ends with this
process.

Invariant: a group is added before its command begins (``gated`` commands wait for a line), so that
there is no moment at which a command runs unguarded.
"""

from __future__ import annotations

import atexit
import os
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress

GUARD = """
import os, signal, sys, time
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
groups = set()
rest = b""
while chunk := os.read(0, 65536):
    *lines, rest = (rest + chunk).split(b"\\n")
    for line in lines:
        (groups.add if line[:1] == b"+" else groups.discard)(int(line[1:]))
for number, pause in ((signal.SIGTERM, float(sys.argv[1])), (signal.SIGKILL, 0)):
    for group in list(groups):
        try:
            os.killpg(group, number)
        except OSError:
            groups.discard(group)
    if groups:
        time.sleep(pause)
"""
"""The program of the guard. Each line adds a process group, or removes it."""

GATE = 'read -r _holdfast_gate || exit 125; exec "$@"'
"""A shell that waits for a line on stdin before it becomes the command. It ends at the end of
stdin: then this process has died before it has added the group."""

OPEN = b"\n"
"""What opens the gate."""


def gated(command: Sequence[str]) -> list[str]:
    """Return a command that begins when a line arrives on its stdin."""
    return ["/bin/sh", "-c", GATE, "holdfast", *command]


class ProcessGuard:
    """The guard of this process. It is started again if it has died."""

    def __init__(self, grace: float) -> None:
        self._grace: float = grace
        self._lock: threading.Lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._groups: set[int] = set()
        # The pipe must end with this process: a fork of it must not hold it open.
        os.register_at_fork(after_in_child=self._forget)

    def add(self, group: int) -> None:
        """Guard a process group. Raises OSError if the guard cannot be started."""
        with self._lock:
            self._groups.add(group)
            if self._process is None or not self._write(f"+{group}\n"):
                self._start()

    def remove(self, group: int) -> None:
        """Stop guarding a process group, which has ended."""
        with self._lock:
            self._groups.discard(group)
            self._write(f"-{group}\n")

    def _write(self, line: str) -> bool:
        """Tell the guard; return whether it is alive."""
        if self._process is None or self._process.stdin is None:
            return False
        try:
            os.write(self._process.stdin.fileno(), line.encode())
        except OSError:
            return False
        return True

    def _start(self) -> None:
        """Start a guard of all groups."""
        if self._process is None:
            atexit.register(self._close)
        else:
            self._close()
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", GUARD, str(self._grace)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            # A signal to the group of this process, such as Ctrl-C, does not reach the guard.
            start_new_session=True,
        )
        for group in self._groups:
            self._write(f"+{group}\n")

    def _close(self) -> None:
        process = self._process
        if process is None:
            return
        if process.stdin is not None:
            process.stdin.close()
        with suppress(subprocess.TimeoutExpired):
            process.wait(2 * self._grace)

    def _forget(self) -> None:
        """In a fork: release the pipe; scripts of the fork get a guard of their own."""
        process = self._process
        self._lock = threading.Lock()
        self._groups = set()
        self._process = None
        if process is not None:
            if process.stdin is not None:
                process.stdin.close()
            process.returncode = 0  # it is not a child of the fork, which must not wait for it
