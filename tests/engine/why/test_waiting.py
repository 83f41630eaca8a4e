"""What a parked run waits for."""

from __future__ import annotations

import msgspec

from holdfast.core.events import Event, EventKind
from holdfast.core.runs import Fanout
from holdfast.core.sessions import Lane
from holdfast.core.status import Status
from holdfast.store.lanes.operations import SetLane
from holdfast.store.runs.operations import StartChildren
from holdfast.store.signals.operations import SignalRun
from holdfast.store.waits.operations import ReleaseWait

SECOND = 1_000_000


def kinds(found):
    return [blocker.kind for blocker in found.blockers]


def test_a_timer_says_how_long(bench):
    bench.begun()
    bench.park({"kind": "timer", "step": "sleep", "until": bench.clock.now() + 3600 * SECOND})

    explanation = bench.why()

    assert explanation.status == "waiting"
    assert explanation.reason == "it sleeps until 2026-01-01 01:00:00 UTC (in 1h), step 'sleep'"
    assert explanation.remedy == "holdfast waits release r1"


def test_a_timer_that_is_due_with_no_worker_alive(bench):
    bench.begun()
    bench.park({"kind": "timer", "step": "sleep", "until": bench.clock.now() + 3600 * SECOND})
    bench.clock.advance("2h")

    explanation = bench.why()

    assert explanation.reason.startswith("no worker is alive")
    assert "its timer was due at 2026-01-01 01:00:00 UTC (1h ago)" in explanation.blockers[-1].text
    assert explanation.remedy == "holdfast worker MODULE"


def test_a_timer_that_is_due_and_a_worker_that_goes_on(bench):
    bench.begun()
    bench.park({"kind": "timer", "step": "sleep", "until": bench.clock.now() + SECOND})
    bench.clock.advance("2s")

    assert kinds(bench.why()) == ["timer", "ready"]


def test_a_signal_names_the_command_that_sends_it(bench):
    bench.begun()
    bench.park({"kind": "signal", "step": "signal paid", "name": "paid", "until": None})

    explanation = bench.why()

    assert "waits for the signal 'paid'" in explanation.reason
    assert explanation.remedy == "holdfast signal r1 paid"


def test_a_signal_with_a_timeout_says_when_it_gives_up(bench):
    bench.begun()
    bench.park(
        {
            "kind": "signal",
            "step": "s",
            "name": "two words",
            "until": bench.clock.now() + 86400 * SECOND,
        }
    )

    explanation = bench.why()

    assert "it gives up at 2026-01-02 00:00:00 UTC (in 1d)" in explanation.reason
    assert explanation.remedy == "holdfast signal r1 'two words'"


def test_a_signal_that_came_to_a_held_run_is_about_to_be_taken(bench):
    bench.begun()
    bench.park({"kind": "signal", "step": "signal paid", "name": "paid", "until": None}, keep=True)
    bench.do(SignalRun("r1", "paid", b"1"))

    explanation = bench.why()

    assert kinds(explanation) == ["signal", "session"]
    assert "is about to be taken" in explanation.reason


def test_a_retry_tells_the_error_and_the_time_left(bench):
    bench.begun()
    error = msgspec.json.encode({"type": "ValueError", "message": "no route to bank"})
    until = bench.clock.now() + 30 * SECOND
    bench.advance(
        "r1", Event(EventKind.STEP_RETRIED, "charge", msgspec.json.encode({"until": until}), error)
    )
    bench.park({"kind": "retry", "step": "charge", "until": until, "attempt": 2})

    explanation = bench.why()

    assert (
        explanation.reason
        == "step 'charge' failed with ValueError: no route to bank; attempt 2 begins at 2026-01-01"
        " 00:00:30 UTC (in 30s)"
    )
    assert explanation.remedy == "holdfast waits release r1"

    bench.do(ReleaseWait(run_id="r1", step="charge", payload=b"null"))
    assert bench.why().status == "pending"


def test_a_child_is_followed_to_its_own_blocker(bench):
    bench.begun()
    bench.park({"kind": "child", "step": "run pack end", "run": "r2"}, keep=True)
    bench.start("r2", "shop", parent_id="r1", parent_step="run pack", root_id="r1")
    bench.claim()
    bench.park({"kind": "signal", "step": "signal paid", "name": "paid", "until": None}, id="r2")

    explanation = bench.why()

    assert (
        "it waits for its child r2 (shop), which is waiting: it waits for the signal 'paid'"
        in explanation.reason
    )
    assert explanation.blockers[0].holder == "r2"
    assert explanation.remedy == "holdfast signal r2 paid"


def test_a_child_that_has_ended_blocks_nobody(bench):
    bench.begun()
    bench.park({"kind": "child", "step": "run pack end", "run": "r2"}, keep=True)
    bench.start("r2", "shop")
    bench.claim()
    bench.advance("r2", Event(EventKind.RUN_COMPLETED), status=Status.COMPLETED, result=b"1")

    assert "its child r2 has ended" in bench.why().reason


def test_children_of_a_map_are_counted(bench):
    bench.begun()
    bench.advance(
        "r1",
        status=Status.RUNNING,
        effects=[StartChildren((), [Fanout("map pack", 2, eager=False)])],
    )
    for number in (2, 3):
        bench.start(
            f"r{number}",
            lane="slow",
            parent_id="r1",
            parent_step="map pack",
            parent_index=number - 2,
            root_id="r1",
        )
    bench.park({"kind": "children", "step": "map pack", "open": 2, "of": 5}, keep=True)
    bench.do(SetLane(Lane(name="slow", paused=True)))

    explanation = bench.why()

    assert (
        "it waits for the 5 children of step 'map pack', of which 0 have ended; 2 are open, such as"
        " r3, which is pending" in explanation.reason
    )
    assert explanation.remedy == "holdfast lanes set slow --unpause"


def test_several_waits_are_all_told(bench):
    bench.begun()
    until = bench.clock.now() + SECOND
    bench.park(
        {"kind": "timer", "step": "sleep", "until": until},
        {"kind": "signal", "step": "s", "name": "stop", "until": None},
    )

    explanation = bench.why()

    assert kinds(explanation) == ["timer", "signal"]
    assert [blocker.remedy for blocker in explanation.blockers] == [
        "holdfast waits release r1",
        "holdfast signal r1 stop",
    ]


def test_an_unknown_wait_is_told_all_the_same(bench):
    bench.begun()
    bench.park({"kind": "eclipse", "step": "e", "until": bench.clock.now() + SECOND})

    assert bench.why().reason.startswith("it waits for a eclipse until 2026-01-01 00:00:01 UTC")
