"""The picture of the statuses is drawn from the table that decides them, and the table of layers
names what is there."""

from __future__ import annotations

import re

from holdfast.core.status import FINAL, NEXT, Status
from tests.docs.pages import ROOT, blocks

ARCHITECTURE = ROOT / "ARCHITECTURE.md"
TEXT = ARCHITECTURE.read_text("utf-8")
RINGS = "core|store|payloads|engine|service|authoring|connect|agents|fencing|testing|cli|errors"
PATH = rf"`((?:{RINGS})/[\w/.*{{}},]*)`"


def test_the_picture_of_the_statuses_is_that_of_the_table():
    [shown] = [block.text for block in blocks(ARCHITECTURE) if block.language == "mermaid"]

    assert shown == drawn()


def test_every_file_that_is_named_exists():
    named = [path for text in re.findall(PATH, TEXT) for path in expand_braces(text)]

    assert named
    assert [path for path in named if not any((ROOT / "src/holdfast").glob(path))] == []


def test_every_name_of_the_code_that_is_used_exists():
    quoted = re.findall(r"`([\w.]+)`", TEXT)
    names = {word for text in quoted for word in text.split(".") if is_name_of_code(text, word)}
    source = "\n".join(path.read_text("utf-8") for path in (ROOT / "src").rglob("*.py"))

    assert names
    assert [name for name in sorted(names) if not re.search(rf"\b{name}\b", source)] == []


def test_the_page_is_short():
    assert len(TEXT.encode()) <= 14 * 1024


def test_every_status_is_explained():
    assert [status.value for status in Status if f"| `{status.value}` |" not in TEXT] == []


def expand_braces(path: str) -> list[str]:
    """Return the paths that ``a/{b,c}.py`` stands for; a path without braces stands for itself."""
    head, brace, rest = path.partition("{")
    if not brace:
        return [path]
    names, _, tail = rest.partition("}")
    return [f"{head}{name}{tail}" for name in names.split(",")]


def is_name_of_code(text: str, word: str) -> bool:
    """Return whether *word* of the quoted *text* is a class, a constant or a function."""
    return not text.endswith((".py", ".md")) and (not word.islower() or "_" in word)


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
