"""Who holds a run, and whether that worker still lives."""

from __future__ import annotations

import socket
import subprocess
import sys

from holdfast.core.events import Event, EventKind

SECOND = 1_000_000


def kinds(found):
    return [blocker.kind for blocker in found.blockers]


def test_a_running_run_names_its_worker_and_its_last_event(bench):
    bench.begun()
    bench.advance("r1", Event(EventKind.STEP_COMPLETED, "charge", b"1"))
    bench.clock.advance("2s")

    explanation = bench.why()

    assert (
        explanation.reason
        == "worker w1 (pid 77 on elsewhere) is at work on it; the last event is step_completed"
        " charge, 2s ago"
    )
    assert explanation.since == bench.clock.now() - 2 * SECOND


def test_a_run_that_has_just_begun_says_so(bench):
    bench.begun()

    assert bench.why().reason == "worker w1 (pid 77 on elsewhere) has just begun with it"


def test_a_step_that_takes_long_is_named(bench):
    bench.begun()
    begun = bench.clock.now()
    bench.advance("r1", Event(EventKind.STEP_STARTED, "charge", attempt=2, started_at=begun))
    bench.clock.advance("5s")

    explanation = bench.why()

    assert (
        "is at work on step 'charge', which began at 2026-01-01 00:00:00 UTC (5s ago), attempt 2"
        in explanation.reason
    )
    assert explanation.blockers[0].since == begun


def test_a_heartbeat_that_stopped_says_when_the_lease_ends(bench):
    bench.begun()
    bench.clock.advance("11s")

    explanation = bench.why()

    assert "its heartbeat stopped at 2026-01-01 00:00:00 UTC (11s ago)" in explanation.reason
    assert explanation.remedy == "holdfast tasks revoke r1"
    assert "the lease ends at 2026-01-01 00:00:15 UTC (in 4s)" in explanation.reason
    assert explanation.blockers[0].holder == "w1"


def test_a_dead_worker_and_nobody_else(bench):
    bench.begun()
    bench.clock.advance("1m")

    explanation = bench.why()

    assert explanation.reason.startswith("worker w1 (pid 77 on elsewhere), which held it, is gone")
    assert explanation.remedy == "holdfast worker MODULE"


def test_a_dead_worker_and_another_that_takes_over(bench):
    bench.begun()
    bench.clock.advance("1m")
    bench.worker("w2")

    explanation = bench.why()

    assert kinds(explanation) == ["session", "ready"]
    assert "worker w2" in explanation.blockers[1].text


def test_a_process_that_is_gone_is_known_at_once(bench):
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    bench.start()
    bench.worker("w1", slot=9, host=socket.gethostname(), pid=ended.pid)
    bench.claim()

    assert "which held it, is gone" in bench.why().reason
