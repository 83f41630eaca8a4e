"""Queries about payloads, settings, maintenance locks and retention."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from holdfast.core.envelope import digest_of
from holdfast.core.payload import Payload
from holdfast.core.retention import RetentionRule
from holdfast.store.reader import Queries
from holdfast.store.retention.operations import MaintenanceLock, PrunableRun
from holdfast.store.transitions.payloads import fetch

REFERENCES_RECORDED = "what a run refers to is noted"
"""The law that ``_lost_references`` checks, in the words of `db check`."""


class PayloadQueries(Queries):
    """Queries about payloads, settings, maintenance locks and retention."""

    def payload(self, digest: bytes) -> Payload | None:
        return fetch(self._rows, digest)

    def payloads_of(self, run_id: str) -> list[bytes]:
        return [bytes(row["digest"]) for row in self._rows("payloads_of_run", run_id=run_id)]

    def next_payloads(self, after: bytes, limit: int) -> list[tuple[bytes, int]]:
        return [
            (bytes(row["digest"]), row["stored"])
            for row in self._rows("next_payloads", after=after, limit=limit)
        ]

    def payload_totals(self) -> dict[str, int]:
        return dict(self._rows("payload_totals")[0])

    def keys_in_use(self) -> dict[str, int]:
        return {row["key"]: row["found"] for row in self._rows("keys_in_use")}

    def setting(self, name: str) -> str | None:
        rows = self._rows("setting", name=name)
        return rows[0]["value"] if rows else None

    def retentions(self) -> list[RetentionRule]:
        return self._listed(_retention, "retentions")

    def maintenance_lock(self, name: str) -> MaintenanceLock | None:
        return self._one(lambda row: MaintenanceLock(**dict(row)), "maintenance_lock", name=name)

    def used_bytes(self) -> int:
        used: int = self._rows("used_bytes")[0]["bytes"]
        return used

    def nth_newest(self, workflow: str, statuses: Sequence[str], number: int) -> int | None:
        rows = self._rows(
            "nth_newest", workflow=workflow, statuses=self._as_list(statuses), skip=number - 1
        )
        return rows[0]["finished_at"] if rows else None

    def oldest_finished(
        self, workflow: str | None, statuses: Sequence[str], since: int, before: int, limit: int
    ) -> list[PrunableRun]:
        rows = self._rows(
            "oldest_finished",
            workflow=workflow,
            statuses=self._as_list(statuses),
            since=since,
            before=before,
            limit=limit,
        )
        return [self._prunable(row["id"], row["finished_at"]) for row in rows]

    def _prunable(self, run_id: str, finished_at: int) -> PrunableRun:
        """Return the size of a finished tree; 0 if a part of it has not ended."""
        (row,) = self._rows("tree_bytes", run_id=run_id)
        if self._rows("has_late_descendant", run_id=run_id, before=1 << 62):
            return PrunableRun(run_id, finished_at, runs=0, bytes=0)
        return PrunableRun(run_id, finished_at, row["runs"], row["bytes"])

    def _lost_references(self) -> list[str]:
        """Describe the runs with a separately stored value to which no reference is recorded: its
        payload could be deleted."""
        recorded: dict[str, set[bytes]] = {}
        incomplete: set[str] = set()
        for row in self._rows("all_sealed"):
            digest = digest_of(bytes(row["head"]))
            if digest is None:
                continue
            run_id = row["run_id"]
            if run_id not in recorded:
                recorded[run_id] = set(self.payloads_of(run_id))
            if digest not in recorded[run_id]:
                incomplete.add(run_id)
        if not incomplete:
            return []
        shown = ", ".join(sorted(incomplete)[:5])
        return [f"{REFERENCES_RECORDED}: {len(incomplete)} broken, such as {shown}"]


def _retention(row: Any) -> RetentionRule:
    return RetentionRule(
        **{**dict(row), "statuses": tuple(row["statuses"].split(",")) if row["statuses"] else ()}
    )
