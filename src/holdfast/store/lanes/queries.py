"""Queries about lanes."""

from __future__ import annotations

from holdfast.core.sessions import Lane
from holdfast.store.reader import Reader
from holdfast.store.rows import lane_from, lanes_from
from holdfast.store.soundness import unsound_json


class LaneQueries:
    """Queries about lanes."""

    def __init__(self, reader: Reader) -> None:
        self._reader: Reader = reader

    def all(self) -> list[Lane]:
        """Return all lanes that have settings."""
        rows, damaged = self._reader.sound_rows("lanes")
        sound = []
        # The weights are JSON, which the check of columns does not read.
        for row in rows:
            damage = unsound_json(self._reader.query("lanes"), row, {})
            if damage is None:
                sound.append(row)
            else:
                self._reader.report(damage)
                damaged.append(damage)
        return lanes_from(sound, damaged)

    def running(self) -> dict[str, int]:
        """Return the number of runs of each lane that a session holds and that do not wait. A lane
        without such runs is left out."""
        rows, _ = self._reader.sound_rows("held_by_lane")
        return {row["lane"]: row["held"] for row in rows}

    def running_by_share(self) -> dict[str, dict[str, int]]:
        """Return the number of runs of each lane and share that a session holds and that do not
        wait. Runs without a share are left out."""
        shares: dict[str, dict[str, int]] = {}
        for row in self._reader.sound_rows("held_by_share")[0]:
            if row["share"] is not None:
                shares.setdefault(row["lane"], {})[row["share"]] = row["held"]
        return shares

    def ready(self) -> dict[str, int]:
        """Return the number of claimable runs of each lane. A lane without such runs is left
        out."""
        rows, _ = self._reader.sound_rows("ready_by_lane")
        return {row["lane"]: row["ready"] for row in rows}

    def share_free_at(self, lane: str, share: str) -> int:
        """Return when the rate of a lane allows the next run of a share; 0 or an instant in the
        past if now."""
        return next(
            (row["free_at"] for row in self._reader.rows("free_at", lane=lane, share=share)), 0
        )

    def next_admission(self) -> int | None:
        """Return when a used-up rate, of a lane or of one of its shares, allows the next run; None
        if none is used up."""
        now = self._reader.now()
        lanes = self._reader.listed(lane_from, "lanes_with_work")
        times = [lane.free_at for lane in lanes if lane.rate_limit is not None]
        for lane in lanes:
            if lane.share_rate_limit is not None:
                # A damaged share must not keep the leader from its work: it reads this first.
                rows, _ = self._reader.sound_rows("spent_shares", lane=lane.name, now=now)
                times += [row["free_at"] for row in rows]
        return min((time for time in times if time > now), default=None)
