"""The timeline of a run: rows in time, folded and unfolded."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from holdfast.core.events import Event, EventKind, EventRole, compensation_of
from holdfast.core.runs import RunRecord
from holdfast.core.status import Status
from holdfast.errors import BadOption, StepNotFound
from holdfast.views import runs, timeline
from holdfast.views.events import history_of

START = 1_794_916_800_000_000
NOON = datetime(2026, 11, 17, 12, tzinfo=UTC)
SECOND = 1_000_000
ERROR = b'{"type":"ValueError","message":"no route"}'


def run(status=Status.RUNNING, **fields):
    record = RunRecord(
        id="r1",
        namespace="default",
        workflow="checkout",
        version="1",
        lane="default",
        capabilities=(),
        status=status,
        priority=0,
        input=b"[]",
        generation=1,
        revision=0,
        crashes=0,
        created_at=START,
        started_at=START,
        **fields,
    )
    return runs.of(record)


def history(*events):
    """Return events one second apart; each has begun half a second before it was recorded."""
    for number, event in enumerate(events, start=1):
        event.seq = number
        event.at = START + number * SECOND
        if event.started_at is None and event.kind.startswith("step_"):
            event.started_at = event.at - SECOND // 2
    return list(events)


def done(step, **fields):
    return Event(EventKind.STEP_COMPLETED, step, b"1", **fields)


def rows(*events, of=None, **options):
    page = timeline.of(of or run(), history(*events), NOON, **options)
    return {row.id: row for row in page.rows}


def test_failed_attempts_come_before_the_successful_one():
    found = rows(
        Event(EventKind.STEP_RETRIED, "charge", b'{"until":1}', ERROR),
        done("charge", attempt=2),
    )

    (charge,) = found.values()
    assert (charge.state, charge.attempt, charge.kind) == ("completed", 2, "step")
    assert charge.started_at == NOON + timedelta(seconds=0.5)
    (failed,) = charge.attempts
    assert (failed.number, failed.state, failed.error) == (1, "failed", "ValueError: no route")
    assert failed.ended_at < charge.ended_at


def test_every_kind_of_step_has_a_row_of_its_kind():
    found = rows(
        Event(EventKind.TIMER_SET, "sleep", b'{"until":1}'),
        Event(EventKind.TIMER_FIRED, "sleep"),
        Event(EventKind.GATE_OPENED, "gate Ship it?", b'{"prompt":"Ship it?","gate":"g1"}'),
        Event(EventKind.CHILD_STARTED, "run pay", b'{"run":"r2","workflow":"pay"}'),
        Event(EventKind.CHILD_ENDED, "run pay end", b"5"),
        Event(EventKind.MAP_STARTED, "map pack", b'{"count":4,"workflow":"pack"}'),
        Event(EventKind.SIGNAL_AWAITED, "signal paid", b'{"until":null}'),
        Event(EventKind.MESSAGE_AWAITED, "order", b'{"name":"order"}'),
        Event(EventKind.INCIDENT_RAISED, "large!1", b'{"element":"large"}', ERROR),
    )

    assert [row.kind for row in found.values()] == [
        *("sleep", "gate", "child", "map", "signal", "wait", "incident")
    ]
    assert found["large!1"].state == "waiting"
    assert found["run pay"].run == "r2" and found["run pay"].state == "completed"
    assert found["map pack"].count == 4 and found["map pack"].opens
    assert found["gate Ship it?"].state == "waiting" and found["gate Ship it?"].ended_at is None


def test_a_lost_worker_and_the_gap_until_the_takeover_are_a_row():
    found = rows(
        Event(EventKind.STEP_STARTED, "pack"),
        Event(EventKind.LEASE_LOST, None, b'{"session":"s1","worker":"w1"}'),
        done("pack"),
    )

    crash = found["event 2"]
    assert (crash.kind, crash.state, crash.worker) == ("crash", "lost", "w1")
    assert crash.started_at == NOON + timedelta(seconds=2)
    assert crash.ended_at == NOON + timedelta(seconds=2.5)
    (lost,) = found["pack"].attempts
    assert (lost.state, lost.ended_at) == ("lost", crash.started_at)


def test_a_run_that_no_worker_has_taken_over_shows_an_open_gap():
    found = rows(
        done("charge"), Event(EventKind.LEASE_LOST, None, b'{"session":"s1","worker":"w1"}')
    )

    assert found["event 2"].ended_at is None


def test_a_compensation_says_that_it_is_one():
    found = rows(done("charge"), done("undo refund", role=EventRole.COMPENSATION))

    assert found["undo refund"].state == "compensated"
    assert found["undo refund"].is_compensation and not found["charge"].is_compensation


def test_a_compensation_is_below_the_step_that_it_undoes():
    page = timeline.of(
        run(),
        history(
            done("charge"),
            done("pack"),
            done("undo unpack", role=compensation_of("pack")),
            done("undo refund", role=compensation_of("charge")),
            done("undo lost", role=compensation_of("gone")),
        ),
        NOON,
    )

    assert [(row.id, row.depth) for row in page.rows] == [
        ("charge", 0),
        ("undo refund", 1),
        ("pack", 0),
        ("undo unpack", 1),
        ("undo lost", 0),
    ]


def test_folded_calls_say_how_many_of_them_were_undone():
    calls = [done("charge"), *(done(f"charge#{number}") for number in range(2, 6))]
    undo = done("undo refund", role=compensation_of("charge#3"))

    found = rows(*calls, undo)
    below = rows(*calls, undo, open="charge#*")

    assert found["charge#*"].counts == {"completed": 5, "compensated": 1}
    assert list(below)[2:4] == ["charge#3", "undo refund"]


@pytest.mark.parametrize("undone", ["undo refund", "undo refund/inner", "", "charge of pack"])
def test_a_damaged_role_hides_no_row(undone):
    found = rows(
        done("charge"),
        done("undo refund", role=f"compensation of {undone}"),
        done("undo refund/inner"),
    )

    assert set(found) == {"charge", "undo refund", "undo refund/inner"}


def test_a_step_that_is_retried_for_months_shows_its_last_attempts():
    tries = [
        Event(EventKind.STEP_RETRIED, "poll", b'{"until":1}', ERROR, attempt=number)
        for number in range(1, 400)
    ]
    opened_events = []

    def opened(events):
        opened_events.extend(events)
        return history_of(events)

    found = rows(*tries, done("poll", attempt=400), opened=opened)

    assert [attempt.number for attempt in found["poll"].attempts] == list(range(350, 400))
    assert found["poll"].note == "400 attempts  → 1"
    assert len(opened_events) <= 3 * timeline.MOST_ATTEMPTS


def test_steps_that_were_not_finished_are_left():
    ended = run(Status.CANCELLED, finished_at=START + 9 * SECOND)

    found = rows(Event(EventKind.TIMER_SET, "sleep", b'{"until":1}'), of=ended)

    assert found["sleep"].state == "left"
    assert found["sleep"].ended_at == ended.finished_at


def test_events_that_a_replay_cancelled_have_no_row():
    found = rows(
        Event(EventKind.STEP_FAILED, "charge", error=ERROR),
        Event(EventKind.RUN_REPLAYED, None, b'{"void":[1]}'),
    )

    assert list(found) == ["event 2"]


def test_branches_contain_their_steps():
    found = rows(done("line/pack"), done("line/label"), done("line#2/pack"))

    assert [(row.id, row.depth) for row in found.values()] == [
        ("line", 0),
        ("line/pack", 1),
        ("line/label", 1),
        ("line#2", 0),
        ("line#2/pack", 1),
    ]
    assert found["line"].kind == "branch"


def loop(count):
    names = ["pack", *(f"pack#{number}" for number in range(2, count + 1))]
    return [done("charge"), *(done(name) for name in names), done("ship")]


def test_a_loop_is_one_row_that_can_be_unfolded():
    found = rows(*loop(20))

    assert list(found) == ["charge", "pack#*", "ship"]
    pack = found["pack#*"]
    assert (pack.count, pack.counts, pack.opens) == (20, {"completed": 20}, True)
    assert pack.started_at == NOON + timedelta(seconds=1.5)
    assert pack.ended_at == NOON + timedelta(seconds=21)


def test_folded_calls_show_the_state_that_matters_most():
    events = loop(20)
    events[7] = Event(EventKind.STEP_FAILED, "pack#7", error=ERROR)

    pack = rows(*events)["pack#*"]

    assert (pack.state, pack.counts) == ("failed", {"completed": 19, "failed": 1})


def test_the_pages_of_an_unfolded_loop_have_every_call_once():
    events = history(*loop(23))
    seen = []
    after = None

    while True:
        page = timeline.of(run(), events, NOON, open="pack#*", after=after, limit=10)
        seen += [row.id for row in page.rows]
        after = page.next
        if after is None:
            break

    assert seen == ["pack", *(f"pack#{number}" for number in range(2, 24))]


def test_a_long_history_is_folded_to_few_rows_and_opens_few_values():
    events = history(*loop(20_000))
    opened = []

    def count(some):
        opened.extend(some)
        return history_of(some)

    page = timeline.of(run(), events, NOON, opened=count)

    assert len(page.rows) == 3 and page.next is None
    assert page.events == 20_002
    assert len(opened) == 2


def test_a_history_of_many_names_has_pages_of_at_most_500_rows():
    events = history(*(done(f"step-{number}x") for number in range(1200)))

    first = timeline.of(run(), events, NOON)
    second = timeline.of(run(), events, NOON, after=first.next)

    assert len(first.rows) == len(second.rows) == 500
    assert second.rows[0].id == "step-500x"


def test_a_map_is_unfolded_into_its_children():
    started = Event(EventKind.MAP_STARTED, "map pack", b'{"count":3,"workflow":"pack"}')
    asked = []

    def children(step, first, limit):
        asked.append((step, first, limit))
        record = run()
        return [
            msgspec.structs.replace(record, id=f"c{index}", parent_index=index)
            for index in range(first, 3)
        ]

    page = timeline.of(run(), history(started), NOON, open="map pack", limit=2, children=children)
    rest = timeline.of(
        run(),
        history(started),
        NOON,
        open="map pack",
        limit=2,
        after=page.next,
        children=children,
    )

    assert [row.run for row in page.rows] == ["c0", "c1"]
    assert [row.run for row in rest.rows] == ["c2"] and rest.next is None
    assert asked == [("map pack", 0, 3), ("map pack", 2, 3)]


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"open": "nothing#*"}, StepNotFound),
        ({"open": "charge"}, StepNotFound),
        ({"open": "a/b/c"}, StepNotFound),
        ({"after": "nothing"}, StepNotFound),
        ({"open": "map x", "after": "map x[one]"}, StepNotFound),
        ({"limit": 0}, BadOption),
        ({"limit": 501}, BadOption),
    ],
)
def test_a_page_that_does_not_exist_is_refused(options, error):
    mapped = Event(EventKind.MAP_STARTED, "map x", b'{"count":3}')

    with pytest.raises(error):
        rows(done("charge"), mapped, **options)
