"""Write the operations of the remote client, ``remote/operations.json``, from the operation table.

``python tools/generate_remote.py`` writes the file; with ``--check`` it only fails if it is stale.
"""

from __future__ import annotations

import json
import sys
from datetime import datetime, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Any

import msgspec

from holdfast.server.answers import answer_type
from holdfast.server.operation import HttpOperation, parameters_of, scalar_field
from holdfast.server.operation_table import OPERATIONS
from holdfast.server.wire import item_type

TARGET = Path(__file__).resolve().parent.parent / "src/holdfast/remote/operations.json"


def main() -> int:
    """Write the file, or check it. Return the exit code."""
    text = generated()
    if "--check" not in sys.argv[1:]:
        TARGET.write_text(text, "utf-8")
        return 0
    if TARGET.exists() and TARGET.read_text("utf-8") == text:
        return 0
    print("remote/operations.json is stale: make generate", file=sys.stderr)
    return 1


def generated() -> str:
    """Return the file: one line per operation."""
    rows = [
        f'"{operation.name}": {json.dumps(_row(operation))}'
        for operation in sorted(OPERATIONS, key=lambda operation: operation.name)
        if not operation.name.startswith("server.") and operation.media == "application/json"
    ]
    return "{\n" + ",\n".join(rows) + "\n}\n"


def _row(operation: HttpOperation) -> list[Any]:
    kind, answer = _answer(operation)
    own = [] if operation.function is None else parameters_of(operation.function)
    names = tuple(item.name for item in own if not item.is_keywords)
    extra = tuple(item.name for item in operation.parameters if item.name not in names)
    rest = next((item.name for item in own if item.is_rest), "")
    return [operation.method, operation.path, [*names, *extra], kind, answer, rest]


def _answer(operation: HttpOperation) -> tuple[str, str]:
    """Return how an answer is read: its kind, and the type or the field in it."""
    item = item_type(operation.returns)
    if item is not None:
        return "page", _path(item)
    whole = answer_type(operation)
    if whole is None:
        return "none", ""
    if getattr(whole, "__name__", "").endswith("Answer"):
        return f"field {scalar_field(operation)}", _path(operation.returns)
    return "struct", _path(whole)


PLAIN = (datetime, timedelta, Decimal, Enum)
"""Types of which JSON has texts, so that a client has to know them."""


def _path(kind: Any) -> str:
    """Return the path of a view or of another type that JSON does not have; empty for plain
    data."""
    if isinstance(kind, type) and issubclass(kind, PLAIN):
        return f"{kind.__module__}:{kind.__name__}"
    is_view = isinstance(kind, type) and issubclass(kind, msgspec.Struct)
    if not is_view or "[" in str(kind) or ".server." in kind.__module__:
        return ""
    return f"{kind.__module__}:{kind.__name__}"


if __name__ == "__main__":
    sys.exit(main())
