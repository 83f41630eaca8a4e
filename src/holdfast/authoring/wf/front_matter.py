"""Split the front matter of a template from its body."""

from __future__ import annotations

import re

_FENCE = re.compile(r"^---[ \t]*\r?\n", re.MULTILINE)


def split_front_matter(text: str) -> tuple[str, str]:
    """Return the front matter of a text, with its fences, and the body. The front matter is empty
    if the text has none."""
    opening = _FENCE.match(text)
    closing = _FENCE.search(text, opening.end()) if opening else None
    if closing is None:
        return "", text
    return text[: closing.end()], text[closing.end() :]
