"""Seal a database: it refuses every write of every process.

The refusal comes from triggers in the database itself. An unsealed database therefore pays nothing
for it, and neither an engine that was opened before nor an older version of Holdfast can write by
mistake.

Invariants:
- The triggers exist exactly while the setting ``sealed`` exists: one transaction writes both.
- The tables of settings, migrations and commit markers stay writable: opening, closing and
  unsealing a database need them.
"""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec

from holdfast.core import typed_json
from holdfast.core.payload import Seal
from holdfast.errors import StoreSealed

WRITABLE = ("setting", "migration", "commit_marker")
_MESSAGE = "this holdfast database is sealed: "


def refusal(seal: Seal) -> str:
    """Return the message of the triggers of a sealed database."""
    return _MESSAGE + msgspec.json.encode(seal).decode()


def refused(text: str, database: str) -> StoreSealed | None:
    """Return StoreSealed if *text*, the message of a driver's error, comes from a seal;
    else None."""
    _, message, rest = text.partition(_MESSAGE)
    if not message:
        return None
    line = rest.split("\n", 1)[0]
    seal = typed_json.decode(line[: line.rindex("}") + 1], Seal)
    return store_sealed(seal, database)


def store_sealed(seal: Seal, database: str) -> StoreSealed:
    """Return the error that tells where the runs of a sealed database continue."""
    facts: dict[str, object] = {"database": database}
    if seal.moved_to is not None:
        facts["moved_to"] = seal.moved_to
    if seal.copied_from is not None:
        facts["copied_from"] = seal.copied_from
    since = datetime.fromtimestamp(seal.at // 1_000_000, UTC).isoformat()
    return StoreSealed(**facts, since=since)
