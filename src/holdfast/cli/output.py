"""How things are printed: JSON for programs, tables and trees for people, plain where stdout is no
terminal."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from holdfast.core.runs import ErrorInfo, RunRecord
from holdfast.core.why.model import brief, moment

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


class Tree:
    """A line and the lines below it."""

    def __init__(self, text: str, style: str = "", below: Sequence[Tree] = ()) -> None:
        self.text, self.style, self.below = text, style, list(below)


def is_terminal() -> bool:
    """Say whether a person looks at stdout."""
    return sys.stdout.isatty()


def print_json(value: Any) -> None:
    """Print *value* as JSON."""
    print(msgspec.json.format(msgspec.json.encode(value), indent=2).decode())


def print_line(value: Any) -> None:
    """Print *value* as JSON in one line."""
    print(msgspec.json.format(msgspec.json.encode(value), indent=0).decode())


def print_table(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print rows under their headers."""
    if is_terminal():
        _print_rich_table(headers, rows)
        return
    widths = [max(len(row[place]) for row in (headers, *rows)) for place in range(len(headers))]
    for row in (headers, *rows):
        print(
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        )


def _print_rich_table(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, header_style="dim", pad_edge=False)
    for place, header in enumerate(headers):
        table.add_column(header, no_wrap=place == 0, overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell, style=COLOURS.get(cell, "")) for cell in row))
    Console().print(table)


def print_fields(fields: Sequence[tuple[str, str]]) -> None:
    """Print names and values, one per line; those without a value are left out."""
    width = max((len(name) for name, value in fields if value), default=0)
    for name, value in fields:
        if value:
            print(f"{name.ljust(width)}  {value}")


def print_tree(title: str, below: Sequence[Tree]) -> None:
    """Print a tree of lines."""
    if is_terminal():
        _print_rich_tree(title, below)
        return
    print(title)
    for line in _drawn(below, ""):
        print(line)


def _drawn(trees: Sequence[Tree], indent: str) -> list[str]:
    lines = []
    for place, tree in enumerate(trees):
        last = place == len(trees) - 1
        lines.append(f"{indent}{'└─ ' if last else '├─ '}{tree.text}")
        lines += _drawn(tree.below, indent + ("   " if last else "│  "))
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


# Values


def iso(instant: int | None) -> str | None:
    """Write an instant as ISO 8601, UTC."""
    if instant is None:
        return None
    return (_EPOCH + timedelta(microseconds=instant)).isoformat().replace("+00:00", "Z")


def seconds(instant: int | None) -> str:
    """Write an instant for people, to the second."""
    return "" if instant is None else moment(instant)


def payload(data: bytes | None) -> Any:
    """Return stored data as plain data; what is no JSON comes as text."""
    if data is None:
        return None
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return data.decode("utf-8", "backslashreplace")


def short(data: bytes | str | None, longest: int = 60) -> str:
    """Write data in one short line."""
    text = data.decode("utf-8", "replace") if isinstance(data, bytes) else data or ""
    line = " ".join(text.split())
    return line if len(line) <= longest else line[: longest - 3] + "..."


def error_line(data: bytes | None, longest: int = 100) -> str:
    """Write a stored error in one short line."""
    found = payload(data)
    if not isinstance(found, dict):
        return ""
    try:
        info = msgspec.convert(found, ErrorInfo)
    except msgspec.ValidationError:
        return short(str(found), longest)
    return short(f"{info.type}: {info.message}" if info.message else info.type, longest)


def took(run: RunRecord, now: int) -> str:
    """Write how long a run has taken so far."""
    if run.started_at is None:
        return ""
    return brief((run.finished_at or now) - run.started_at)
