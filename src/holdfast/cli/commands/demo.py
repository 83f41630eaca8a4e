"""``holdfast demo``: a run survives ``kill -9`` of the process that works on it, before your
eyes."""

from __future__ import annotations

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

from holdfast.connect.engine import Engine

ORDER = 1001
CUT_OFF = "pack: wrap"
"""What the first process does when it is killed."""

LINES_OF_PACK = 3
"""What it prints when it is done once."""

PATIENCE = 20
"""Seconds for which the demo waits for anything at all."""


@click.command(short_help="See a run survive kill -9.", epilog="Example: holdfast demo --keep")
@click.option(
    "--keep",
    is_flag=True,
    help="Keep the folder with the workflow and its database, to look around in.",
)
def demo(keep: bool) -> None:
    """See a run survive kill -9: it takes a few seconds, in a temporary folder, and cleans up
    behind itself."""
    folder = Path(tempfile.mkdtemp(prefix="holdfast-demo-"))
    before = os.environ.get("HOLDFAST_DB")
    os.environ["HOLDFAST_DB"] = str(folder / "holdfast.db")
    try:
        Demo(folder).play()
        if keep:
            _say(f"The folder is kept: cd {folder} && holdfast show last")
    finally:
        os.environ.pop("HOLDFAST_DB") if before is None else os.environ.update(HOLDFAST_DB=before)
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)


def _say(line: str = "") -> None:
    print(line, flush=True)


def _title(line: str) -> None:
    bold, plain = ("\x1b[1m", "\x1b[0m") if sys.stdout.isatty() else ("", "")
    _say(f"\n{bold}{line}{plain}")


class Demo:
    """The play: a workflow in a file, a run in a database, and two processes, one after the
    other."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.database = folder, folder / "holdfast.db"
        self.module = folder / "fulfil.py"
        self.ran: list[str] = []

    def play(self) -> None:
        """Play it all."""
        self._write_workflow()
        run_id = self._start()
        _title("2. A process works on it, and dies in the middle of it.")
        with self._working() as first:
            first.wait_for(CUT_OFF)
            _say(f"$ kill -9 {first.pid}")
            first.kill()
        _say("   The process is dead. It had no chance to save anything.")
        _title("3. Another process is started. What was done stays done.")
        with self._working() as second:
            self._await(run_id)
            second.stop()
        self._conclude(run_id)

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
    def _working(self) -> Iterator[Process]:
        _say("$ holdfast worker fulfil.py")
        process = Process(self.folder, self._heard)
        try:
            yield process
        finally:
            process.close()

    def _heard(self, line: str) -> None:
        _say(f"   {line}")
        self.ran.append(line.partition("] ")[2].partition(":")[0])

    def _await(self, run_id: str) -> None:
        with contextlib.closing(Engine(self.database, workflows=[])) as engine:
            engine.run(run_id).result(timeout=PATIENCE)

    def _conclude(self, run_id: str) -> None:
        once = [step for step in ("reserve", "charge") if self.ran.count(step) == 1]
        if once != ["reserve", "charge"]:
            raise click.ClickException(f"a completed step ran again: {self.ran}")
        again = (
            " pack was cut off, so it was done again."
            if self.ran.count("pack") > LINES_OF_PACK
            else ""
        )
        _say(f"   {' and '.join(once)} ran once, in the first process.{again}")
        _title("4. All of it is in the database.")
        for words in (["show", run_id], ["why", run_id]):
            _say(f"$ holdfast {' '.join(words)}")
            click.get_current_context().find_root().command.main(words, standalone_mode=False)
            _say()
        _say("Work that was started gets finished, whatever crashes.")


class Process:
    """A worker in a process of its own; whatever its steps print is heard line by line."""

    def __init__(self, folder: Path, heard: Callable[[str], None]) -> None:
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
        self._said = threading.Condition()
        self._ears = threading.Thread(target=self._listen, args=(heard,), daemon=True)
        self._ears.start()

    def _listen(self, heard: Callable[[str], None]) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            with contextlib.suppress(OSError):  # nobody reads on; the next to print will notice
                heard(line.rstrip())
            with self._said:
                self._lines.append(line)
                self._said.notify_all()

    def wait_for(self, words: str) -> None:
        """Return when a line with these words was printed."""
        with self._said:
            if not self._said.wait_for(
                lambda: any(words in line for line in self._lines), PATIENCE
            ):
                raise click.ClickException(
                    f"the worker did not come to {words!r}: {self._log.read_text('utf-8')[-500:]}"
                )

    def kill(self) -> None:
        """kill -9."""
        self._process.kill()
        self._process.wait(PATIENCE)

    def stop(self) -> None:
        """Ask it to stop, and wait until it has."""
        self._process.terminate()
        self._process.wait(PATIENCE)

    def close(self) -> None:
        """Leave nothing behind."""
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait(PATIENCE)
        self._ears.join(PATIENCE)
        if self._process.stdout is not None:
            self._process.stdout.close()
