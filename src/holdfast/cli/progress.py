"""Progress indicators for long commands; shown only on a terminal and without --json."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from holdfast.cli.context import command_context
from holdfast.cli.output import is_terminal


@contextmanager
def counting(text: str) -> Iterator[Callable[[int], None]]:
    """Show a growing counter; yield a function that adds to it. ``{}`` in *text* is replaced by the
    count."""
    if command_context().as_json or not is_terminal():
        yield lambda count: None
        return
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    template = text.replace("{}", "{task.completed:.0f}")
    with Progress(
        SpinnerColumn(), TextColumn(template), TimeElapsedColumn(), transient=True
    ) as progress:
        task = progress.add_task(text, total=None)
        yield lambda count: progress.advance(task, count)


@contextmanager
def measuring(text: str) -> Iterator[Callable[[int, int], None]]:
    """Show a progress bar; yield a function that takes the number done and the total."""
    if command_context().as_json or not is_terminal():
        yield lambda done, total: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    with Progress(
        TextColumn(text), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), transient=True
    ) as progress:
        task = progress.add_task(text)
        yield lambda done, total: progress.update(task, completed=done, total=total)
