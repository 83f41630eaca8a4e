"""The sources of a deployment as a server gets them: texts, because it has not the files."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec

from holdfast.errors import ModelUnreadable

_MODELS = (".bpmn", ".dmn", ".xml")
_TEXTS = ".wf"


def sent_source(source: Any) -> Any:
    """Return a source as text; of a ``.wf`` file, a bundle with all texts that it can call. Plain
    data is sent as it is. Raises ModelUnreadable, ModelRefused."""
    if isinstance(source, bytes | bytearray):
        return _text(bytes(source), "the source")
    if hasattr(source, "read"):
        content = source.read()
        return content if isinstance(content, str) else _text(content, "the source")
    if isinstance(source, os.PathLike) or _is_path(source):
        return _file(os.fspath(source))
    return source


def _is_path(source: Any) -> bool:
    if not isinstance(source, str) or source.lstrip("\ufeff \t\r\n").startswith("<"):
        return False
    return source.endswith((*_MODELS, _TEXTS)) and "\n" not in source


def _file(path: str) -> Any:
    if path.endswith(_TEXTS):
        # Imported here: a client without texts loads nothing of their front end.
        from holdfast.authoring.wf.deployment import bundle_of_file

        return msgspec.to_builtins(bundle_of_file(path))
    try:
        content = Path(path).read_bytes()
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise ModelUnreadable(why=f"the file cannot be read: {why}", path=path) from None
    return _text(content, path)


def _text(content: bytes, name: str) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        why = f"{name} is not UTF-8: convert it, then deploy it"
        raise ModelUnreadable(why=why) from None
