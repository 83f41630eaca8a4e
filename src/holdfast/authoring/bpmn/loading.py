"""Load a model from a path, bytes, a text or an open file, with its problems."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from holdfast.authoring.bpmn.check import check_model
from holdfast.authoring.bpmn.handlers import registered
from holdfast.authoring.bpmn.json_form import is_json_form, read_json_form
from holdfast.authoring.bpmn.model import Model
from holdfast.authoring.bpmn.reading import read_model
from holdfast.authoring.bpmn.xml import BPMN
from holdfast.authoring.xml_reader import MAX_BYTES
from holdfast.errors import ModelUnreadable

ENDINGS = (".bpmn", ".bpmn20.xml", ".bpmn.xml")


def load(source: Any) -> Model:
    """Return the model of a file (its path, its content or an open file), with all its problems.

    Raises ModelUnreadable if the source is not BPMN 2.0 XML, is too big or too deep, or has
    entities. Everything else is a problem of the model."""
    return load_model(source, lambda name: registered(name) is not None)


def load_model(source: Any, knows: Callable[[str], bool]) -> Model:
    """Return a model and its problems, where *knows* tells which handlers there are. Raises
    ModelUnreadable."""
    model = read_json_form(source) if is_json_form(source) else read_model(read_source(source))
    model.problems = check_model(model, knows)
    return model


def read_source(source: Any) -> bytes:
    """Return the bytes of a source. Raises ModelUnreadable."""
    if isinstance(source, bytes | bytearray | memoryview):
        return bytes(source)
    if hasattr(source, "read"):
        content = source.read(MAX_BYTES + 1)
        return content.encode() if isinstance(content, str) else bytes(content)
    if isinstance(source, str) and source.lstrip("\ufeff \t\r\n").startswith("<"):
        return source.encode()
    if not isinstance(source, str | os.PathLike):
        raise ModelUnreadable(why=f"a {type(source).__name__} is not a file")
    return _read_file(Path(source))


def _read_file(path: Path) -> bytes:
    try:
        size = path.stat().st_size
        if size >= MAX_BYTES:
            raise ModelUnreadable(why="the file is too big", path=str(path), bytes=size)
        return path.read_bytes()
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise ModelUnreadable(why=f"the file cannot be read: {why}", path=str(path)) from None


def is_model(source: Any) -> bool:
    """Return whether a source looks like a BPMN model: by its ending, its type or its content."""
    if is_json_form(source):
        return True
    if isinstance(source, str | os.PathLike) and str(source).endswith(ENDINGS):
        return True
    if isinstance(source, bytes | bytearray):
        return _is_bpmn(bytes(source))
    if isinstance(source, str) and source.lstrip("\ufeff \t\r\n").startswith("<"):
        return _is_bpmn(source.encode())
    if isinstance(source, str | os.PathLike) and str(source).endswith(".xml"):
        return _file_is_bpmn(Path(source))
    name = getattr(source, "name", None)
    return hasattr(source, "read") and isinstance(name, str) and name.endswith(ENDINGS)


def _is_bpmn(content: bytes) -> bool:
    head = content[:100_000]
    return BPMN.encode() in head or BPMN.encode("utf-16-le") in head or not _is_other(head)


def _is_other(head: bytes) -> bool:
    """Return whether content is certainly no model of this kind, but perhaps of another one."""
    return b"/DMN/" in head or not head.lstrip().startswith((b"<", b"\xef\xbb\xbf<"))


def _file_is_bpmn(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return _is_bpmn(file.read(100_000))
    except OSError:
        return False
