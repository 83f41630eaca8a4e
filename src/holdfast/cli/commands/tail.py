"""``holdfast tail``: print the frames that a run emits."""

from __future__ import annotations

import sys
from typing import Any

import click
import msgspec

from holdfast.cli.context import command_context, printing
from holdfast.cli.output import print_line
from holdfast.connect.open_database import OpenDatabase
from holdfast.core.streams.model import FrameKind, StreamMode
from holdfast.core.streams.rules import split
from holdfast.service.streams import PAGE
from holdfast.views.runs import RunView
from holdfast.views.streams import FrameView

EPILOG = """\b
Examples:
  holdfast tail last
  holdfast tail last -f
  holdfast tail 01m7ge8gkb --after 120 --json"""


@click.command(short_help="Show the output of a run.", epilog=EPILOG)
@click.argument("run", metavar="RUN")
@click.option(
    "-f", "--follow", is_flag=True, help="Wait for further output until the run has ended."
)
@click.option(
    "--after",
    type=click.IntRange(min=0),
    default=0,
    metavar="SEQ",
    help="Continue after the frame with this number. E.g. --after 120",
)
@click.option("--step", metavar="STEP", help="Only output of this step. E.g. --step charge")
@click.option(
    "--attempt",
    metavar="N",
    type=click.IntRange(min=1),
    help="Only output of this attempt; the first is 1. E.g. --attempt 2",
)
@click.option(
    "--no-best-effort",
    is_flag=True,
    help="Omit best-effort frames, which are kept only for a limited time.",
)
@printing
def tail(
    run: str,
    follow: bool,
    after: int,
    step: str | None,
    attempt: int | None,
    no_best_effort: bool,
) -> None:
    """Show the frames that the steps and the workflow code of a run have emitted, oldest first.
    With --json each frame is one line of JSON."""
    with command_context().opened() as database:
        record = database.find(run)
        show = _Printer(database, record)
        options: dict[str, Any] = {
            "step": step,
            "attempt": attempt,
            "best_effort": not no_best_effort,
        }
        if follow:
            for frame in database.engine.streams.tail(record.id, after=after, **options):
                show(frame)
            show.end()
            return
        while page := database.engine.streams.read(record.id, after=after, limit=PAGE, **options):
            for frame in page:
                show(frame)
            after = page[-1].seq


class _Printer:
    """Print frames: as JSON, or for people with the step that emitted them."""

    def __init__(self, database: OpenDatabase, run: RunView) -> None:
        self._database: OpenDatabase = database
        self._run: RunView = run
        self._seen_streams: set[int] = set()

    def __call__(self, frame: FrameView) -> None:
        if command_context().as_json:
            print_line(frame)
        else:
            self._print(frame)
        sys.stdout.flush()

    def _print(self, frame: FrameView) -> None:
        source = _source(frame)
        if frame.stream not in self._seen_streams:
            self._seen_streams.add(frame.stream)
            if frame.supersedes is not None:
                print(
                    f"-- {source} runs again: the output of attempt {frame.attempt} replaces the"
                    " output before"
                )
        for line in _text(frame).split("\n"):
            print(f"{source}: {line}" if source else line)

    def end(self) -> None:
        """Print the final status of the run, for people."""
        if not command_context().as_json:
            run = self._database.get(self._run.id)
            print(f"-- the run is {run.status.value if run else 'deleted'}")


def _source(frame: FrameView) -> str:
    """Return the step that emitted a frame; empty for the workflow code."""
    return frame.step if frame.generation else frame.step.rstrip("/")


def _text(frame: FrameView) -> str:
    if frame.kind in (FrameKind.STDOUT, FrameKind.STDERR) and isinstance(frame.value, str):
        return frame.value.rstrip("\n")
    if isinstance(frame.value, bytes):
        # a blob under an unknown key is not bytes but a text, and is shown as one below
        return f"{len(frame.value)} bytes"
    if frame.mode == StreamMode.SUMMARY and isinstance(frame.value, dict):
        return f"summary {frame.version}: {_changes(frame)}"
    text = (
        frame.value if isinstance(frame.value, str) else msgspec.json.encode(frame.value).decode()
    )
    if frame.mode == StreamMode.SUMMARY:
        return f"summary {frame.version}: {text}"
    return f"{frame.name} {text}" if frame.name else text


def _changes(frame: FrameView) -> str:
    """Format the patch of a summary; list deleted paths apart from values that are set to null."""
    values, deleted = split(frame.value, frame.nulls or [])
    parts = []
    if values or not deleted:
        parts.append(msgspec.json.encode(values).decode())
    if deleted:
        parts.append(f"deletes {', '.join('.'.join(path) for path in deleted)}")
    return ", ".join(parts)
