"""Runs that are being cancelled, are stuck, or have ended."""

from __future__ import annotations

import msgspec
import pytest

from holdfast.core.events import Event, EventKind, EventRole
from holdfast.core.sessions import Session
from holdfast.core.status import Status
from holdfast.service.why import why
from holdfast.store.runs.operations import EndSession, ExpireRuns, OpenSession, RequestCancel

SECOND = 1_000_000


def test_a_run_that_is_being_cancelled_says_what_it_undoes(bench):
    bench.begun()
    bench.do(RequestCancel("r1", "ordered twice"))
    bench.advance(
        "r1",
        Event(EventKind.CANCEL_REQUESTED, None, msgspec.json.encode({"reason": "ordered twice"})),
        Event(EventKind.STEP_COMPLETED, "undo pack", b"null", role=EventRole.COMPENSATION),
        Event(
            EventKind.STEP_STARTED,
            "undo charge",
            started_at=bench.clock.now(),
            role=EventRole.COMPENSATION,
        ),
    )

    found = bench.why()

    assert (
        found.reason
        == "it was asked to stop (ordered twice) and is undoing: undo charge; undone so far: undo"
        " pack"
    )
    assert "worker w1" in found.blockers[0].text
    assert found.blockers[-1].remedy == "holdfast cancel r1 --force"


def test_a_run_that_is_being_cancelled_with_no_worker_alive(bench):
    bench.begun()
    bench.park({"kind": "signal", "step": "s", "name": "paid", "until": None})
    bench.do(RequestCancel("r1", "enough"))
    bench.do(EndSession("session-w1", crashed=False))

    found = bench.why()

    assert found.status == "cancelling"
    assert "no worker is alive" in found.blockers[0].text
    assert found.remedy == "holdfast worker MODULE"


def stuck(bench, error):
    bench.begun()
    data = msgspec.json.encode(error)
    bench.advance(
        "r1", Event(EventKind.RUN_STUCK, error=data), status=Status.STUCK, error=data, release=True
    )
    return bench.why()


def test_diverged_code_says_where(bench):
    facts = {
        "step": "charge",
        "recorded": "step_completed charge (event 3)",
        "wanted": "RunStep bill",
        "where": "shop.py:7 in checkout",
    }

    found = stuck(bench, {"type": "Diverged", "message": "The code ...", "facts": facts})

    assert (
        "at step 'charge': recorded is step_completed charge (event 3), wanted is RunStep bill, at"
        " shop.py:7" in found.reason
    )
    assert found.remedy == "holdfast resume r1"
    assert found.blockers[1].remedy == "holdfast fork r1 --from charge"


def test_code_that_waits_for_nothing_says_so(bench):
    found = stuck(
        bench,
        {
            "type": "Diverged",
            "message": "m",
            "facts": {"why": "the workflow waits for what can never happen"},
        },
    )

    assert found.reason.endswith("the workflow waits for what can never happen")
    assert found.remedy == "holdfast resume r1"


def test_too_many_crashes(bench):
    bench.start()
    for _ in range(2):
        bench.worker()
        bench.claim()
        bench.do(EndSession("session-w1", crashed=True, limit=2))

    found = bench.why()

    assert found.status == "stuck"
    assert found.reason.startswith("its worker died 2 times in a row while it made no progress")
    assert found.remedy == "holdfast resume r1"


def test_malformed_data(bench):
    found = stuck(
        bench, {"type": "BadData", "message": "Stored data cannot be read. (value='the result')"}
    )

    assert (
        found.reason
        == "it cannot continue: BadData: Stored data cannot be read. (value='the result')"
    )
    assert found.remedy == "holdfast resume r1"


def test_a_completed_run_tells_its_result(bench):
    bench.begun()
    bench.advance(
        "r1", Event(EventKind.RUN_COMPLETED), status=Status.COMPLETED, result=b'{"paid":true}'
    )

    found = bench.why()

    assert found.reason == 'it completed with {"paid":true}'
    assert found.since == bench.clock.now()
    assert found.remedy == "holdfast replay r1"


def test_a_failed_run_tells_its_error_and_what_was_not_undone(bench):
    bench.begun()
    error = msgspec.json.encode(
        {"type": "ValueError", "message": "no\nmoney", "facts": {"undo_failed": ["undo pack"]}}
    )
    bench.advance("r1", Event(EventKind.RUN_FAILED, error=error), status=Status.FAILED, error=error)

    found = bench.why()

    assert found.reason == "it failed with ValueError: no money"
    assert "undo pack" in found.blockers[1].text
    assert found.remedy == "holdfast replay r1"


def test_a_cancelled_run_tells_the_reason(bench):
    bench.start()
    bench.do(RequestCancel("r1", "ordered twice"))

    assert bench.why().reason == "it was cancelled: ordered twice"


def test_an_expired_run_tells_its_deadline(bench):
    bench.start(deadline=bench.clock.now() + SECOND)
    bench.clock.advance("2s")
    bench.do(ExpireRuns())

    assert bench.why().reason == "it passed its deadline of 2026-01-01 00:00:01 UTC"


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
    run = msgspec.structs.replace(bench.store.runs.get("r1"), status=status)

    found = why(bench.store, run)

    assert found.reason == reason
    assert found.remedy == remedy


def test_a_holder_that_does_not_exist_is_a_broken_law(bench):
    bench.start()
    run = msgspec.structs.replace(
        bench.store.runs.get("r1"), status=Status.RUNNING, session_id="nobody"
    )

    assert why(bench.store, run).remedy == "holdfast db check"


def test_waits_and_offers_that_cannot_be_read_stop_nobody(bench):
    bench.start()
    now = bench.store.now()
    bench.do(
        OpenSession(
            Session(
                id="s",
                worker="old",
                host="h",
                pid=1,
                slot=-1,
                started_at=now,
                beat_at=now,
                expires_at=now + SECOND,
                serves=b"?",
            )
        )
    )
    run = msgspec.structs.replace(
        bench.store.runs.get("r1"), status=Status.WAITING, waits=b"not json", error=b"nor this"
    )

    assert why(bench.store, run).reason == "it waits"
    (finding,) = bench.store.check()
    assert "session: s, column serves" in finding

    bench.do(EndSession("s", crashed=False))
