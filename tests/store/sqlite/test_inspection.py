"""The inspection of a file reports damage, and nothing but damage."""

from __future__ import annotations

from itertools import cycle

from holdfast.store.runs.operations import StartRuns
from holdfast.store.sqlite import inspection
from tests.store.sqlite.helpers import new


def test_commits_during_the_inspection_are_no_damage(store):
    store.apply([StartRuns([new("a")])])
    wake_times = cycle((1, None))

    def fetch(sql):
        """Read after another commit has moved the run into or out of an index."""
        store.database._db.change("UPDATE holdfast_run SET wake_at = ?", (next(wake_times),))
        return store.database.fetch(sql)

    assert inspection.integrity(fetch) == []
