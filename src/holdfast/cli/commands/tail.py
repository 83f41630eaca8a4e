"""``holdfast tail``: what a run puts out while it works."""

from __future__ import annotations

import sys
from typing import Any

import click
import msgspec

from holdfast.cli.context import OpenDatabase, command_context, printing
from holdfast.cli.output import iso, print_line
from holdfast.core.runs import RunRecord
from holdfast.core.streams.model import Frame, FrameKind, StreamMode
from holdfast.core.streams.rules import split
from holdfast.service.streams import PAGE

EPILOG = """\b
Examples:
  holdfast tail last
  holdfast tail last -f
  holdfast tail 01m7ge8gkb --after 120 --json"""


@click.command(short_help="Show what a run puts out while it works.", epilog=EPILOG)
@click.argument("run", metavar="RUN")
@click.option("-f", "--follow", is_flag=True, help="Go on until the run has ended.")
@click.option(
    "--after",
    type=click.IntRange(min=0),
    default=0,
    metavar="SEQ",
    help="Begin after this frame. E.g. --after 120",
)
@click.option("--step", metavar="STEP", help="Only what this step puts out. E.g. --step charge")
@click.option("--no-best-effort", is_flag=True, help="Leave out what is kept only for a while.")
@printing
def tail(run: str, follow: bool, after: int, step: str | None, no_best_effort: bool) -> None:
    """Show what the steps and the code of a run have put out, oldest first. With --json each frame
    is one line of JSON."""
    with command_context().opened() as office:
        found = office.find(run)
        show = _Printer(office, found)
        options: dict[str, Any] = {"step": step, "best_effort": not no_best_effort}
        if follow:
            for frame in office.engine.tail(found.id, after=after, **options):
                show(frame)
            show.end()
            return
        while page := office.engine.read(found.id, after=after, limit=PAGE, **options):
            for frame in page:
                show(frame)
            after = page[-1].seq


class _Printer:
    """Prints frames; for people, each with whoever has put it out."""

    def __init__(self, office: OpenDatabase, run: RunRecord) -> None:
        self._office, self._run = office, run
        self._seen: set[int] = set()

    def __call__(self, frame: Frame) -> None:
        if command_context().as_json:
            print_line({**msgspec.to_builtins(frame), "at": iso(frame.at)})
        else:
            self._print(frame)
        sys.stdout.flush()

    def _print(self, frame: Frame) -> None:
        if frame.stream not in self._seen:
            self._seen.add(frame.stream)
            if frame.supersedes is not None:
                print(
                    f"-- {_who(frame)} is done again: attempt {frame.attempt} replaces what was put"
                    " out before"
                )
        for line in _text(frame).split("\n"):
            print(f"{_who(frame)}: {line}" if _who(frame) else line)

    def end(self) -> None:
        """Say how the run has ended."""
        if not command_context().as_json:
            run = self._office.store.run(self._run.id)
            print(f"-- the run is {run.status.value if run else 'gone'}")


def _who(frame: Frame) -> str:
    return frame.step if frame.generation else frame.step.rstrip("/")


def _text(frame: Frame) -> str:
    if frame.kind in (FrameKind.STDOUT, FrameKind.STDERR) and isinstance(frame.value, str):
        return frame.value.rstrip("\n")
    if isinstance(frame.value, bytes):
        return (  # without its key a blob is shown in words, like all else
            f"{len(frame.value)} bytes"
        )
    if frame.mode == StreamMode.SUMMARY and isinstance(frame.value, dict):
        return f"summary {frame.version}: {_changes(frame)}"
    told = (
        frame.value if isinstance(frame.value, str) else msgspec.json.encode(frame.value).decode()
    )
    if frame.mode == StreamMode.SUMMARY:
        return f"summary {frame.version}: {told}"
    return f"{frame.name} {told}" if frame.name else told


def _changes(frame: Frame) -> str:
    """Write a patch so that a null that is set can be told from one that deletes."""
    sets, deleted = split(frame.value, frame.nulls or [])
    told = msgspec.json.encode(sets).decode() if sets or not deleted else ""
    gone = f"deletes {', '.join('.'.join(path) for path in deleted)}" if deleted else ""
    return ", ".join(part for part in (told, gone) if part)
