"""What can be asked about payloads, and about what is deleted when."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from holdfast.core.envelope import digest_of
from holdfast.core.payload import Payload
from holdfast.core.retention import RetentionRule
from holdfast.store.contract.payloads import MaintenanceLock, PrunableRun
from holdfast.store.reading.asking import Queries
from holdfast.store.transitions.payloads import fetch


class PayloadQueries(Queries):
    """Values that are kept apart."""

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
        found = self._rows("setting", name=name)
        return found[0]["value"] if found else None

    def retentions(self) -> list[RetentionRule]:
        return self._listed(_retention, "retentions")

    def upkeep(self, name: str) -> MaintenanceLock | None:
        return self._one(lambda row: MaintenanceLock(**dict(row)), "upkeep", name=name)

    def used_bytes(self) -> int:
        found: int = self._rows("used_bytes")[0]["bytes"]
        return found

    def nth_newest(self, workflow: str, statuses: Sequence[str], number: int) -> int | None:
        found = self._rows(
            "nth_newest", workflow=workflow, statuses=self._as_list(statuses), skip=number - 1
        )
        return found[0]["finished_at"] if found else None

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
        return [self._doomed(row["id"], row["finished_at"]) for row in rows]

    def _doomed(self, run_id: str, finished_at: int) -> PrunableRun:
        (row,) = self._rows("tree_bytes", run_id=run_id)
        late = self._rows("has_late_descendant", run_id=run_id, before=1 << 62)
        return PrunableRun(
            run_id, finished_at, 0 if late else row["runs"], 0 if late else row["bytes"]
        )

    def _lost_references(self) -> list[str]:
        """Say of each value that is kept apart whether its run is noted for it: else the payload
        could be deleted."""
        noted: dict[str, set[bytes]] = {}
        lost: set[str] = set()
        for row in self._rows("all_sealed"):
            digest = digest_of(bytes(row["head"]))
            if digest is None:
                continue
            run_id = row["run_id"]
            if run_id not in noted:
                noted[run_id] = set(self.payloads_of(run_id))
            if digest not in noted[run_id]:
                lost.add(run_id)
        shown = ", ".join(sorted(lost)[:5])
        return (
            [f"what a run refers to is noted: {len(lost)} broken, such as {shown}"] if lost else []
        )


def _retention(row: Any) -> RetentionRule:
    return RetentionRule(
        **{**dict(row), "statuses": tuple(row["statuses"].split(",")) if row["statuses"] else ()}
    )
