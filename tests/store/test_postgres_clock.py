"""The estimate of the database's clock in a process that reads that clock periodically."""

from contextlib import closing

from holdfast.store.postgres import PostgresDatabase
from holdfast.store.postgres.clock import EVERY, SET_BACK, DatabaseClock
from holdfast.store.store import Store

SECOND = 1_000_000


class Machine:
    """A monotonic clock and a database's clock, both moved by hand; ``delays`` are the durations of
    the next reads."""

    def __init__(self, there=1000 * SECOND):
        self.tick, self.there, self.delays = 5 * SECOND, there, []

    def nanoseconds(self):
        return self.tick * 1000

    def pass_(self, by):
        self.tick += by
        self.there += by

    def rows(self, sql):
        there, back = self.delays.pop(0) if self.delays else (0, 0)
        self.pass_(there)
        now = self.there
        self.pass_(back)
        return [{"now": now}]


def measured(machine, times=1):
    clock = DatabaseClock(machine.nanoseconds)
    clock.measure(machine, times)
    return clock


def test_it_is_the_time_of_the_database_and_goes_on_by_itself():
    machine = Machine()
    clock = measured(machine)

    assert clock.now() == machine.there
    machine.pass_(7)
    assert clock.now() == machine.there


def test_of_several_answers_the_fastest_counts():
    machine = Machine()
    machine.delays = [(9 * SECOND, SECOND), (10, 10), (0, 5 * SECOND)]

    assert measured(machine, 3).now() == machine.there


def test_a_process_that_was_stopped_while_it_asked_does_not_lose_the_time():
    machine = Machine()
    clock = measured(machine)
    machine.delays = [(0, 3 * SECOND), (3 * SECOND, 0), (2 * SECOND, SECOND)]
    for _ in range(3):
        clock.measure(machine)
        assert clock.now() == machine.there


def test_a_slow_answer_counts_as_far_as_it_says_something():
    machine = Machine()
    clock = measured(machine)
    machine.there += 10 * SECOND
    machine.delays = [(SECOND, SECOND)]
    clock.measure(machine)

    assert machine.there - SECOND <= clock.now() <= machine.there
    clock.measure(machine)
    assert clock.now() == machine.there


def test_whoever_is_ahead_goes_slowly_until_the_others_have_caught_up():
    machine = Machine()
    clock = measured(machine)
    before = clock.now()
    machine.there -= 2000
    clock.measure(machine)

    assert clock.now() == before
    machine.pass_(1000)
    assert clock.now() == before + 500
    machine.pass_(3000)
    assert clock.now() == machine.there == before + 2000


def test_a_clock_that_was_set_back_by_much_is_not_waited_for():
    machine = Machine()
    clock = measured(machine)
    before = clock.now()
    machine.there -= 2 * SET_BACK
    clock.measure(machine)

    machine.pass_(1000)
    assert clock.now() == before + 1000


def test_a_clock_that_was_set_forward_is_followed():
    machine = Machine()
    clock = measured(machine)
    machine.there += 3600 * SECOND
    clock.measure(machine)

    assert clock.now() == machine.there


def test_it_is_never_behind_what_was_written():
    machine = Machine()
    clock = measured(machine)
    clock.not_before(machine.there + 5 * SECOND)
    assert clock.now() == machine.there + 5 * SECOND

    clock.not_before(machine.there)
    assert clock.now() >= machine.there + 5 * SECOND


def test_a_measurement_counts_for_a_while():
    machine = Machine()
    assert DatabaseClock(machine.nanoseconds).is_stale()
    clock = measured(machine)

    assert not clock.is_stale()
    machine.pass_(EVERY + 1)
    assert clock.is_stale()


def test_a_store_lives_by_it_and_measures_again(postgres_server):
    with postgres_server.lend() as url, closing(Store(PostgresDatabase(url))) as store:
        ((there,),) = postgres_server.execute(
            "SELECT CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000000 AS BIGINT)"
        )
        assert abs(store.now() - there) < 5 * SECOND

        store.clock._measured -= EVERY + 1
        store.apply([])
        assert not store.clock.is_stale()
