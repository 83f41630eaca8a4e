"""The time of a store whose wall clock jumps."""

from contextlib import closing
from types import SimpleNamespace

import pytest

from holdfast.store import clock as clocks
from holdfast.store.sqlite import SqliteDatabase
from holdfast.store.store import Store
from tests.store.sqlite.helpers import start


class TestWallClock:
    @pytest.fixture
    def machine(self, monkeypatch):
        """The wall clock and the monotonic clock of the machine, set by the test."""
        machine = SimpleNamespace(wall=1_000_000_000, tick=0)
        fake = SimpleNamespace(
            time_ns=lambda: machine.wall * 1000, monotonic_ns=lambda: machine.tick * 1000
        )
        monkeypatch.setattr(clocks, "time", fake)
        return machine

    def test_it_follows_the_wall_clock_forward(self, machine):
        clock = clocks.WallClock()
        clock.now()
        machine.wall += 5_000_000

        assert clock.now() == 1_005_000_000

    def test_it_goes_on_when_the_wall_clock_is_set_back(self, machine):
        clock = clocks.WallClock()
        before = clock.now()
        machine.wall -= 500_000_000
        machine.tick += 7

        assert clock.now() == before + 7
        machine.tick += 3
        assert clock.now() == before + 10

    def test_it_goes_on_from_an_instant_that_was_seen(self, machine):
        clock = clocks.WallClock()
        machine.tick += 1_000_000
        clock.not_before(2_000_000_000)
        machine.tick += 5

        assert clock.now() == 2_000_000_005

    def test_a_store_that_was_written_in_the_future_goes_on_from_there(self, path, driver, machine):
        machine.wall *= 2
        with closing(Store(SqliteDatabase(path, driver=driver))) as store:
            started = start(store).now
        machine.wall //= 2

        with closing(Store(SqliteDatabase(path, driver=driver))) as store:
            assert store.now() >= started
