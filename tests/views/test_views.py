"""Views have plain Python values, and their JSON is readable without them."""

import importlib
import pkgutil
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import get_type_hints

import msgspec
import pytest

import holdfast.views
from holdfast.core.budgets.model import Budget, BudgetLine
from holdfast.core.events import Event, EventKind
from holdfast.core.retention import RetentionRule
from holdfast.core.runs import RunRecord
from holdfast.core.status import Status
from holdfast.core.subscriptions import KINDS
from holdfast.views import budgets, events, history, retention, runs, steps, values

NOON = datetime(2026, 11, 17, 12, tzinfo=UTC)
MICROS = 1_794_916_800_000_000


def structs():
    for module in pkgutil.iter_modules(holdfast.views.__path__):
        loaded = importlib.import_module(f"holdfast.views.{module.name}")
        for value in vars(loaded).values():
            is_struct = isinstance(value, type) and issubclass(value, msgspec.Struct)
            if is_struct and value.__module__ == loaded.__name__:
                yield value


def run(**fields):
    return RunRecord(
        id="r1",
        namespace="default",
        workflow="checkout",
        version="1",
        lane="default",
        capabilities=(),
        status=Status.WAITING,
        priority=0,
        input=b"[1]",
        generation=1,
        revision=0,
        crashes=0,
        created_at=MICROS,
        **fields,
    )


@pytest.mark.parametrize("struct", list(structs()), ids=lambda struct: struct.__name__)
def test_a_view_has_no_bytes_and_names_its_times_by_their_type(struct):
    hints = get_type_hints(struct)

    assert not [name for name, hint in hints.items() if hint is not int and "bytes" in str(hint)]
    times = [name for name in hints if name.endswith("_at") or name in ("at", "until", "deadline")]
    assert not [name for name in times if "int" in str(hints[name]).split("|")[0]]
    assert struct.__name__.endswith("View")


def test_every_kind_of_event_has_a_text():
    assert set(history.TEXTS) == set(KINDS)


@pytest.mark.parametrize("kind", sorted(KINDS))
@pytest.mark.parametrize("data", [None, b'"<encrypted>"', b"{}", b"[]"])
def test_the_text_of_an_event_needs_no_particular_data(kind, data):
    line = history.line_of(events.of(Event(kind, step="s", data=data)))

    assert "\n" not in line


def test_a_run_has_decoded_values_and_times_in_utc():
    waits = b'[{"kind":"timer","step":"nap","until":1794916800000000}]'

    view = runs.of(run(waits=waits, result=b'{"ok":true}', error=b'{"type":"E","message":"no"}'))

    assert (view.input, view.result, view.error.message) == ([1], {"ok": True}, "no")
    assert view.created_at == NOON
    assert view.waits == [{"kind": "timer", "step": "nap", "until": NOON}]


def test_a_value_that_is_not_json_is_shown_as_text():
    view = runs.of(run(result=b"\xff\x00", error=b"oops"))

    assert (view.result, view.error.message) == ("\\xff\x00", "oops")


def test_times_in_payloads_of_users_are_not_touched():
    data = b'{"signals":[{"name":"paid","at":1794916800000000,"payload":{"at":5,"until":7}}]}'

    (signal,) = events.of(Event(EventKind.WAIT_SATISFIED, "w", data)).data["signals"]

    assert signal == {"name": "paid", "at": NOON, "payload": {"at": 5, "until": 7}}


def test_amounts_are_decimals_in_python_and_numbers_in_json():
    lines = [
        BudgetLine(budget="b", dimension="tokens", hard=1000_000_000, used=20_000_000),
        BudgetLine(budget="b", dimension="money", used=1_250_000),
    ]

    view = budgets.of(Budget(name="b", lines=lines))

    assert view.dimensions["money"].used == Decimal("1.25")
    shown = msgspec.json.decode(values.as_json(view.dimensions))
    assert shown["tokens"] == {"used": 20, "reserved": 0, "soft": None, "hard": 1000}
    assert shown["money"]["used"] == 1.25


def test_durations_are_timedeltas_in_python_and_iso_8601_in_json():
    view = retention.of(RetentionRule(name="old", older_than=30 * 86_400_000_000))

    assert view.older_than == timedelta(days=30)
    assert b'"older_than":"P30D"' in values.as_json(view)


def test_the_steps_of_a_run_tell_their_state_attempts_and_results():
    recorded = [
        Event(EventKind.STEP_STARTED, "charge", at=MICROS, seq=1),
        Event(EventKind.STEP_RETRIED, "charge", error=b'{"type":"E","message":"1"}', seq=2),
        Event(EventKind.STEP_COMPLETED, "charge", b'"ok"', attempt=2, at=MICROS + 5, seq=3),
        Event(EventKind.STEP_FAILED, "a/pack", error=b'{"type":"E","message":"2"}', seq=4),
        Event(EventKind.TIMER_SET, "nap", b'{"until":1794916800000000}', seq=5),
        Event(EventKind.RUN_STUCK, error=b'{"type":"E","message":"3"}', seq=6),
    ]

    charge, pack, nap = steps.of(events.history_of(recorded))

    assert (charge.status, charge.attempts, charge.result) == ("completed", 2, "ok")
    assert (charge.started_at, charge.finished_at) == (NOON, NOON + timedelta(microseconds=5))
    assert (pack.name, pack.status, pack.error.message) == ("pack", "failed", "2")
    assert (nap.status, nap.finished_at, nap.result) == ("waiting", None, None)


def test_events_that_a_replay_cancelled_are_void_and_not_drawn():
    recorded = [
        Event(EventKind.STEP_FAILED, "charge", error=b'{"type":"E","message":"no"}', seq=1),
        Event(EventKind.RUN_REPLAYED, None, b'{"void":[1]}', seq=2),
    ]

    views = events.history_of(recorded)

    assert [view.void for view in views] == [True, False]
    lines = history.trees(runs.of(run()), recorded, NOON, lambda run_id, step: [])
    assert [line.text for line in lines] == ["· run replayed: 1 earlier events no longer count"]
