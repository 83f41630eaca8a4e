"""``why`` names the exact blocker, its holder, since when, until when, and the command that unblocks it: for every status."""

from __future__ import annotations

import msgspec
import pytest

from holdfast.core.records import Event, Kind, Lane, NewRun, Route, Session
from holdfast.core.status import Status
from holdfast.engine.why import why
from holdfast.store import contract as c
from holdfast.store.sqlite import SqliteStore
from holdfast.testing.clock import VirtualClock

SECOND = 1_000_000


class Bench:
    """A store in which the test puts runs where it wants them."""

    def __init__(self, store, clock):
        self.store, self.clock = store, clock

    def do(self, op):
        answer = self.store.apply([op])[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    def start(self, id="r1", workflow="shop", **options):
        route = Route(
            options.pop("namespace", "default"),
            workflow,
            options.pop("version", "1"),
            options.pop("lane", "default"),
            options.pop("capabilities", ()),
        )
        self.do(c.StartRuns([NewRun(id=id, route=route, input=b"[]", **options)]))
        return id

    def worker(self, name="w1", *, slot=-1, host="elsewhere", **offer):
        serves = {"workflows": {"shop": None}, "lanes": None, "capabilities": [], "namespace": None, "concurrency": 10, **offer}
        now = self.store.now()
        session = Session(
            id=f"session-{name}", worker=name, host=host, pid=77, slot=slot, started_at=now, beat_at=now,
            expires_at=now + 15 * SECOND, serves=msgspec.json.encode(serves),
        )  # fmt: skip
        self.do(c.OpenSession(session))
        return session.id

    def claim(self, session="session-w1", limit=1):
        routes = [(number, route.lane) for number, route in self.store.routes().items()]
        return self.do(c.Claim(session, routes, limit))

    def advance(self, id="r1", *events, **options):
        run = self.store.run(id)
        seq = len(self.store.history(id))
        for number, event in enumerate(events, start=seq + 1):
            event.seq = number
        self.do(c.Advance(run_id=id, generation=run.generation, events=list(events), **options))

    def park(self, *waits, id="r1", keep=False):
        until = min((wait["until"] for wait in waits if wait.get("until")), default=None)
        options = {"status": Status.WAITING, "waits": msgspec.json.encode(waits), "wake_at": until, "keep": keep}
        self.advance(id, **options)

    def begun(self, id="r1", **options):
        self.start(id, **options)
        self.worker()
        self.claim()

    def why(self, id="r1"):
        return why(self.store, self.store.run(id))


@pytest.fixture
def bench(tmp_path):
    clock = VirtualClock()
    store = SqliteStore(tmp_path / "why.db", clock=clock)
    yield Bench(store, clock)
    assert store.check() == []
    store.close()


def kinds(found):
    return [blocker.kind for blocker in found.blockers]


# Pending


def test_a_ready_run_says_who_claims_it(bench):
    bench.start()
    bench.worker("w1")

    found = bench.why()

    assert found.status == "pending"
    assert found.reason == "it is ready: worker w1 (pid 77 on elsewhere) claims it in a moment"
    assert found.blockers[0].holder == "w1"
    assert found.remedy is None


def test_without_any_worker_it_says_how_to_start_one(bench):
    bench.start()

    found = bench.why()

    assert found.reason.startswith("no worker is alive")
    assert found.remedy == "holdfast worker MODULE"


def test_a_worker_that_died_is_named_when_none_is_alive(bench):
    bench.start()
    bench.worker("w1")
    bench.clock.advance("1m")

    found = bench.why()

    assert found.reason.startswith("no worker is alive")
    assert "worker w1 (pid 77 on elsewhere) is gone" in found.blockers[1].text


@pytest.mark.parametrize(
    "offer, run, nobody, near, remedy",
    [
        ({"workflows": {"mail": None}}, {}, "the workflow shop", "does not know the workflow, only mail", "holdfast worker MODULE"),
        ({"workflows": {"shop": ["2"]}}, {}, "version 1 of shop", "only 2 of the versions", "holdfast worker MODULE"),
        ({"lanes": ["a", "b"]}, {"lane": "slow"}, "the lane slow", "only a, b of the lanes", "holdfast worker MODULE --lanes slow"),
        (
            {"capabilities": ["gpu"]},
            {"capabilities": ("fpga", "gpu")},
            "the capability fpga",
            "lacks fpga and offers gpu",
            "holdfast worker MODULE --capabilities fpga,gpu",
        ),
        ({"namespace": "acme"}, {}, "the namespace default", "serves only the namespace acme", "holdfast worker MODULE"),
    ],
)
def test_what_nobody_serves_is_named_and_who_comes_near(bench, offer, run, nobody, near, remedy):
    bench.worker("w1", **offer)
    bench.start(**run)

    found = bench.why()

    assert f"no live worker serves {nobody}" in found.reason
    assert near in found.blockers[1].text
    assert found.blockers[1].holder == "w1"
    assert found.remedy == remedy


def test_two_workers_that_serve_half_each_do_not_serve(bench):
    bench.worker("w1", lanes=["fast"], capabilities=["gpu"])
    bench.worker("w2", lanes=["slow"])
    bench.start(lane="slow", capabilities=("gpu",))

    found = bench.why()

    assert "the lane slow, the namespace default, the capability gpu, all at once" in found.reason


def test_a_paused_lane_is_the_blocker(bench):
    bench.worker()
    bench.do(c.SetLane(Lane(name="mail", paused=True)))
    bench.start(lane="mail")

    found = bench.why()

    assert found.reason == "the lane mail is paused"
    assert found.remedy == "holdfast lanes set mail --unpause"


def test_a_full_lane_names_who_holds_its_places(bench):
    bench.worker()
    bench.do(c.SetLane(Lane(name="mail", concurrency=1)))
    bench.start("r0", lane="mail")
    bench.claim()
    bench.start(lane="mail")

    found = bench.why()

    assert found.reason == "all 1 places of the lane mail are taken by r0 (worker w1)"
    assert found.blockers[0].holder == "r0"
    assert found.remedy == "holdfast lanes set mail --concurrency 2"


def test_a_closed_lane_says_so(bench):
    bench.worker()
    bench.do(c.SetLane(Lane(name="mail", concurrency=0)))
    bench.start(lane="mail")

    assert bench.why().reason == "the lane mail lets no run begin: its concurrency is 0"


def test_a_spent_rate_says_until_when(bench):
    bench.worker()
    bench.do(c.SetLane(Lane(name="mail", rate_limit=1, rate_per=60 * SECOND)))
    bench.start("r0", lane="mail")
    bench.claim()
    bench.start(lane="mail")

    found = bench.why()

    assert found.reason.startswith("the lane mail has used its rate of 1/m; one more may begin at 2026-01-01 00:01:00 UTC (in 1m)")
    assert found.blockers[0].until == bench.clock.now() + 60 * SECOND
    assert found.remedy == "holdfast lanes set mail --rate 2/m"


def test_busy_workers_are_named(bench):
    bench.worker(concurrency=1)
    bench.start("r0")
    bench.claim()
    bench.start()

    found = bench.why()

    assert found.reason == "all workers that serve it are busy: w1 (1 of 1)"
    assert found.remedy == "holdfast worker MODULE"


def test_a_delayed_run_says_until_when(bench):
    bench.worker()
    bench.start(available_at=bench.clock.now() + 3600 * SECOND)

    found = bench.why()

    assert found.reason == "it may not begin before 2026-01-01 01:00:00 UTC (in 1h)"
    assert kinds(found) == ["delay"]


def test_a_delayed_run_warns_that_nobody_will_serve_it(bench):
    bench.start(available_at=bench.clock.now() + 3600 * SECOND)

    found = bench.why()

    assert kinds(found) == ["delay", "worker"]
    assert found.remedy == "holdfast worker MODULE"


def test_a_delay_that_has_passed_is_none(bench):
    bench.worker()
    bench.start(available_at=bench.clock.now() + SECOND)
    bench.clock.advance("2s")

    assert bench.why().reason.startswith("it is ready: worker w1")


def test_a_deadline_is_told(bench):
    bench.worker()
    bench.start(deadline=bench.clock.now() + 60 * SECOND)

    assert bench.why().blockers[-1].text == "its deadline is 2026-01-01 00:01:00 UTC (in 1m)"


# Running


def test_a_running_run_names_its_worker_and_its_last_event(bench):
    bench.begun()
    bench.advance("r1", Event(Kind.STEP_COMPLETED, "charge", b"1"))
    bench.clock.advance("2s")

    found = bench.why()

    assert found.reason == "worker w1 (pid 77 on elsewhere) is at work on it; the last event is step_completed charge, 2s ago"
    assert found.since == bench.clock.now() - 2 * SECOND


def test_a_run_that_has_just_begun_says_so(bench):
    bench.begun()

    assert bench.why().reason == "worker w1 (pid 77 on elsewhere) has just begun with it"


def test_a_step_that_takes_long_is_named(bench):
    bench.begun()
    begun = bench.clock.now()
    bench.advance("r1", Event(Kind.STEP_STARTED, "charge", attempt=2, started_at=begun))
    bench.clock.advance("5s")

    found = bench.why()

    assert "is at work on step 'charge' since 2026-01-01 00:00:00 UTC (5s ago), attempt 2" in found.reason
    assert found.blockers[0].since == begun


def test_a_heartbeat_that_stopped_says_when_the_lease_ends(bench):
    bench.begun()
    bench.clock.advance("11s")

    found = bench.why()

    assert "its heartbeat stopped at 2026-01-01 00:00:00 UTC (11s ago)" in found.reason
    assert "the lease ends at 2026-01-01 00:00:15 UTC (in 4s)" in found.reason
    assert found.blockers[0].holder == "w1"


def test_a_dead_worker_and_nobody_else(bench):
    bench.begun()
    bench.clock.advance("1m")

    found = bench.why()

    assert found.reason.startswith("worker w1 (pid 77 on elsewhere), which held it, is gone")
    assert found.remedy == "holdfast worker MODULE"


def test_a_dead_worker_and_another_that_takes_over(bench):
    bench.begun()
    bench.clock.advance("1m")
    bench.worker("w2")

    found = bench.why()

    assert kinds(found) == ["session", "ready"]
    assert "worker w2" in found.blockers[1].text


def test_a_process_that_is_gone_is_known_at_once(bench):
    import socket

    bench.start()
    bench.worker("w1", slot=9, host=socket.gethostname())
    bench.claim()

    assert "which held it, is gone" in bench.why().reason


# Waiting


def test_a_timer_says_how_long(bench):
    bench.begun()
    bench.park({"kind": "timer", "step": "sleep", "until": bench.clock.now() + 3600 * SECOND})

    found = bench.why()

    assert found.status == "waiting"
    assert found.reason == "it sleeps until 2026-01-01 01:00:00 UTC (in 1h), step 'sleep'"
    assert found.remedy is None


def test_a_timer_that_is_due_with_no_worker_alive(bench):
    bench.begun()
    bench.park({"kind": "timer", "step": "sleep", "until": bench.clock.now() + 3600 * SECOND})
    bench.clock.advance("2h")

    found = bench.why()

    assert found.reason.startswith("no worker is alive")
    assert "its timer is due since 2026-01-01 01:00:00 UTC (1h ago)" in found.blockers[-1].text
    assert found.remedy == "holdfast worker MODULE"


def test_a_timer_that_is_due_and_a_worker_that_goes_on(bench):
    bench.begun()
    bench.park({"kind": "timer", "step": "sleep", "until": bench.clock.now() + SECOND})
    bench.clock.advance("2s")

    assert kinds(bench.why()) == ["timer", "ready"]


def test_a_signal_names_the_command_that_sends_it(bench):
    bench.begun()
    bench.park({"kind": "signal", "step": "signal paid", "name": "paid", "until": None})

    found = bench.why()

    assert "waits for the signal 'paid'" in found.reason
    assert found.remedy == "holdfast signal r1 paid"


def test_a_signal_with_a_timeout_says_when_it_gives_up(bench):
    bench.begun()
    bench.park({"kind": "signal", "step": "s", "name": "two words", "until": bench.clock.now() + 86400 * SECOND})

    found = bench.why()

    assert "it gives up at 2026-01-02 00:00:00 UTC (in 1d)" in found.reason
    assert found.remedy == "holdfast signal r1 'two words'"


def test_a_signal_that_came_to_a_held_run_is_about_to_be_taken(bench):
    bench.begun()
    bench.park({"kind": "signal", "step": "signal paid", "name": "paid", "until": None}, keep=True)
    bench.do(c.SignalRun("r1", "paid", b"1"))

    found = bench.why()

    assert kinds(found) == ["signal", "session"]
    assert "is about to be taken" in found.reason


def test_a_retry_tells_the_error_and_the_time_left(bench):
    bench.begun()
    error = msgspec.json.encode({"type": "ValueError", "message": "no route to bank"})
    until = bench.clock.now() + 30 * SECOND
    bench.advance("r1", Event(Kind.STEP_RETRIED, "charge", msgspec.json.encode({"until": until}), error))
    bench.park({"kind": "retry", "step": "charge", "until": until, "attempt": 2})

    found = bench.why()

    assert found.reason == (
        "step 'charge' failed with ValueError: no route to bank; attempt 2 begins at 2026-01-01 00:00:30 UTC (in 30s)"
    )


def test_a_child_is_followed_to_its_own_blocker(bench):
    bench.begun()
    bench.park({"kind": "child", "step": "run pack end", "run": "r2"}, keep=True)
    bench.start("r2", "shop", parent_id="r1", parent_step="run pack", root_id="r1")
    bench.claim()
    bench.park({"kind": "signal", "step": "signal paid", "name": "paid", "until": None}, id="r2")

    found = bench.why()

    assert "it waits for its child r2 (shop), which is waiting: it waits for the signal 'paid'" in found.reason
    assert found.blockers[0].holder == "r2"
    assert found.remedy == "holdfast signal r2 paid"


def test_a_child_that_has_ended_blocks_nobody(bench):
    bench.begun()
    bench.park({"kind": "child", "step": "run pack end", "run": "r2"}, keep=True)
    bench.start("r2", "shop")
    bench.claim()
    bench.advance("r2", Event(Kind.RUN_COMPLETED), status=Status.COMPLETED, result=b"1")

    assert "its child r2 has ended" in bench.why().reason


def test_children_of_a_map_are_counted(bench):
    bench.begun()
    bench.advance("r1", status=Status.RUNNING, fanouts=[c.Fanout("map pack", 2, eager=False)])
    for number in (2, 3):
        bench.start(f"r{number}", lane="slow", parent_id="r1", parent_step="map pack", parent_index=number - 2, root_id="r1")
    bench.park({"kind": "children", "step": "map pack", "open": 2, "of": 5}, keep=True)
    bench.do(c.SetLane(Lane(name="slow", paused=True)))

    found = bench.why()

    assert "it waits for the 5 children of step 'map pack'; 2 are open, such as r3, which is pending" in found.reason
    assert found.remedy == "holdfast lanes set slow --unpause"


def test_several_waits_are_all_told(bench):
    bench.begun()
    until = bench.clock.now() + SECOND
    bench.park({"kind": "timer", "step": "sleep", "until": until}, {"kind": "signal", "step": "s", "name": "stop", "until": None})

    found = bench.why()

    assert kinds(found) == ["timer", "signal"]
    assert found.remedy == "holdfast signal r1 stop"


def test_an_unknown_wait_is_told_all_the_same(bench):
    bench.begun()
    bench.park({"kind": "eclipse", "step": "e", "until": bench.clock.now() + SECOND})

    assert bench.why().reason.startswith("it waits for a eclipse until 2026-01-01 00:00:01 UTC")


# Cancelling, stuck


def test_a_run_that_is_being_cancelled_says_what_it_undoes(bench):
    bench.begun()
    bench.do(c.RequestCancel("r1", "ordered twice"))
    bench.advance(
        "r1",
        Event(Kind.CANCEL_REQUESTED, None, msgspec.json.encode({"reason": "ordered twice"})),
        Event(Kind.STEP_COMPLETED, "undo pack", b"null"),
        Event(Kind.STEP_STARTED, "undo charge", started_at=bench.clock.now()),
    )

    found = bench.why()

    assert found.reason == (
        "it was asked to stop (ordered twice) and is undoing: undo charge; undone so far: undo pack"
    )
    assert "worker w1" in found.blockers[0].text
    assert found.blockers[-1].remedy == "holdfast cancel r1 --force"


def test_a_run_that_is_being_cancelled_with_no_worker_alive(bench):
    bench.begun()
    bench.park({"kind": "signal", "step": "s", "name": "paid", "until": None})
    bench.do(c.RequestCancel("r1", "enough"))
    bench.do(c.EndSession("session-w1", crashed=False))

    found = bench.why()

    assert found.status == "cancelling"
    assert "no worker is alive" in found.blockers[0].text
    assert found.remedy == "holdfast worker MODULE"


def stuck(bench, error):
    bench.begun()
    data = msgspec.json.encode(error)
    bench.advance("r1", Event(Kind.RUN_STUCK, error=data), status=Status.STUCK, keep=False, error=data)
    return bench.why()


def test_diverged_code_says_where(bench):
    facts = {"step": "charge", "recorded": "step_completed charge (event 3)", "wanted": "RunStep bill", "where": "shop.py:7 in checkout"}

    found = stuck(bench, {"type": "Diverged", "message": "The code ...", "facts": facts})

    assert "at step 'charge': recorded is step_completed charge (event 3), wanted is RunStep bill, at shop.py:7" in found.reason
    assert found.remedy == "holdfast resume r1"
    assert found.blockers[1].remedy == "holdfast fork r1 --from charge"


def test_code_that_waits_for_nothing_says_so(bench):
    found = stuck(bench, {"type": "Diverged", "message": "m", "facts": {"why": "the workflow waits for what can never happen"}})

    assert found.reason.endswith("the workflow waits for what can never happen")
    assert found.remedy == "holdfast resume r1"


def test_too_many_crashes(bench):
    bench.start()
    for _ in range(2):
        bench.worker()
        bench.claim()
        bench.do(c.EndSession("session-w1", crashed=True, limit=2))

    found = bench.why()

    assert found.status == "stuck"
    assert found.reason.startswith("its worker died 2 times in a row while it made no progress")
    assert found.remedy == "holdfast resume r1"


def test_malformed_data(bench):
    found = stuck(bench, {"type": "BadData", "message": "Stored data cannot be read. (what='the result')"})

    assert found.reason == "it cannot go on: BadData: Stored data cannot be read. (what='the result')"
    assert found.remedy == "holdfast resume r1"


# Final


def test_a_completed_run_tells_its_result(bench):
    bench.begun()
    bench.advance("r1", Event(Kind.RUN_COMPLETED), status=Status.COMPLETED, result=b'{"paid":true}')

    found = bench.why()

    assert found.reason == 'it completed with {"paid":true}'
    assert found.since == bench.clock.now()
    assert found.remedy == "holdfast replay r1"


def test_a_failed_run_tells_its_error_and_what_was_not_undone(bench):
    bench.begun()
    error = msgspec.json.encode({"type": "ValueError", "message": "no\nmoney", "facts": {"undo_failed": ["undo pack"]}})
    bench.advance("r1", Event(Kind.RUN_FAILED, error=error), status=Status.FAILED, error=error)

    found = bench.why()

    assert found.reason == "it failed with ValueError: no money"
    assert "undo pack" in found.blockers[1].text
    assert found.remedy == "holdfast replay r1"


def test_a_cancelled_run_tells_the_reason(bench):
    bench.start()
    bench.do(c.RequestCancel("r1", "ordered twice"))

    assert bench.why().reason == "it was cancelled: ordered twice"


def test_an_expired_run_tells_its_deadline(bench):
    bench.start(deadline=bench.clock.now() + SECOND)
    bench.clock.advance("2s")
    bench.do(c.ExpireRuns())

    assert bench.why().reason == "it passed its deadline of 2026-01-01 00:00:01 UTC"


# What the store of today never says, and one of tomorrow may


@pytest.mark.parametrize(
    "status, reason, remedy",
    [
        (Status.BLOCKED, "it is blocked", "holdfast resume r1"),
        (Status.SKIPPED, "it was skipped", "holdfast replay r1"),
        (Status.WAITING, "it waits", "holdfast worker MODULE"),
    ],
)
def test_every_status_has_an_explanation(bench, status, reason, remedy):
    bench.start()
    run = msgspec.structs.replace(bench.store.run("r1"), status=status)

    found = why(bench.store, run)

    assert found.reason == reason
    assert found.remedy == remedy


def test_a_holder_that_does_not_exist_is_a_broken_law(bench):
    bench.start()
    run = msgspec.structs.replace(bench.store.run("r1"), status=Status.RUNNING, session_id="nobody")

    assert why(bench.store, run).remedy == "holdfast db check"


def test_waits_and_offers_that_cannot_be_read_stop_nobody(bench):
    bench.start()
    now = bench.store.now()
    bench.do(
        c.OpenSession(
            Session(
                id="s", worker="old", host="h", pid=1, slot=-1, started_at=now, beat_at=now, expires_at=now + SECOND, serves=b"?"
            )
        )
    )
    run = msgspec.structs.replace(bench.store.run("r1"), status=Status.WAITING, waits=b"not json", error=b"nor this")

    assert why(bench.store, run).reason == "it waits"
