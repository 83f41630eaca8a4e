"""Write the definitions that runs keep, and delete the ones that no run keeps any more.

Invariants:
- A deployed version is never overwritten or deleted. A frozen definition is deleted when no run is
  left that keeps it, and no start has named it for a day: an engine that has stored it relies on it
  for an hour.
- Who writes a definition shares the lock of the contents, who deletes some has it alone. Otherwise
  a content could be deleted that a definition which is not committed yet has found in its place.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from holdfast.core.definitions import StoredDefinition
from holdfast.store.database import Transaction

DAY = 86_400_000_000
"""Microseconds for which a frozen definition stays after a start has named it."""


def keep_definitions(tx: Transaction, definitions: Sequence[StoredDefinition]) -> None:
    """Store the definitions that new runs keep, and note that they are in use."""
    if not definitions:
        return
    tx.rows("share_definition_contents")
    unique = {(each.namespace, each.kind, each.name, each.version): each for each in definitions}
    # Sorted: two starts that store the same definitions must not deadlock.
    rows = sorted(unique.items())
    tx.many("freeze_definition", [_row(definition, tx.now) for _, definition in rows])
    contents = {definition.digest: definition.content for _, definition in rows}
    tx.many(
        "insert_definition_content",
        [{"digest": digest, "content": content} for digest, content in sorted(contents.items())],
    )


def import_definitions(tx: Transaction, definitions: Iterable[StoredDefinition]) -> None:
    """Write definitions of another store, unless they are here."""
    tx.rows("share_definition_contents")
    for definition in definitions:
        row = {**_row(definition, tx.now), "state": definition.state}
        tx.change("insert_definition", **row, deployed_by=definition.by)
        tx.change("insert_definition_content", digest=definition.digest, content=definition.content)


def prune_definitions(tx: Transaction) -> None:
    """Delete the frozen definitions that no run keeps any more, and the contents of no
    definition."""
    before = tx.now - DAY
    # Asked first: mostly nothing is old, and the lock would make all new definitions wait.
    if not tx.rows("old_frozen_definition", before=before):
        return
    tx.rows("lock_definition_contents")
    if tx.change("delete_unused_definitions", before=before):
        tx.change("delete_unused_contents")


def _row(definition: StoredDefinition, now: int) -> dict[str, object]:
    return {
        "namespace": definition.namespace,
        "kind": definition.kind,
        "name": definition.name,
        "version": definition.version,
        "digest": definition.digest,
        "deployed_at": definition.deployed_at or now,
        "used_at": now,
    }
