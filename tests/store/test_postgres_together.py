"""Many stores on one PostgreSQL database, as if each were a process on a machine of its own: what
they do together is lawful."""

import itertools
import os
import threading
from collections import Counter
from contextlib import ExitStack, closing
from functools import partial

import msgspec
import psycopg
import pytest

from holdfast.core.budgets.model import SpendEntry
from holdfast.core.budgets.rules import UNIT, limits_from
from holdfast.core.events import Event, EventKind
from holdfast.core.runs import Fanout, Route
from holdfast.core.sessions import Lane
from holdfast.core.status import Status
from holdfast.errors import BadOption, EngineClosed, LeaseLost
from holdfast.store.budgets.operations import SetBudget, spending_effects
from holdfast.store.lanes.operations import SetLane
from holdfast.store.postgres import PostgresDatabase, connection, notifier
from holdfast.store.runs.list_query import RunFilter
from holdfast.store.runs.operations import (
    Advance,
    Advanced,
    Body,
    DebounceStart,
    EndRun,
    EndSession,
    OpenSession,
    RequestCancel,
    StartChildren,
    StartRuns,
)
from holdfast.store.signals.operations import SignalRun
from holdfast.store.store import Store
from holdfast.testing.conformance import (
    AdvanceConformance,
    BatchConformance,
    ReadConformance,
    StartConformance,
    TransactionalStepFixture,
)
from tests.store.helpers import (
    WAITS,
    advance,
    claim,
    ends,
    furnished,
    in_threads,
    new,
    note,
    session,
    start,
    wait_until,
)
from tests.store.test_postgres import OnPolledPostgres


@pytest.fixture
def url(postgres_server):
    with postgres_server.lend() as url:
        yield url


@pytest.fixture
def stores(url):
    """Four stores, each with its own session."""
    with ExitStack() as stack:
        found = [stack.enter_context(closing(Store(PostgresDatabase(url)))) for _ in range(4)]
        for number, store in enumerate(found):
            store.apply([OpenSession(session(store, f"s{number}"))])
        yield found
        assert found[0].check() == []


def finished(run, seq=1, parent=None):
    events = [Event(EventKind.RUN_COMPLETED, seq=seq)]
    return Advance(
        run_id=run.id,
        generation=run.generation,
        events=events,
        status=Status.COMPLETED,
        result=b"1",
        effects=[EndRun(parent=parent)],
        graph_id=run.graph_id,
    )


class TestClaiming:
    def test_what_many_claim_is_claimed_once(self, stores):
        stores[0].apply([StartRuns([new(f"r{number:03}") for number in range(300)])])
        claimed = []

        def work(number):
            while found := stores[number].apply([claim(stores[number], f"s{number}", 7)])[0]:
                claimed.extend(run.id for run in found)
                stores[number].apply([finished(run) for run in found])

        for _ in range(
            3
        ):  # what one is just claiming another leaves to it, and may find nothing else
            in_threads(*[lambda number=number: work(number) for number in range(4)])

        assert sorted(claimed) == [f"r{number:03}" for number in range(300)]
        assert stores[0].runs.counts() == {"completed": 300}

    def test_the_limit_of_a_lane_holds_for_all_together(self, stores):
        stores[0].apply(
            [
                SetLane(Lane(name="default", concurrency=5)),
                StartRuns([new(f"r{n:03}") for n in range(60)]),
            ]
        )
        most = []

        def work(number):
            for _ in range(10):
                found = stores[number].apply([claim(stores[number], f"s{number}", 3)])[0]
                most.append(stores[number].runs.counts().get("running", 0))
                stores[number].apply([finished(run) for run in found])

        in_threads(*[lambda number=number: work(number) for number in range(4)])

        assert 0 < max(most) <= 5

    def test_the_limits_of_a_lane_hold_for_those_that_are_born_leased_and_those_that_are_claimed(
        self, stores
    ):
        stores[0].apply([SetLane(Lane(name="default", concurrency=4, per_share=2))])
        seen = []

        def work(number):
            store, mine = stores[number], f"s{number}"
            for turn in range(15):
                run = new(f"r{number}-{turn:02}", session_id=mine, share="ab"[turn % 2])
                (started,) = store.apply([StartRuns([run])])[0]
                leased = [store.runs.get(run.id)] if started.leased else []
                leased += store.apply([claim(store, mine, 2)])[0]
                seen.append(
                    Counter(
                        listed_run.share
                        for listed_run in store.runs.find(RunFilter(statuses=["running"]))
                    )
                )
                store.apply([finished(lease) for lease in leased])

        in_threads(*[partial(work, number) for number in range(4)])

        assert 0 < max(one.total() for one in seen) <= 4
        assert max(one[share] for one in seen for share in "ab") <= 2
        while left := stores[0].apply([claim(stores[0], "s0", 10)])[0]:
            stores[0].apply([finished(run) for run in left])
        assert stores[0].runs.counts() == {"completed": 60}

    def test_the_rate_of_a_lane_holds_for_all_together(self, stores):
        stores[0].apply([SetLane(Lane(name="default", rate_limit=10, rate_per=3600 * 10**6))])
        stores[0].apply([StartRuns([new(f"r{n:03}") for n in range(60)])])
        claimed = []

        def work(number):
            for _ in range(5):
                claimed.extend(stores[number].apply([claim(stores[number], f"s{number}", 3)])[0])

        in_threads(*[lambda number=number: work(number) for number in range(4)])

        assert len(claimed) == 10

    def test_no_run_is_left_to_a_session_that_was_ended_meanwhile(self, stores):
        over = threading.Event()

        def begin():
            for number in itertools.count():
                if over.is_set():
                    return
                start(stores[0], f"a{number}", session_id="s0")
                stores[0].apply(
                    [
                        StartRuns(
                            [new(f"b{number}", session_id="s0"), new(f"c{number}", session_id="s0")]
                        )
                    ]
                )

        def take():
            while not over.is_set():
                start(stores[1], f"d{len(stores[1].runs.find(RunFilter(limit=1000)))}")
                stores[1].apply([claim(stores[1], "s0", 3)])

        def end():
            for _ in range(25):
                stores[2].apply([EndSession("s0", crashed=False)])
                stores[3].apply([OpenSession(session(stores[3], "s0"))])
            over.set()

        in_threads(begin, take, end)

        assert stores[0].check() == []


class TestTouching:
    def test_a_signal_is_never_slept_through(self, stores):
        for number in range(30):
            started = start(stores[0], f"r{number:02}", session_id="s0")
            assert started.leased

        def park():
            for number in range(30):
                op = advance(
                    f"r{number:02}",
                    status=Status.WAITING,
                    waits=WAITS,
                    revision=0,
                    release=number % 2 != 0,
                )
                stores[0].apply([op])

        def send(store):
            for number in range(30):
                store.apply([SignalRun(f"r{number:02}", "paid", b"1")])

        in_threads(park, lambda: send(stores[1]), lambda: send(stores[2]))

        notified = {run_id for _, run_id in stores[0].sessions.notifications("s0", 0)}
        for run in stores[0].runs.find(RunFilter(limit=100)):
            assert run.status is Status.PENDING or run.id in notified, run
            assert len(stores[0].signals.of_run(run.id)) == 2

    def test_signals_that_come_everywhere_at_once_are_counted_one_by_one(self, stores):
        start(stores[0], "r", session_id="s0")
        found = []

        def send(store):
            for _ in range(25):
                found.extend(store.apply([SignalRun("r", "paid", b"1")]))

        in_threads(*[lambda store=store: send(store) for store in stores])

        wanted = list(range(1, 25 * len(stores) + 1))
        assert (
            sorted(one.number for one in found)
            == [signal.number for signal in stores[0].signals.of_run("r")]
            == wanted
        )
        assert stores[0].runs.get("r").revision == len(wanted)

    def test_of_children_that_end_everywhere_at_once_the_last_wakes_the_parent(self, stores):
        parent = stores[0].apply([StartRuns([new("parent", session_id="s0")])])[0][0]
        assert parent.leased
        children = [
            new(
                f"c{number:02}",
                parent_id="parent",
                parent_step="map",
                parent_index=number,
                root_id="parent",
            )
            for number in range(40)
        ]
        stores[0].apply(
            [advance("parent", effects=[StartChildren(children, [Fanout("map", 40, False)])])]
        )
        stores[0].apply(
            [
                advance(
                    "parent",
                    [2],
                    status=Status.WAITING,
                    waits=b'[{"kind":"map"}]',
                    revision=0,
                    release=True,
                )
            ]
        )
        held = [
            stores[number].apply([claim(stores[number], f"s{number}", 10)])[0]
            for number in range(4)
        ]

        def end(number):
            for run in held[number]:
                stores[number].apply([finished(run, parent=("parent", "map", run.parent_index))])

        in_threads(*[lambda number=number: end(number) for number in range(4)])

        woken = stores[0].runs.get("parent")
        assert (woken.status, woken.revision) == (Status.PENDING, 1)

    def test_a_parent_is_cancelled_while_its_children_end(self, stores):
        for turn in range(8):
            start(stores[0], f"p{turn}", session_id="s0")
            below = {
                "parent_id": f"p{turn}",
                "parent_step": "map",
                "root_id": f"p{turn}",
                "session_id": "s0",
            }
            born = [new(f"p{turn}c{number}", parent_index=number, **below) for number in range(6)]
            stores[0].apply(
                [advance(f"p{turn}", effects=[StartChildren(born, [Fanout("map", 6, True)])])]
            )

            def end(turn=turn, born=born):
                for run in born:
                    run = stores[0].runs.get(run.id)
                    stores[0].apply([finished(run, parent=(f"p{turn}", "map", run.parent_index))])

            def cancel(turn=turn):
                assert stores[1].apply([RequestCancel(f"p{turn}", "enough")]) == [Status.CANCELLING]

            in_threads(end, cancel)

    def test_a_notification_that_is_committed_late_is_not_passed_over(self, url):
        with furnished(url) as store, psycopg.connect(url) as late:
            late.execute(
                "INSERT INTO holdfast.run_notification (session_id, run_id) VALUES ('s1', 'b')"
            )
            store.apply([SignalRun("a", "paid", b"1")])

            first = store.sessions.notifications("s1", 0)
            assert [run_id for _, run_id in first] == ["a"]
            assert store.sessions.notifications("s1", first[-1][0]) == []
            store.apply([SignalRun("c", "paid", b"1")])
            second = store.sessions.notifications("s1", first[-1][0])
            assert [run_id for _, run_id in second] == ["c"]
            late.commit()

            third = store.sessions.notifications("s1", second[-1][0])
            assert [run_id for _, run_id in third] == ["b"]
            assert store.sessions.notifications("s1", third[-1][0]) == []
            assert sorted(run_id for _, run_id in store.sessions.notifications("s1", 0)) == [
                "a",
                "b",
                "c",
            ]

    def test_a_stale_holder_is_refused_however_close_the_race(self, stores):
        for turn in range(20):
            run_id = f"r{turn:02}"
            start(stores[0], run_id, session_id="s0")
            answers = []

            def write(run_id=run_id, answers=answers):
                for seq in range(1, 6):
                    answers.append(stores[0].apply([advance(run_id, [seq])])[0])

            def take():
                stores[1].apply([EndSession("s0", crashed=False)])
                stores[1].apply([OpenSession(session(stores[1], "s0"))])

            in_threads(write, take)

            kept = [isinstance(answer, Advanced) for answer in answers]
            assert kept == sorted(kept, reverse=True)
            assert len(stores[0].runs.history(run_id)) == sum(kept)
            assert all(isinstance(answer, LeaseLost) for answer in answers[sum(kept) :])


class TestGraphs:
    @pytest.mark.parametrize(
        "more",
        [[], [SignalRun("g::x", "paid", b"1")], [advance("a", body=Body(note))]],
        ids=["alone", "beside a signal", "beside a step"],
    )
    def test_whoever_ends_members_locks_their_graphs_before_the_runs(self, url, more):
        """Lock order: graphs before runs, as when a graph or the rest of a group is cancelled.
        Otherwise the two transactions would deadlock."""
        with furnished(url) as store, psycopg.connect(url) as db:
            ops = [*more, *ends(store, "g")]
            db.execute("SELECT 1 FROM holdfast.graph WHERE id = 'g' FOR NO KEY UPDATE")

            def stop():
                waits = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND pid = %s"
                wait_until(lambda: db.execute(waits, (store.database._writer.pid,)).fetchall())
                try:
                    db.execute(
                        "SELECT 1 FROM holdfast.run WHERE id LIKE 'g::%' FOR NO KEY UPDATE NOWAIT"
                    )
                finally:
                    db.rollback()

            in_threads(stop, lambda: store.apply(ops))

            assert (store.runs.get("g::x").status, store.runs.get("g::z").input) == (
                Status.COMPLETED,
                b"[1,1]",
            )


class TestListening:
    def test_one_that_does_not_listen_looks_now_and_then(self, url, monkeypatch):
        monkeypatch.setattr(notifier, "POLL_EVERY", 3600.0)
        with closing(Store(PostgresDatabase(f"{url}&notify=off"))) as store:
            assert store.changed()
            assert not store.changed()
            monkeypatch.setattr(notifier, "POLL_EVERY", 0.01)
            wait_until(store.changed)

    def test_a_job_that_takes_longer_than_somebody_waits_for_it_takes_nobody_along(self, url):
        given_up = threading.Event()
        with closing(Store(PostgresDatabase(url))) as store:
            store.database._notifier._start()
            store.database._notifier._run_job(lambda db: given_up.wait(60), 0.01)
            given_up.set()

            assert store.liveness.acquire() >= 0

    def test_one_that_hears_nothing_looks_now_and_then(self, url, monkeypatch):
        monkeypatch.setattr(notifier, "LOOK_EVERY", 0.02)
        with closing(Store(PostgresDatabase(url))) as store:
            assert store.changed()
            wait_until(store.changed)

    def test_one_that_cannot_reach_its_listener_looks_now_and_then(
        self, url, monkeypatch, tmp_path
    ):
        monkeypatch.setattr(notifier, "POLL_EVERY", 0.01)
        with closing(
            Store(PostgresDatabase(url, listen=f"postgresql:///x?host={tmp_path}"))
        ) as store:
            wait_until(store.changed)
            wait_until(store.changed)
            assert start(store).created

    def test_whoever_only_starts_runs_has_no_thread_and_is_heard(self, url, monkeypatch):
        monkeypatch.setattr(notifier, "LOOK_EVERY", 3600.0)
        with (
            closing(Store(PostgresDatabase(url))) as store,
            closing(Store(PostgresDatabase(url))) as client,
        ):
            assert store.changed()
            for begin in (lambda: start(client, "a"), lambda: start(client, "b", tags={"x": "y"})):
                assert not store.changed()
                begin()
                wait_until(store.changed)
            assert not client.database._notifier.running

    def test_a_step_that_concerns_nobody_else_is_not_announced(self, url, monkeypatch):
        monkeypatch.setattr(notifier, "LOOK_EVERY", 3600.0)
        with furnished(url) as store, closing(Store(PostgresDatabase(url))) as other:
            assert other.changed()
            store.apply([advance("a")])
            store.apply([SignalRun("b", "paid", b"1")])
            wait_until(other.changed)
            assert not other.changed()

    def test_whoever_holds_a_run_is_told_which_one_was_touched(self, url, monkeypatch):
        monkeypatch.setattr(notifier, "LOOK_EVERY", 3600.0)
        heard = []
        with furnished(url) as store, closing(Store(PostgresDatabase(url))) as other:
            assert store.listen("s1", heard.append)
            assert store.changed()
            heard.clear()

            other.apply([SignalRun("b", "paid", b"1")])
            wait_until(lambda: heard == ["b"])
            assert not store.changed()  # there is nothing to look for
            start(other, "r1")
            wait_until(lambda: heard == ["b", None])
            assert store.changed()

    def test_what_reaches_a_run_that_is_held_here_is_told_here_with_all_that_it_says(self, url):
        with furnished(url) as store:
            store.listen("s1", lambda run_id: None)
            store.hints()
            store.apply([SignalRun("b", "paid", b"1", source="ann")])

            (told,) = store.hints().delivered
            assert (told.run_id, told.generation, told.revision) == (
                "b",
                1,
                store.runs.get("b").revision,
            )
            assert [told.signal] == store.signals.of_run("b")


class TestForking:
    def test_a_child_finds_the_store_closed_and_the_parent_goes_on(self, url):
        with closing(Store(PostgresDatabase(url))) as store:
            store.changed()
            start(store, "before")
            assert store.runs.get("before") is not None
            child = os.fork()
            if child == 0:
                os._exit(self.in_the_child(store, url))
            assert os.waitpid(child, 0)[1] == 0

            assert start(store, "after").created
            assert {run.id for run in store.runs.find(RunFilter())} == {"before", "after", "child"}
            assert store.liveness.acquire() >= 0

    def in_the_child(self, store, url):
        try:
            for use in (lambda: store.runs.get("before"), lambda: store.apply([]), store.changed):
                with pytest.raises(EngineClosed, match="forked"):
                    use()
            store.close()
            with closing(Store(PostgresDatabase(url))) as own:
                assert start(own, "child").created
        except BaseException:
            return 1
        return 0


class TestWithin:
    """Starting runs in the transaction of a user."""

    def test_a_connection_to_another_database_is_refused(self, url, postgres_server):
        with closing(Store(PostgresDatabase(url))) as store, postgres_server.lend() as elsewhere:
            for place in (elsewhere, postgres_server.url()):
                with (
                    psycopg.connect(place) as db,
                    pytest.raises(BadOption, match="another database"),
                ):
                    store.start_within(db, [new()])

    def test_a_connection_without_a_transaction_is_refused(self, url):
        with (
            closing(Store(PostgresDatabase(url))) as store,
            psycopg.connect(url, autocommit=True) as db,
        ):
            with pytest.raises(BadOption, match="no open transaction"):
                store.start_within(db, [new()])
            with db.transaction():
                assert store.start_within(db, [new()])[0].created
            assert store.runs.get("new") is not None

    def test_whatever_rows_the_user_likes_and_one_of_sqlalchemy(self, url):
        from types import SimpleNamespace

        from psycopg.rows import namedtuple_row

        with (
            closing(Store(PostgresDatabase(url))) as store,
            psycopg.connect(url, row_factory=namedtuple_row) as db,
        ):
            wrapped = SimpleNamespace(connection=SimpleNamespace(driver_connection=db))
            assert store.start_within(wrapped, [new("x", tags={"a": "b"})])[0].created
            assert db.execute("SELECT 1 AS one").fetchone().one == 1

    def test_what_is_no_connection_is_refused(self, url):
        with (
            closing(Store(PostgresDatabase(url))) as store,
            pytest.raises(BadOption, match="give a connection of psycopg"),
        ):
            store.start_within(object(), [new()])


class TestGuarded:
    """What a transactional step may do with its connection."""

    @pytest.mark.parametrize(
        "use",
        [
            lambda db: db.commit(),
            lambda db: db.rollback(),
            lambda db: db.close(),
            lambda db: db.cursor().execute("SELECT 1; COMMIT"),
            lambda db: db.execute(b"/* x */ end"),
            lambda db: db.execute("PREPARE TRANSACTION 'x'"),
            lambda db: setattr(db, "autocommit", False),
        ],
    )
    def test_it_cannot_end_the_transaction(self, url, use):
        with furnished(url) as store:
            answers = store.apply(
                [advance("b"), advance("a", body=Body(lambda db: use(db) or b"1")), advance("c")]
            )

            assert [isinstance(answer, Exception) for answer in answers] == [False, True, False]
            assert store.runs.history("a") == []

    def test_it_may_have_savepoints_and_rows_of_its_own(self, url):
        from psycopg.rows import dict_row

        def body(db):
            db.row_factory = dict_row
            with db.transaction():
                db.execute("INSERT INTO note VALUES ('kept; commit')")
            db.execute("SAVEPOINT mine")
            db.execute("INSERT INTO note VALUES ('lost')")
            db.execute("ROLLBACK TO mine")
            return str(db.execute("SELECT text FROM note").fetchall()).encode()

        with furnished(url) as store:
            assert (
                store.apply([advance("a", body=Body(body))])[0].data
                == b"[{'text': 'kept; commit'}]"
            )
            assert isinstance(store.apply([advance("b")])[0], Advanced)

    def test_an_error_that_it_passes_over_is_told(self, url):
        def body(db):
            with pytest.raises(psycopg.errors.UndefinedTable):
                db.execute("SELECT * FROM nowhere")
            return b"1"

        with furnished(url) as store:
            answers = store.apply([advance("a", body=Body(body)), advance("b")])
            assert isinstance(answers[0], BadOption) and isinstance(answers[1], Advanced)


class TestBehindAPooler(
    StartConformance,
    AdvanceConformance,
    BatchConformance,
    TransactionalStepFixture,
    ReadConformance,
    OnPolledPostgres,
):
    """A simulated pooler: sessions keep no state, and no process receives notifications."""

    @pytest.fixture(autouse=True)
    def pooler(self, monkeypatch):
        meet = connection.Connection._configure

        def meet_a_pooler(db):
            meet(db)
            db.direct, db.raw.prepare_threshold = False, None

        monkeypatch.setattr(connection.Connection, "_configure", meet_a_pooler)

    def test_who_lives_is_known_by_its_heartbeat_alone(self, store):
        assert store.liveness.acquire() == -1
        assert store.liveness.is_alive(session(store)) is None

    def test_many_routes(self, store):
        for number in range(3):
            self.start(store, f"r{number}", route=Route("default", f"w{number}", "1", "default"))
        assert len(self.claim(store)) == 3


class TestSpending:
    def test_a_hard_limit_holds_for_all_together_and_what_is_refused_leaves_nothing(self, stores):
        limits = limits_from({"tokens": 30})
        stores[0].apply(
            [
                SetBudget(name="team", limits=limits),
                SetBudget(name="other", limits=limits_from({"tokens": 1000})),
            ]
        )
        names = ("other", "team")
        runs = [
            msgspec.structs.replace(new(f"r{n}"), budgets=names, session_id=f"s{n}")
            for n in range(4)
        ]
        stores[0].apply([StartRuns([run]) for run in runs])
        taken = []

        def work(number):
            for place in range(12):
                spends = [SpendEntry({"tokens": UNIT})]
                op = Advance(
                    run_id=f"r{number}", generation=1, effects=spending_effects(names, spends)
                )
                op.events = [
                    Event(
                        EventKind.MARKED,
                        f"m{place}",
                        seq=1 + sum(place_taken == number for place_taken in taken),
                    )
                ]
                if isinstance(stores[number].apply([op])[0], Advanced):
                    taken.append(number)

        in_threads(*[lambda number=number: work(number) for number in range(4)])

        assert len(taken) == 30
        assert {line.budget: line.used // UNIT for line in stores[0].budgets.lines(names)} == {
            "other": 30,
            "team": 30,
        }
        assert sum(len(stores[0].runs.history(f"r{n}")) for n in range(4)) == 30


class TestGathering:
    def test_starts_of_one_key_at_the_same_time_are_one_run(self, stores):
        for turn in range(5):

            def gather(number, turn=turn):
                run = msgspec.structs.replace(new(f"g{turn}-{number}"), input=b'["x"]')
                (answer,) = stores[number].apply(
                    [DebounceStart(run=run, key=f"k{turn}", quiet=10**9, longest=10**10)]
                )
                assert len(answer) == 1, answer

            in_threads(*[partial(gather, number) for number in range(4)])

        assert stores[0].runs.counts() == {"pending": 5}
