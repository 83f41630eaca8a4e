"""Print values: JSON for programs, tables and trees for people.

Colours and boxes are used only if stdout is a terminal.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import msgspec

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
