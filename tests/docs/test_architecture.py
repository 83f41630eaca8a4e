"""The picture of the statuses is drawn from the table that decides them, and the table of layers
names what is there."""

from __future__ import annotations

import re

from holdfast.core.status import FINAL, NEXT, Status
from tests.docs.pages import ROOT, blocks

ARCHITECTURE = ROOT / "ARCHITECTURE.md"


def test_the_picture_of_the_statuses_is_that_of_the_table():
    [shown] = [block.text for block in blocks(ARCHITECTURE) if block.language == "mermaid"]

    assert shown == drawn()


def test_every_file_that_is_named_exists():
    named = re.findall(
        r"`((?:core|store|engine|authoring|connect|testing|cli)/[\w/.*{},]+)`",
        ARCHITECTURE.read_text("utf-8"),
    )

    assert named
    assert [path for path in named if not any((ROOT / "src/holdfast").glob(path))] == []


def test_every_status_is_explained():
    text = ARCHITECTURE.read_text("utf-8")

    assert [status.value for status in Status if f"| `{status.value}` |" not in text] == []


def drawn() -> str:
    """Return the picture: one arrow per pair of statuses, with all moves that lead along it."""
    lines = ["stateDiagram-v2", "    [*] --> pending"]
    for status, moves in NEXT.items():
        for target in Status:
            along = [move.value for move, after in moves.items() if after is target is not status]
            if along:
                lines.append(f"    {status.value} --> {target.value}: {', '.join(along)}")
    lines += [f"    {status.value} --> [*]" for status in Status if status in FINAL]
    return "\n".join(lines) + "\n"
