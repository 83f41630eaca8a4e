"""Large inputs are written once, and read only where they are needed."""

from holdfast.core.events import Event, EventKind
from holdfast.core.status import Status
from holdfast.store.runs.operations import Advance, Advanced
from tests.store.sqlite.helpers import open_session, start, transaction


class TestLargeInputs:
    def test_a_run_that_changes_does_not_write_its_input_again(self, store, path):
        start(store, input=b"x" * 500_000, session_id=open_session(store))
        log = path.with_name(f"{path.name}-wal")
        before = log.stat().st_size

        end = Advance(
            run_id="r1",
            generation=1,
            status=Status.COMPLETED,
            result=b"1",
            events=[Event(EventKind.RUN_COMPLETED, seq=1)],
        )
        assert isinstance(store.apply([end])[0], Advanced)

        assert log.stat().st_size - before < 100_000
        assert (store.runs.get("r1").status, len(store.runs.get("r1").input)) == (
            Status.COMPLETED,
            500_000,
        )

    def test_one_that_an_older_version_wrote_is_read_where_it_is(self, store, path, driver):
        start(store)
        with transaction(path, driver) as connection:
            connection.execute("UPDATE holdfast_run SET input = ?", (b"y" * 5_000,))

        assert store.runs.get("r1").input == b"y" * 5_000
        assert start(store, input=b"y" * 5_000).created is False

    def test_one_that_is_gone_is_told(self, store, path, driver):
        start(store, input=b"x" * 5_000)
        with transaction(path, driver) as connection:
            connection.execute("DELETE FROM holdfast_large_input")

        assert store.check() == ["a run has its input: 1 broken, such as r1"]

    def test_none_is_left_when_its_run_is_gone_or_has_another(self, store, path, driver):
        for number in range(12):
            start(store, f"r{number}", input=b"x" * 5_000)
        with transaction(path, driver) as connection:
            connection.execute("DELETE FROM holdfast_run WHERE id < 'r5'")
            connection.execute("UPDATE holdfast_run SET input = '[1]' WHERE id > 'r8'")
            left = connection.execute(
                "SELECT run_id FROM holdfast_large_input ORDER BY run_id"
            ).fetchall()

        assert [run_id for (run_id,) in left] == ["r5", "r6", "r7", "r8"]
