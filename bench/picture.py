"""Pictures of the figures, as plain SVG that reads well on light and on dark pages."""

from __future__ import annotations

import pathlib
from typing import Any


def draw(results: dict[str, Any], folder: pathlib.Path) -> None:
    """Draw what there are figures for."""
