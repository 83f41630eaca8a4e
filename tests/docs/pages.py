"""The pages of the documentation and the fenced blocks in them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
PAGES = [ROOT / "README.md", ROOT / "ARCHITECTURE.md", *sorted((ROOT / "docs").rglob("*.md"))]
REFERENCE = sorted((ROOT / "docs" / "reference").glob("*.md"))

_FENCED = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_SKIPPED = "# not run"


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, its text, and the line of the page on which the text begins."""

    language: str
    text: str
    line: int

    @property
    def is_run(self) -> bool:
        return self.language == "python" and not self.text.startswith(_SKIPPED)


def blocks(page: Path) -> list[Block]:
    """Return the blocks of a page, in order."""
    text = page.read_text("utf-8")
    return [
        Block(match[1], match[2], text.count("\n", 0, match.start(2)) + 1)
        for match in _FENCED.finditer(text)
    ]


def label(page: Path) -> str:
    """Return how a page is called in the names of tests."""
    return page.relative_to(ROOT).as_posix()
