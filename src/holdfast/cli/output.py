"""Print values: JSON for programs, tables and trees for people.

Colours and boxes are used only if stdout is a terminal.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from holdfast.core.runs import ErrorInfo, RunRecord
from holdfast.core.why.model import brief, moment
from holdfast.views.text import Tree
from holdfast.views.values import as_json

COLOURS = {
    "completed": "green",
    "failed": "red",
    "stuck": "bold red",
    "cancelled": "yellow",
    "cancelling": "yellow",
    "expired": "yellow",
    "running": "cyan",
    "waiting": "blue",
    "pending": "magenta",
    "blocked": "magenta",
    "alive": "green",
    "silent": "yellow",
    "gone": "red",
}

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def is_terminal() -> bool:
    """Return whether stdout is a terminal."""
    return sys.stdout.isatty()


def print_json(value: Any) -> None:
    """Print *value* as indented JSON."""
    print(msgspec.json.format(as_json(value), indent=2).decode())


def print_line(value: Any) -> None:
    """Print *value* as JSON on one line."""
    print(msgspec.json.format(as_json(value), indent=0).decode())


def print_table(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table; every row has one cell per header."""
    if is_terminal():
        _print_rich_table(headers, rows)
        return
    widths = [max(len(row[column]) for row in (headers, *rows)) for column in range(len(headers))]
    for row in (headers, *rows):
        print(
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        )


def _print_rich_table(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, header_style="dim", pad_edge=False)
    for column, header in enumerate(headers):
        table.add_column(header, no_wrap=column == 0, overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell, style=COLOURS.get(cell, "")) for cell in row))
    Console().print(table)


def print_fields(fields: Sequence[tuple[str, str]]) -> None:
    """Print names and values, one pair per line; pairs without a value are omitted."""
    width = max((len(name) for name, value in fields if value), default=0)
    for name, value in fields:
        if value:
            print(f"{name.ljust(width)}  {value}")


def print_tree(title: str, below: Sequence[Tree]) -> None:
    """Print *title* with the trees *below* it."""
    if is_terminal():
        _print_rich_tree(title, below)
        return
    print(title)
    for line in _draw(below, ""):
        print(line)


def _draw(trees: Sequence[Tree], indent: str) -> list[str]:
    lines = []
    for index, tree in enumerate(trees):
        is_last = index == len(trees) - 1
        branch, continuation = ("└─ ", "   ") if is_last else ("├─ ", "│  ")
        lines.append(f"{indent}{branch}{tree.text}")
        lines += _draw(tree.below, indent + continuation)
    return lines


def _print_rich_tree(title: str, below: Sequence[Tree]) -> None:
    from rich.console import Console
    from rich.text import Text
    from rich.tree import Tree as RichTree

    def add(parent: RichTree, trees: Sequence[Tree]) -> None:
        for tree in trees:
            add(parent.add(Text(tree.text, style=tree.style)), tree.below)

    root = RichTree(Text(title, style="bold"), guide_style="dim")
    add(root, below)
    Console().print(root)


# Formatting of values


def iso(instant: int | None) -> str | None:
    """Format an instant (microseconds since 1970) as ISO 8601 in UTC."""
    if instant is None:
        return None
    return (_EPOCH + timedelta(microseconds=instant)).isoformat().replace("+00:00", "Z")


def seconds(instant: int | None) -> str:
    """Format an instant for people, to the second; empty for None."""
    return "" if instant is None else moment(instant)


def payload(data: bytes | None) -> Any:
    """Decode stored JSON; return data that is not JSON as text."""
    if data is None:
        return None
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return data.decode("utf-8", "backslashreplace")


def short(data: bytes | str | None, longest: int = 60) -> str:
    """Return data as one line of at most *longest* characters."""
    text = data.decode("utf-8", "replace") if isinstance(data, bytes) else data or ""
    line = " ".join(text.split())
    return line if len(line) <= longest else line[: longest - 3] + "..."


def error_line(data: bytes | None, longest: int = 100) -> str:
    """Return a stored error as one line of at most *longest* characters."""
    error = payload(data)
    if not isinstance(error, dict):
        return ""
    try:
        info = msgspec.convert(error, ErrorInfo)
    except msgspec.ValidationError:
        return short(str(error), longest)
    return short(f"{info.type}: {info.message}" if info.message else info.type, longest)


def took(run: RunRecord, now: int) -> str:
    """Return for how long a run has been working, or worked; empty before its start."""
    if run.started_at is None:
        return ""
    return brief((run.finished_at or now) - run.started_at)
