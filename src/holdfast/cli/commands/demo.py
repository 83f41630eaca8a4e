"""``holdfast demo``: show that a run survives ``kill -9`` of its worker process."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import click

from holdfast.connect.blocking.engine import Engine

ORDER = 1001
KILL_AT = "pack: wrap"
"""The first process is killed when it prints this."""

LINES_OF_PACK = 3
"""The number of lines that one attempt of the step pack prints."""

TIMEOUT = 20
"""The limit of every wait of the demo, in seconds."""


@click.command(short_help="See a run survive kill -9.", epilog="Example: holdfast demo --keep")
@click.option(
    "--keep",
    is_flag=True,
    help="Keep the folder with the workflow and its database for inspection.",
)
@click.option(
    "--no-open", is_flag=True, help="Open no browser at the end; only print the link of the UI."
)
def demo(keep: bool, no_open: bool) -> None:
    """See a run survive kill -9 of its process. The demo takes a few seconds and works in a
    temporary folder. On a terminal it then shows the run in the web UI until Ctrl-C. At the end it
    removes the folder."""
    folder = Path(tempfile.mkdtemp(prefix="holdfast-demo-"))
    previous = os.environ.get("HOLDFAST_DB")
    os.environ["HOLDFAST_DB"] = str(folder / "holdfast.db")
    try:
        run_id = Demo(folder).play()
        if sys.stdout.isatty():
            _show(folder / "holdfast.db", run_id, opens_browser=not no_open)
        if keep:
            _say(f"The folder is kept: cd {folder} && holdfast show last")
    finally:
        if previous is None:
            del os.environ["HOLDFAST_DB"]
        else:
            os.environ["HOLDFAST_DB"] = previous
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)


def _say(line: str = "") -> None:
    print(line, flush=True)


def _show(database: Path, run_id: str, *, opens_browser: bool) -> None:
    """Serve the web UI of the demo's database until Ctrl-C."""
    from holdfast.cli.local_ui import show_ui  # the server's libraries take a moment to load

    _title(
        "5. The web UI shows the same run, with the crash in its timeline. Ctrl-C ends the demo."
    )
    with Engine(database, workflows=[], work=False, read_only_values=True) as engine:
        asyncio.run(show_ui(engine, f"run/{run_id}", opens_browser=opens_browser))


def _title(line: str) -> None:
    bold, plain = ("\x1b[1m", "\x1b[0m") if sys.stdout.isatty() else ("", "")
    _say(f"\n{bold}{line}{plain}")


class Demo:
    """The demo: one run, and two worker processes, the first of which is killed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.database = folder / "holdfast.db"
        self.module = folder / "fulfil.py"
        self.printed_steps: list[str] = []

    def play(self) -> str:
        """Run the whole demo and return the id of its run. Raises ClickException if a completed
        step ran twice."""
        self._write_workflow()
        run_id = self._start()
        _title("2. A worker process executes the run and is killed in the middle of it.")
        with self._worker() as first:
            first.wait_for(KILL_AT)
            _say(f"$ kill -9 {first.pid}")
            first.kill()
        _say("   The process is dead. It had no chance to save anything.")
        _title("3. Another worker process starts. Completed steps are not run again.")
        with self._worker() as second:
            self._await_result(run_id)
            second.stop()
        self._conclude(run_id)
        return run_id

    def _write_workflow(self) -> None:
        _title("1. A workflow is a Python function. An order is started: a row in a SQLite file.")
        source = Path(__file__).parent.with_name("demo_workflow.py").read_text("utf-8")
        self.module.write_text(source, "utf-8")
        _say(inspect.cleandoc(source[source.index("@workflow") :]))

    def _start(self) -> str:
        with contextlib.closing(Engine(self.database, workflows=[])) as engine:
            run_id = engine.start("fulfil", ORDER).id
        _say(f"\n$ holdfast run fulfil.py:fulfil {ORDER} --detach\n{run_id}")
        return run_id

    @contextlib.contextmanager
    def _worker(self) -> Iterator[Process]:
        _say("$ holdfast worker fulfil.py")
        process = Process(self.folder, self._on_line)
        try:
            yield process
        finally:
            process.close()

    def _on_line(self, line: str) -> None:
        _say(f"   {line}")
        self.printed_steps.append(line.partition("] ")[2].partition(":")[0])

    def _await_result(self, run_id: str) -> None:
        with contextlib.closing(Engine(self.database, workflows=[])) as engine:
            engine.run(run_id).result(timeout=TIMEOUT)

    def _conclude(self, run_id: str) -> None:
        steps = self.printed_steps
        if steps.count("reserve") != 1 or steps.count("charge") != 1:
            raise click.ClickException(f"a completed step ran again: {steps}")
        _say("   reserve and charge ran once, in the first process.")
        if steps.count("pack") > LINES_OF_PACK:
            _say("   pack was interrupted, so it ran again.")
        _title("4. The database has the whole history.")
        for arguments in (["show", run_id], ["why", run_id]):
            _say(f"$ holdfast {' '.join(arguments)}")
            click.get_current_context().find_root().command.main(arguments, standalone_mode=False)
            _say()
        _say("Work that was started gets finished, whatever crashes.")


class Process:
    """A worker in a process of its own; *on_line* is called with each line that its steps print."""

    def __init__(self, folder: Path, on_line: Callable[[str], None]) -> None:
        command = [sys.executable, "-m", "holdfast", "worker", "fulfil.py"]
        package = str(Path(__file__).parents[2])
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([package, os.environ.get("PYTHONPATH", "")]),
        }
        self._log = folder / "worker.log"
        with self._log.open("a") as log:
            self._process = subprocess.Popen(
                command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=log, text=True
            )
        self.pid = self._process.pid
        self._lines: list[str] = []
        self._line_added = threading.Condition()
        self._reader = threading.Thread(target=self._read_lines, args=(on_line,), daemon=True)
        self._reader.start()

    def _read_lines(self, on_line: Callable[[str], None]) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            # stdout may be closed: the main thread fails on its own next line
            with contextlib.suppress(OSError):
                on_line(line.rstrip())
            with self._line_added:
                self._lines.append(line)
                self._line_added.notify_all()

    def wait_for(self, text: str) -> None:
        """Wait until the process has printed *text*. Raises ClickException after the timeout."""
        with self._line_added:
            if not self._line_added.wait_for(
                lambda: any(text in line for line in self._lines), TIMEOUT
            ):
                raise click.ClickException(
                    f"the worker did not print {text!r} within {TIMEOUT} s; the end of its log:"
                    f" {self._log.read_text('utf-8')[-500:]}"
                )

    def kill(self) -> None:
        """Kill the process with SIGKILL, and wait for its end."""
        self._process.kill()
        self._process.wait(TIMEOUT)

    def stop(self) -> None:
        """Stop the process with SIGTERM, and wait for its end."""
        self._process.terminate()
        self._process.wait(TIMEOUT)

    def close(self) -> None:
        """Kill the process if it is still alive, and release its pipe and thread."""
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait(TIMEOUT)
        self._reader.join(TIMEOUT)
        if self._process.stdout is not None:
            self._process.stdout.close()
