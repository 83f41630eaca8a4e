"""Write the long description of the distribution: the README, with links that work outside the
repository."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

try:
    from hatchling.metadata.plugin.interface import MetadataHookInterface
except ImportError:  # only a build has it
    MetadataHookInterface = object

_LINK = re.compile(r"(!?)\]\((?!https?:|#|mailto:)([^)\s]+)\)")
_IMAGE = re.compile(r"!\[([^\]]*)\]\((?!https?:)([^)\s]+)\)")


def absolute_links(text: str, repository: str) -> str:
    """Return Markdown whose relative links lead to files of the repository."""
    text = _IMAGE.sub(rf"![\1]({repository}/raw/main/\2)", text)
    return _LINK.sub(rf"\1]({repository}/blob/main/\2)", text)


class LongDescription(MetadataHookInterface):
    """Sets ``readme`` of the project."""

    PLUGIN_NAME = "custom"

    def update(self, metadata: dict[str, Any]) -> None:
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        repository = metadata["urls"]["Source"]
        metadata["readme"] = {
            "content-type": "text/markdown",
            "text": absolute_links(text, repository),
        }
