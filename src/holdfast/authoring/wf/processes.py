"""Run a command in a process group of its own, with limits on its output and its time.

A thread starts the command and reads its pipes, so that the command is ended and its pipes are
closed even if the event loop of the caller is closed meanwhile.

Invariants:
- Both pipes are read at the same time, so that a full pipe blocks nothing.
- However the command ends (also if the caller is cancelled or this process is killed), no process
  of its group is left.
"""

from __future__ import annotations

import asyncio
import os
import selectors
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from holdfast.authoring.wf.process_guard import OPEN, ProcessGuard, gated
from holdfast.core.trace_context import traceparent_here
from holdfast.errors.wf_runs import ScriptFailed

MOST_PRINTED = 8_000_000
"""Bytes that a command may print to each of stdout and stderr."""

GRACE = 1.0
"""Seconds between SIGTERM and SIGKILL."""

LOOK = 0.1
"""Seconds between two looks whether a command has ended, where the system does not tell."""

STDERR_CHARACTERS = 2000

TRACEPARENT = "TRACEPARENT"
"""The environment variable by which programs learn the span that has started them."""

GUARD = ProcessGuard(GRACE)
"""Ends the commands of this process if it dies."""


class Finished(NamedTuple):
    """How a command ended. A negative code is the signal that killed it."""

    code: int
    stdout: bytes
    stderr: bytes


async def run_process(
    command: Sequence[str],
    *,
    name: str,
    cwd: str,
    env: Mapping[str, str],
    stdin: bytes = b"",
) -> Finished:
    """Run a command to its end. Raises ScriptFailed if it cannot start or prints too much."""
    _check_command(command, name, cwd, env)
    env = _traced(env)
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[Finished] = loop.create_future()

    def report(result: Finished | None, error: BaseException | None) -> None:
        if ended.done():
            return
        if error is not None:
            ended.set_exception(error)
        elif result is not None:
            ended.set_result(result)

    def work() -> None:
        result = None
        raised = None
        try:
            result = process.run(command, cwd, env, stdin)
        except BaseException as error:  # of whatever kind: the caller raises it
            raised = error
        with suppress(RuntimeError):  # the loop is closed: no caller waits any more
            loop.call_soon_threadsafe(report, result, raised)

    process = GuardedProcess(name)
    threading.Thread(target=work, name=f"holdfast script {name}", daemon=True).start()
    try:
        return await asyncio.shield(ended)
    except asyncio.CancelledError:
        process.stop()
        with suppress(ScriptFailed, CommandStopped):
            await ended
        raise


def _traced(env: Mapping[str, str]) -> Mapping[str, str]:
    """Return the environment with the span in which the command runs, if runs are traced."""
    parent = traceparent_here()
    if parent is None:
        return env
    return {**env, TRACEPARENT: parent}


def _check_command(command: Sequence[str], name: str, cwd: str, env: Mapping[str, str]) -> None:
    """Raise ScriptFailed if there is no such program; a shell would say it less clearly."""
    program = command[0]
    place = os.path.join(cwd, program) if "/" in program else program
    if shutil.which(place, path=env.get("PATH")) is None:
        why = f"it cannot be started: there is no executable program {program}"
        raise ScriptFailed(script=name, cwd=cwd, why=why)


class CommandStopped(Exception):
    """The caller has stopped the command."""


class GuardedProcess:
    """A command that a thread runs to its end; another thread may stop it."""

    def __init__(self, name: str) -> None:
        self._name: str = name
        self._wakeup, self._alarm = os.pipe()
        self._lock: threading.Lock = threading.Lock()
        self._is_over: bool = False

    def stop(self) -> None:
        """End the command, from another thread."""
        with self._lock:
            if not self._is_over:
                os.write(self._alarm, b"x")

    def run(
        self, command: Sequence[str], cwd: str, env: Mapping[str, str], stdin: bytes
    ) -> Finished:
        """Run the command to its end. Raises ScriptFailed, CommandStopped."""
        try:
            process = subprocess.Popen(
                gated(command),
                cwd=cwd,
                env=dict(env),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            self._close()
            why = f"it cannot be started: {error}"
            raise ScriptFailed(script=self._name, cwd=cwd, why=why) from None
        try:
            self._guard(process)
            return ProcessPipes(process, self._name, OPEN + stdin, self._wakeup).communicate()
        finally:
            end_group(process.pid)
            for pipe in (process.stdin, process.stdout, process.stderr):
                if pipe is not None:
                    with suppress(OSError):
                        pipe.close()
            process.wait()  # it has been killed, if it had not ended
            GUARD.remove(process.pid)
            self._close()

    def _guard(self, process: subprocess.Popen[bytes]) -> None:
        try:
            GUARD.add(process.pid)
        except OSError as error:
            raise ScriptFailed(script=self._name, why=f"it cannot be guarded: {error}") from None

    def _close(self) -> None:
        with self._lock:
            self._is_over = True
            os.close(self._wakeup)
            os.close(self._alarm)


class ProcessPipes:
    """The standard input and outputs of a command, which are served until it ends."""

    def __init__(
        self, process: subprocess.Popen[bytes], name: str, stdin: bytes, wakeup: int
    ) -> None:
        self._process: subprocess.Popen[bytes] = process
        self._name: str = name
        self._rest: memoryview = memoryview(stdin)
        self._selector: selectors.BaseSelector = selectors.DefaultSelector()
        self._printed: dict[str, list[bytes]] = {"stdout": [], "stderr": []}
        self._sizes: dict[str, int] = {"stdout": 0, "stderr": 0}
        self._open: int = 2
        """The number of pipes that may still say something."""
        self._exit: int | None = None
        """A file that is readable when the command has ended, where the system has such files."""
        self._selector.register(wakeup, selectors.EVENT_READ, self._stop)
        for stream in ("stdout", "stderr"):
            pipe = getattr(process, stream)
            os.set_blocking(pipe.fileno(), False)
            self._selector.register(pipe, selectors.EVENT_READ, stream)
        assert process.stdin is not None
        os.set_blocking(process.stdin.fileno(), False)
        self._selector.register(process.stdin, selectors.EVENT_WRITE, self._feed)

    def communicate(self) -> Finished:
        """Write the input, read the outputs, and return how the command has ended. Raises
        ScriptFailed, CommandStopped."""
        with suppress(AttributeError, OSError):
            self._exit = os.pidfd_open(self._process.pid)
            self._selector.register(self._exit, selectors.EVENT_READ, _nothing)
        try:
            while self._process.poll() is None:
                self._turn(LOOK if self._exit is None else None)
            self._read_rest()
        finally:
            self._selector.close()
            if self._exit is not None:
                os.close(self._exit)
        printed = {stream: b"".join(chunks) for stream, chunks in self._printed.items()}
        return Finished(self._process.returncode, printed["stdout"], printed["stderr"])

    def _read_rest(self) -> None:
        """Read what the command has printed last. What its descendants print after their group was
        ended is not awaited."""
        self._turn(0)
        if self._open:
            end_group(self._process.pid)
        until = time.monotonic() + GRACE
        while self._open and time.monotonic() < until:
            self._turn(LOOK)

    def _turn(self, timeout: float | None) -> None:
        for key, _ in self._selector.select(timeout):
            if isinstance(key.data, str):
                self._read(key.fileobj, key.data)
            else:
                key.data(key.fileobj)

    def _read(self, pipe: Any, stream: str) -> None:
        try:
            chunk = pipe.read(65536)
        except OSError:
            chunk = b""
        if chunk is None:
            return
        if not chunk:
            self._selector.unregister(pipe)
            self._open -= 1
            return
        self._printed[stream].append(chunk)
        self._sizes[stream] += len(chunk)
        if self._sizes[stream] > MOST_PRINTED:
            raise ScriptFailed(
                script=self._name,
                why=f"it printed more than {MOST_PRINTED} bytes to {stream}: write them to a file",
            )

    def _feed(self, pipe: Any) -> None:
        try:
            written = os.write(pipe.fileno(), self._rest[:65536])
        except BlockingIOError:
            return
        except OSError:  # the command need not read its input
            written = len(self._rest)
        self._rest = self._rest[written:]
        if not self._rest:
            self._selector.unregister(pipe)
            pipe.close()

    def _stop(self, wakeup: Any) -> None:
        raise CommandStopped


def _nothing(_: Any) -> None:
    """Do nothing: the loop looks whether the command has ended."""


def end_group(group: int) -> None:
    """End every process of a group: first politely, then by force."""
    if not _signal_group(group, signal.SIGTERM):
        return
    until = time.monotonic() + GRACE
    pause = 0.002
    while time.monotonic() < until and _signal_group(group, 0) and _is_alive(group):
        time.sleep(pause)
        pause = min(pause * 2, 0.05)
    _signal_group(group, signal.SIGKILL)


def _is_alive(group: int) -> bool:
    """Return whether a process of the group is more than a zombie, as far as the system tells: in a
    container, orphans may stay zombies for ever."""
    try:
        processes = [entry for entry in os.listdir("/proc") if entry.isdigit()]
    except OSError:
        return True
    return any(_is_member(entry, group) for entry in processes)


def _is_member(process: str, group: int) -> bool:
    try:
        with open(f"/proc/{process}/stat", "rb") as file:
            state, _, own_group = file.read().rpartition(b")")[2].split()[:3]
    except (OSError, ValueError):
        return False
    return int(own_group) == group and state != b"Z"


def _signal_group(group: int, number: int) -> bool:
    """Send a signal to a process group; return whether any process is left in it."""
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def decoded(printed: bytes, name: str, stream: str) -> str:
    """Return printed bytes as text. Raises ScriptFailed for invalid UTF-8."""
    try:
        return printed.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ScriptFailed(
            script=name, why=f"it printed invalid UTF-8 to {stream}, at byte {error.start}"
        ) from None


def last_words(stderr: bytes) -> str:
    """Return what a failed command printed to stderr, cut to a readable length."""
    return stderr.decode("utf-8", "replace").strip()[:STDERR_CHARACTERS]


def checked_end(name: str, finished: Finished) -> None:
    """Raise ScriptFailed unless the command ended with code 0."""
    if finished.code == 0:
        return
    if finished.code < 0:
        killed = signal.Signals(-finished.code).name if -finished.code in _SIGNALS else "a signal"
        raise ScriptFailed(
            script=name, killed_by=killed, code=finished.code, stderr=last_words(finished.stderr)
        )
    raise ScriptFailed(script=name, code=finished.code, stderr=last_words(finished.stderr))


_SIGNALS = frozenset(int(number) for number in signal.Signals)
