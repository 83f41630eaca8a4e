"""Sealing a database: it refuses every write, whichever process makes it.

Triggers of the database itself refuse. So a database that is not sealed pays nothing for it, and
neither an engine that was open before nor an older Holdfast can write by mistake.

Invariants:
- The triggers exist exactly while the setting ``sealed`` exists: one transaction writes both.
- The tables of settings, migrations and commit markers stay writable: opening, closing and
  unsealing a database need them.
"""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec

from holdfast.core.payload import Seal
from holdfast.errors import StoreSealed

WRITABLE = ("setting", "migration", "commit_marker")
_SAID = "this holdfast database is sealed: "


def refusal(seal: Seal) -> str:
    """Return what the triggers of a sealed database say."""
    return _SAID + msgspec.json.encode(seal).decode()


def refused(text: str, database: str) -> StoreSealed | None:
    """Return our error for what a database said, if a seal is the reason."""
    _, said, rest = text.partition(_SAID)
    if not said:
        return None
    line = rest.split("\n", 1)[0]
    seal = msgspec.json.decode(line[: line.rindex("}") + 1], type=Seal)
    return store_sealed(seal, database)


def store_sealed(seal: Seal, database: str) -> StoreSealed:
    """Return the error that says where the runs of a sealed database continue."""
    facts: dict[str, object] = {"database": database}
    if seal.moved_to is not None:
        facts["moved_to"] = seal.moved_to
    if seal.copied_from is not None:
        facts["copied_from"] = seal.copied_from
    since = datetime.fromtimestamp(seal.at // 1_000_000, UTC).isoformat()
    return StoreSealed(**facts, since=since)
