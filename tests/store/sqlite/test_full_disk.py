"""A full disk refuses a write and keeps all that was there."""

import pytest

from holdfast.core.events import Event, EventKind
from holdfast.errors import StoreFull
from holdfast.store.runs.operations import Advance, Advanced, Body, StartRuns
from tests.store.sqlite.helpers import new, open_session, start, transaction


class TestAFullDisk:
    def fill(self, store):
        """Write until there is no room; return how many runs were started."""
        started = 0
        pages = store.database._db.rows("PRAGMA page_count")[0]["page_count"]
        store.database._db.rows(f"PRAGMA max_page_count = {pages + 40}")
        with pytest.raises(StoreFull):
            while True:
                store.apply(
                    [
                        StartRuns(
                            [
                                new(f"r{started}", input=b"x" * 3000),
                                new(f"s{started}", input=b"x" * 3000),
                            ]
                        )
                    ]
                )
                started += 1
        return started

    def make_room(self, store):
        store.database._db.rows("PRAGMA max_page_count = 1000000")

    def test_nothing_is_half_written_and_all_goes_on_when_there_is_room(self, store):
        started = self.fill(store)

        assert store.runs.counts() == {"pending": 2 * started}
        assert (store.runs.get(f"r{started}"), store.check()) == (None, [])
        self.make_room(store)
        assert start(store, f"r{started}").created

    def test_none_of_a_batch_is_written(self, store):
        started = self.fill(store)

        with pytest.raises(StoreFull):
            store.apply(
                [StartRuns([new(f"x{number}", input=b"x" * 3000)]) for number in range(200)]
            )

        assert store.runs.counts() == {"pending": 2 * started}

    def test_a_step_that_fills_the_disk_leaves_nothing(self, store, path, driver):
        with transaction(path, driver) as connection:
            connection.execute("CREATE TABLE note (text TEXT)")
        session = open_session(store)
        start(store, "held", session_id=session)
        self.fill(store)

        def body(connection):
            connection.execute("INSERT INTO note VALUES (?)", ("x" * 1_000_000,))
            return b""

        step = Advance(
            run_id="held",
            generation=1,
            events=[Event(EventKind.STEP_COMPLETED, "a", seq=1)],
            body=Body(body),
        )
        with pytest.raises(Exception, match="full"):
            answer = store.apply([step])[0]
            raise answer

        assert store.runs.history("held") == []
        self.make_room(store)
        assert isinstance(store.apply([step])[0], Advanced)
