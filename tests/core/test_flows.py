"""What may follow what in a managed flow, and in which order it is refused."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.flows import model as flow_model
from holdfast.core.flows import rules as f
from holdfast.core.flows.model import FlowStatus
from holdfast.core.why.flows import explain_flow
from holdfast.errors import BadFlowPatch, BadFlowWait, FlowCancelPending, FlowFinished, IllegalMove

START, CANCEL, ASK = flow_model.StartFlow(), flow_model.CancelFlow(), flow_model.RequestFlowCancel()
WAIT, RESUME, FINISH = (
    flow_model.WaitFlow(flow_model.ManualWait()),
    flow_model.ResumeFlow(),
    flow_model.FinishFlow(),
)
FAIL, ADVANCE = flow_model.FailFlow("no"), flow_model.AdvanceFlow(b"{}")

LEADS_TO = {
    START: "running",
    WAIT: "waiting",
    RESUME: "running",
    FINISH: "finished",
    FAIL: "failed",
    CANCEL: "cancelled",
}
ALLOWED = {
    ("created", START),
    ("created", CANCEL),
    ("running", WAIT),
    ("running", FINISH),
    ("running", FAIL),
    ("running", CANCEL),
    ("waiting", RESUME),
    ("waiting", FAIL),
    ("waiting", CANCEL),
}
OPEN = ("created", "running", "waiting")
ENDED = ("finished", "failed", "cancelled")


def flow(status: str = "running", **options: Any) -> flow_model.FlowRecord:
    given: dict[str, Any] = {
        "id": "f",
        "namespace": "n",
        "controller": "c",
        "goal": "g",
        "owner": "o",
        "requester": "",
        "current_step": "init",
        "state": b"{}",
        "status": FlowStatus(status),
        "created_at": 1,
        "updated_at": 1,
        "wait": b'{"kind":"manual"}' if status == "waiting" else None,
    }
    return flow_model.FlowRecord(**given | options)


def acted(
    before: flow_model.FlowRecord, action: flow_model.FlowAction, now: int = 5
) -> flow_model.FlowMoved:
    outcome = f.act(before, action, now)
    assert outcome is not None
    return outcome


@pytest.mark.parametrize("action", LEADS_TO, ids=lambda action: type(action).__name__)
@pytest.mark.parametrize("status", OPEN)
def test_the_graph_of_moves(status: str, action: flow_model.FlowAction) -> None:
    if (status, action) in ALLOWED:
        assert acted(flow(status), action).flow.status == LEADS_TO[action]
    else:
        with pytest.raises(IllegalMove) as refused:
            f.act(flow(status), action, 5)
        possible = ", ".join(
            to
            for to in FlowStatus
            if to in {LEADS_TO[one] for was, one in ALLOWED if was == status}
        )
        assert refused.value.facts == {
            "flow": "f",
            "status": status,
            "to": LEADS_TO[action],
            "possible": possible,
        }


@pytest.mark.parametrize("action", [*LEADS_TO, ADVANCE], ids=lambda action: type(action).__name__)
@pytest.mark.parametrize("status", ENDED)
def test_first_of_all_what_has_ended_stays_as_it_is(
    status: str, action: flow_model.FlowAction
) -> None:
    with pytest.raises(FlowFinished):
        f.act(flow(status, cancel_requested=True), action, 5)


@pytest.mark.parametrize("action", [*LEADS_TO, ADVANCE], ids=lambda action: type(action).__name__)
@pytest.mark.parametrize("status", OPEN)
def test_second_what_was_asked_to_stop_can_only_be_cancelled(
    status: str, action: flow_model.FlowAction
) -> None:
    asked = flow(status, cancel_requested=True)
    if action == CANCEL:
        assert acted(asked, action).flow.status == "cancelled"
    else:
        with pytest.raises(FlowCancelPending):
            f.act(asked, action, 5)


@pytest.mark.parametrize("status", OPEN)
def test_a_request_to_stop_sticks(status: str) -> None:
    asked = acted(flow(status), ASK).flow

    assert (asked.cancel_requested, asked.status, asked.revision) == (True, status, 1)
    assert f.act(asked, ASK, 6) is None


@pytest.mark.parametrize("status", ENDED)
def test_to_ask_what_has_ended_to_stop_changes_nothing(status: str) -> None:
    assert f.act(flow(status), ASK, 5) is None


@pytest.mark.parametrize("status", OPEN)
def test_the_state_can_change_whatever_is_going_on(status: str) -> None:
    after = acted(
        flow(status, state=b'{"a":{"x":1},"b":1}'), flow_model.AdvanceFlow(b'{"a":{"y":2}}', "next")
    )

    assert msgspec.json.decode(after.flow.state) == {"a": {"y": 2}, "b": 1}
    assert (after.flow.current_step, after.flow.status, after.flow.revision) == ("next", status, 1)
    assert msgspec.to_builtins(after.kind) == "advanced"


def test_a_failure_is_kept_in_the_state() -> None:
    after = acted(flow(state=b'{"a":1}'), flow_model.FailFlow("no vendor"), now=7).flow

    assert msgspec.json.decode(after.state) == {"a": 1, "failure": {"reason": "no vendor", "at": 7}}


@pytest.mark.parametrize(
    ("state", "patch"),
    [(b"[1]", b'{"a":1}'), (b'{"a":1}', b"[1]"), (b'{"a":1}', b"null"), (b"1", b'"x"')],
)
def test_what_is_no_object_takes_the_place_of_the_state(state: bytes, patch: bytes) -> None:
    assert msgspec.json.decode(f.merge_patch(state, patch)) == msgspec.json.decode(patch)


def test_no_patch_changes_nothing_and_a_broken_one_is_refused() -> None:
    assert f.merge_patch(b'{"a":1}', None) == b'{"a":1}'
    with pytest.raises(BadFlowPatch):
        f.merge_patch(b"{}", b"{nonsense")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=3),
    lambda below: st.lists(below, max_size=3),
)


@given(st.dictionaries(st.text(max_size=3), JSON), st.dictionaries(st.text(max_size=3), JSON))
def test_objects_are_merged_at_the_top(state: dict[str, Any], patch: dict[str, Any]) -> None:
    merged = f.merge_patch(msgspec.json.encode(state), msgspec.json.encode(patch))

    assert msgspec.json.decode(merged) == {**state, **patch}


@given(st.lists(st.sampled_from([*LEADS_TO, ADVANCE, ASK]), max_size=12))
def test_the_revision_counts_what_was_done(actions: list[flow_model.FlowAction]) -> None:
    now, done = flow("created"), 0
    for action in actions:
        try:
            outcome = f.act(now, action, 5)
        except (FlowFinished, FlowCancelPending, IllegalMove):
            continue
        done += outcome is not None
        now = now if outcome is None else outcome.flow
        assert (now.status == "waiting") == (now.wait is not None)
    assert now.revision == done


def test_time_moves_only_what_waits() -> None:
    timer = msgspec.json.encode(flow_model.TimerWait(10))

    assert f.due(flow("waiting", wait=timer), 9) is None
    assert f.due(flow("waiting", wait=timer), 10) == RESUME
    assert f.due(flow("waiting", wait=timer, cancel_requested=True), 9) == CANCEL
    assert f.due(flow("running", cancel_requested=True), 9) is None
    assert f.due(flow("waiting", wait=b'{"kind":"moon"}'), 99) is None


def test_an_event_must_match_exactly() -> None:
    waiting = flow("waiting", wait=msgspec.json.encode(flow_model.EventWait("invoice", "7")))

    assert f.answers(waiting, "invoice", "7")
    assert not f.answers(waiting, "invoice", "8")
    assert not f.answers(waiting, "Invoice", "7")
    assert not f.answers(flow("running"), "invoice", "7")


@pytest.mark.parametrize(
    ("wait", "horizon", "field"),
    [
        (flow_model.TimerWait(100), None, "at"),
        (flow_model.TimerWait(99), None, "at"),
        (flow_model.TimerWait(111), 10, "at"),
        (flow_model.EventWait(" ", "7"), None, "topic"),
        (flow_model.EventWait("invoice", ""), None, "correlation"),
    ],
)
def test_a_wait_that_cannot_end_well_is_refused(
    wait: flow_model.FlowWait, horizon: int | None, field: str
) -> None:
    with pytest.raises(BadFlowWait) as refused:
        f.checked_wait(wait, 100, horizon)
    assert refused.value.facts["field"] == field


TIMER, EVENT = (
    b'{"kind":"timer","at":3600000001}',
    b'{"kind":"external_event","topic":"an invoice","correlation":"7"}',
)


@pytest.mark.parametrize(
    ("found", "told", "remedy"),
    [
        (flow("created"), "it was not started yet", "holdfast flows start f"),
        (flow("running"), "the program that drives it is at 'init'", None),
        (flow("running", cancel_requested=True), "must cancel it", "holdfast flows cancel f"),
        (flow("waiting", cancel_requested=True), "a worker cancels it", "holdfast flows cancel f"),
        (flow("waiting"), "an operator to resume it", "holdfast flows resume f"),
        (flow("waiting", wait=TIMER), "(in 1h)", "holdfast flows resume f"),
        (
            flow("waiting", wait=b'{"kind":"timer","at":1}'),
            "its time has come",
            "holdfast flows resume f",
        ),
        (
            flow("waiting", wait=EVENT),
            "'an invoice' about '7'",
            "holdfast flows deliver f 'an invoice' 7",
        ),
        (flow("failed"), "it has ended", None),
    ],
)
def test_what_a_flow_waits_for_is_told_with_what_ends_it(
    found: flow_model.FlowRecord, told: str, remedy: str | None
) -> None:
    found.namespace = "default"
    why = explain_flow(found, 1)
    assert told in why.reason
    assert why.remedy == remedy


def test_the_command_names_the_namespace() -> None:
    assert explain_flow(flow("created"), 1).remedy == "holdfast --namespace n flows start f"
