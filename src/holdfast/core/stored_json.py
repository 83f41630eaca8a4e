"""Decode JSON that the engine itself has stored, and report damaged data as RowDamaged."""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.core import typed_json
from holdfast.errors import RowDamaged


def decode_stored(data: bytes, label: str, kind: Any = Any) -> Any:
    """Return stored JSON as *kind*. *label* names its origin in the error. Raises RowDamaged."""
    try:
        return typed_json.decode(data, kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise RowDamaged(value=label, why=str(error)) from error


def object_of(data: bytes | None, label: str) -> dict[str, Any]:
    """Return a stored JSON object, empty if nothing is stored. Raises RowDamaged."""
    fields: dict[str, Any] = decode_stored(data or b"{}", label, dict[str, Any])
    return fields
