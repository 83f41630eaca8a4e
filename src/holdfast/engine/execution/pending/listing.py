"""The waits that the row of a parked run lists.

The row is written whenever the run parks, so its size must not grow with the number of open gates,
timers, messages and children: each of these has a row or an event of its own. Signals and
conditions are always listed, because a delivery looks them up there.
"""

from __future__ import annotations

from typing import Any

from holdfast.core.waits import WaitKind
from holdfast.engine.execution.pending.base import PendingCommands

MOST = 100
"""The most waits of one kind that a row lists, if it need not list all."""


def listed_waits(pending: PendingCommands) -> list[dict[str, Any]]:
    """Return the waits of a run in the order in which the program asked for them; of kinds with
    very many, the first ones, and how many more there are."""
    counts = pending.counts()
    crowded = [kind for kind, count in counts.items() if count > MOST and not kind.is_listed_whole]
    if not crowded:
        return [wait for each in pending.values() if (wait := each.as_wait()) is not None]
    waits: list[dict[str, Any]] = []
    for kind, count in counts.items():
        most = MOST if kind in crowded else count
        listed = [wait for each in pending.first_of(kind, most) if (wait := each.as_wait())]
        waits += listed
        if kind in crowded:
            of = listed[0]["kind"]
            waits.append({"kind": WaitKind.OTHERS, "of": of, "count": count - most})
    return waits
