"""Conformance of managed flows: creation, changes, cancellation, waits and pruning."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from holdfast.core.flows import model as flow_model
from holdfast.core.flows.model import FlowRecord, FlowStatus, FlowStepRecord, FlowStepStatus
from holdfast.errors import (
    FlowCancelPending,
    FlowChanged,
    FlowExists,
    FlowFinished,
    FlowNotFound,
    FlowNotYours,
    IllegalMove,
)
from holdfast.store.flows.operations import (
    AppendFlowEvent,
    CreateFlow,
    DeliverFlowEvent,
    DeliverToFlows,
    FlowsWoken,
    MoveFlow,
    ObserveFlowStep,
    PruneFlows,
    WakeFlows,
)
from holdfast.store.store import Store
from holdfast.testing.conformance.fixture import MINUTE, HandClock, StoreFixture
from holdfast.testing.conformance.reading import BROKEN


class FlowConformance(StoreFixture):
    """A flow changes by valid actions of its owner only, and each change is recorded."""

    def create_flow(
        self, store: Store, flow_id: str = "f1", *, start: bool = True, **options: Any
    ) -> FlowRecord:
        fields = {
            "id": flow_id,
            "namespace": "default",
            "controller": "research",
            "goal": "find it",
            "owner": "anna",
            "requester": "",
            "current_step": "init",
            "state": b"{}",
            "status": FlowStatus.CREATED,
            "created_at": 0,
            "updated_at": 0,
            **options,
        }
        made: FlowRecord = self.do(store, CreateFlow(FlowRecord(**fields), start))
        return made

    def act(
        self, store: Store, action: flow_model.FlowAction, flow_id: str = "f1", **options: Any
    ) -> FlowRecord:
        moved: FlowRecord = self.do(
            store, MoveFlow(flow_id=flow_id, namespace="default", action=action, **options)
        )
        return moved

    def stored_flow(self, store: Store, flow_id: str = "f1") -> FlowRecord:
        flow = store.flows.get(flow_id)
        assert flow is not None
        return flow

    def trail(self, store: Store, flow_id: str = "f1") -> list[str]:
        return [event.kind for event in reversed(store.flows.events(flow_id, 100))]

    def test_a_flow_is_created_with_its_first_line(self, store: Store, clock: HandClock) -> None:
        made = self.create_flow(store, start=False)

        assert made == self.stored_flow(store)
        assert (made.status, made.revision, made.created_at) == (FlowStatus.CREATED, 0, clock.now())
        assert self.trail(store) == ["created"]

    def test_a_flow_can_be_created_running(self, store: Store) -> None:
        made = self.create_flow(store)

        assert (made.status, made.revision) == (FlowStatus.RUNNING, 1)
        assert self.trail(store) == ["created", "started"]

    def test_an_id_belongs_to_one_flow(self, store: Store) -> None:
        self.create_flow(store)

        with pytest.raises(FlowExists):
            self.create_flow(store, goal="another")
        assert self.stored_flow(store).goal == "find it"
        assert self.trail(store) == ["created", "started"]

    def test_each_change_of_a_flow_is_recorded_and_counted(
        self, store: Store, clock: HandClock
    ) -> None:
        self.create_flow(store)
        clock.move(MINUTE)
        self.act(store, flow_model.AdvanceFlow(b'{"a":1}', "search"))
        self.act(store, flow_model.WaitFlow(flow_model.ManualWait()))
        self.act(store, flow_model.ResumeFlow(b'{"b":2}'))
        done = self.act(store, flow_model.FinishFlow(b'{"a":3}'))

        assert done == self.stored_flow(store)
        assert msgspec.json.decode(done.state) == {"a": 3, "b": 2}
        assert (done.revision, done.current_step, done.updated_at) == (5, "search", clock.now())
        assert self.trail(store) == [
            "created",
            "started",
            "advanced",
            "waiting",
            "resumed",
            "finished",
        ]

    def test_the_description_of_a_flow_can_change(self, store: Store, clock: HandClock) -> None:
        self.create_flow(store)
        clock.move(MINUTE)

        changed = self.act(store, flow_model.SetFlow(goal="find two", owner="bert"), revision=1)

        assert changed == self.stored_flow(store)
        assert (changed.goal, changed.owner, changed.controller) == ("find two", "bert", "research")
        assert (changed.revision, changed.updated_at) == (2, clock.now())
        (event, *_) = store.flows.events("f1", 1)
        assert (event.kind, event.payload) == ("changed", b'{"goal":"find two","owner":"bert"}')
        assert self.act(store, flow_model.SetFlow(goal="find two")) == changed
        with pytest.raises(FlowChanged):
            self.act(store, flow_model.SetFlow(goal="find none"), revision=1)
        self.act(store, flow_model.CancelFlow())
        with pytest.raises(FlowFinished):
            self.act(store, flow_model.SetFlow(goal="find none"))
        assert store.check() == []

    def test_a_program_appends_lines_of_its_own(self, store: Store) -> None:
        self.create_flow(store)
        before = self.stored_flow(store)
        op = AppendFlowEvent(flow_id="f1", namespace="default", kind="asked", payload=b'{"n":1}')

        line = self.do(store, op)

        assert (line.seq, line.kind, line.payload, line.own) == (3, "asked", b'{"n":1}', True)
        assert store.flows.events("f1", 9)[0] == line
        assert [event.own for event in store.flows.events("f1", 9)] == [True, False, False]
        assert self.stored_flow(store) == before
        for refusal, options in (
            (FlowNotFound, {"flow_id": "f2"}),
            (FlowNotFound, {"namespace": "other"}),
            (FlowNotYours, {"owner": "bert"}),
        ):
            with pytest.raises(refusal):
                self.do(store, msgspec.structs.replace(op, **options))
        assert store.check() == []

    def test_steps_are_found_by_the_id_of_their_run(self, store: Store) -> None:
        for flow_id, namespace in (("f1", "default"), ("f2", "default"), ("f3", "other")):
            self.create_flow(store, flow_id, namespace=namespace)
            step = FlowStepRecord(
                flow_id=flow_id, run_id="j1", task="ask", status=FlowStepStatus.RUNNING
            )
            self.do(store, ObserveFlowStep(step=step, namespace=namespace))

        step_of_flow = store.flows.step("f1", "j1")
        assert step_of_flow is not None
        assert (step_of_flow.flow_id, step_of_flow.task) == ("f1", "ask")
        assert store.flows.step("f1", "j2") is None
        steps = store.flows.steps_of_run("j1", "default")
        assert [step.flow_id for step in steps] == ["f1", "f2"]
        assert store.flows.steps_of_run("j1", "default", "bert") == []
        assert store.flows.steps_of_run("j2", "default") == []

    def test_an_event_reaches_all_flows_that_wait_for_it(self, store: Store) -> None:
        for flow_id, topic in (("f1", "paid"), ("f2", "paid"), ("f3", "sent"), ("f4", "paid")):
            self.create_flow(store, flow_id, namespace="other" if flow_id == "f4" else "default")
            op = MoveFlow(
                flow_id=flow_id,
                namespace="other" if flow_id == "f4" else "default",
                action=flow_model.WaitFlow(flow_model.EventWait(topic, "7")),
            )
            self.do(store, op)
        deliver = DeliverToFlows(
            namespace="default", topic="paid", correlation="7", payload=b"1", limit=1
        )

        resumed = [self.do(store, deliver) for _ in range(3)]

        assert [[flow.id for flow in flows] for flows in resumed] == [["f1"], ["f2"], []]
        assert msgspec.json.decode(resumed[0][0].state) == {"resume_event": 1}
        statuses = [self.stored_flow(store, f"f{number}").status for number in (3, 4)]
        assert statuses == [FlowStatus.WAITING, FlowStatus.WAITING]
        assert store.check() == []

    def test_a_flow_that_was_asked_to_stop_gets_no_event(self, store: Store) -> None:
        self.create_flow(store)
        self.act(store, flow_model.WaitFlow(flow_model.EventWait("paid", "7")))
        self.act(store, flow_model.RequestFlowCancel())

        op = DeliverToFlows(namespace="default", topic="paid", correlation="7")
        assert self.do(store, op) == []

    def test_a_flow_changes_when_the_caller_has_committed(self, store: Store) -> None:
        self.create_flow(store)
        op = MoveFlow(flow_id="f1", namespace="default", action=flow_model.AdvanceFlow(b'{"a":1}'))
        with self.transaction(store) as connection:
            moved = store.apply_within(connection, op)
            assert moved.revision == 2
            assert self.stored_flow(store).revision == 1

        assert self.stored_flow(store) == moved
        assert self.trail(store) == ["created", "started", "advanced"]
        with pytest.raises(KeyError), self.transaction(store) as connection:
            store.apply_within(connection, op)
            raise KeyError
        assert self.stored_flow(store) == moved
        assert store.check() == []

    def test_a_refused_change_leaves_the_transaction_of_the_caller_usable(
        self, store: Store
    ) -> None:
        self.create_flow(store)
        op = MoveFlow(flow_id="f1", namespace="default", action=flow_model.CancelFlow(), revision=9)
        with self.transaction(store) as connection:
            with pytest.raises(FlowChanged):
                store.apply_within(connection, op)
            store.apply_within(connection, msgspec.structs.replace(op, revision=1))

        assert self.stored_flow(store).status is FlowStatus.CANCELLED

    def test_a_refused_action_changes_nothing(self, store: Store) -> None:
        self.create_flow(store, start=False)

        with pytest.raises(IllegalMove):
            self.act(store, flow_model.FinishFlow())
        assert self.trail(store) == ["created"]
        assert self.stored_flow(store).revision == 0

    def test_an_expected_revision_is_checked(self, store: Store) -> None:
        self.create_flow(store)
        self.act(store, flow_model.AdvanceFlow(b"{}"), revision=1)

        with pytest.raises(FlowChanged) as refused:
            self.act(store, flow_model.AdvanceFlow(b"{}"), revision=1)
        assert refused.value.facts == {"flow": "f1", "expected": 1, "actual": 2}

    def test_flows_are_hidden_from_other_namespaces_and_protected_from_other_owners(
        self, store: Store
    ) -> None:
        self.create_flow(store)

        with pytest.raises(FlowNotYours):
            self.act(store, flow_model.CancelFlow(), owner="ben")
        with pytest.raises(FlowNotFound):
            self.do(
                store, MoveFlow(flow_id="f1", namespace="other", action=flow_model.CancelFlow())
            )
        with pytest.raises(FlowNotFound):
            self.act(store, flow_model.CancelFlow(), "f2")
        assert (
            self.do(
                store, DeliverFlowEvent(flow_id="f1", namespace="other", topic="t", correlation="c")
            )
            is None
        )
        assert self.act(store, flow_model.CancelFlow(), owner="anna").status is FlowStatus.CANCELLED

    def test_after_a_request_to_cancel_nothing_else_happens(self, store: Store) -> None:
        self.create_flow(store)
        self.act(store, flow_model.RequestFlowCancel())
        again = self.act(store, flow_model.RequestFlowCancel())

        assert again.cancel_requested
        assert again.revision == 2
        with pytest.raises(FlowCancelPending):
            self.act(store, flow_model.AdvanceFlow(b"{}"))
        self.act(store, flow_model.CancelFlow())
        with pytest.raises(FlowFinished):
            self.act(store, flow_model.CancelFlow())
        assert self.trail(store) == ["created", "started", "cancel_requested", "cancelled"]

    def test_an_event_resumes_only_the_flow_that_waits_for_it(self, store: Store) -> None:
        self.create_flow(store)
        self.act(store, flow_model.WaitFlow(flow_model.EventWait("invoice", "77")))
        wrong = DeliverFlowEvent(
            flow_id="f1", namespace="default", topic="invoice", correlation="78"
        )
        right = DeliverFlowEvent(
            flow_id="f1", namespace="default", topic="invoice", correlation="77", payload=b'{"x":1}'
        )

        assert self.do(store, wrong) is None
        resumed = self.do(store, right)
        assert resumed.status is FlowStatus.RUNNING
        assert msgspec.json.decode(resumed.state) == {"resume_event": {"x": 1}}
        assert self.do(store, right) is None
        assert self.stored_flow(store).wait is None

    def test_waking_flows_resumes_due_flows_and_cancels_flows_asked_to_stop(
        self, store: Store, clock: HandClock
    ) -> None:
        for name in ("f1", "f2", "f3"):
            self.create_flow(store, name)
        self.act(store, flow_model.WaitFlow(flow_model.TimerWait(clock.now() + MINUTE)), "f1")
        self.act(store, flow_model.WaitFlow(flow_model.TimerWait(clock.now() + 2 * MINUTE)), "f2")
        self.act(store, flow_model.WaitFlow(flow_model.ManualWait()), "f3")

        assert store.flows.next_due() == clock.now() + MINUTE
        assert self.do(store, WakeFlows()) == FlowsWoken(resumed=0, cancelled=0, more=False)
        self.act(store, flow_model.RequestFlowCancel(), "f3")
        assert store.flows.next_due() == clock.now()
        clock.move(MINUTE)
        assert self.do(store, WakeFlows()) == FlowsWoken(resumed=1, cancelled=1, more=False)
        assert [self.stored_flow(store, name).status for name in ("f1", "f2", "f3")] == [
            "running",
            "waiting",
            "cancelled",
        ]
        assert store.flows.next_due() == clock.now() + MINUTE

    def test_steps_are_noted_new_or_changed_also_after_the_end(
        self, store: Store, clock: HandClock
    ) -> None:
        self.create_flow(store)
        first = FlowStepRecord(
            flow_id="f1",
            run_id="r",
            task="look",
            status=FlowStepStatus.RUNNING,
            child_session="s",
            result=b"1",
        )
        self.do(store, ObserveFlowStep(step=first, namespace="default"))
        self.act(store, flow_model.FinishFlow())
        clock.move(MINUTE)
        then = FlowStepRecord(
            flow_id="f1", run_id="r", task="look!", status=FlowStepStatus.SUCCEEDED
        )
        kept = self.do(store, ObserveFlowStep(step=then, namespace="default"))

        assert store.flows.steps("f1") == [kept]
        assert (kept.task, kept.status, kept.child_session, kept.result) == (
            "look!",
            "succeeded",
            "s",
            None,
        )
        assert kept.updated_at - kept.created_at == MINUTE
        assert self.stored_flow(store).revision == 2
        assert self.trail(store)[-2:] == ["finished", "step_observed"]

    def test_flows_are_listed_by_owner_and_by_status(self, store: Store, clock: HandClock) -> None:
        for number in range(4):
            clock.move(MINUTE)
            self.create_flow(
                store, f"f{number}", owner="anna" if number % 2 else "ben", start=number > 0
            )
        self.create_flow(store, "g", namespace="other")

        assert [flow.id for flow in store.flows.find("default", owner="anna")] == ["f3", "f1"]
        assert [flow.id for flow in store.flows.find("default", owner="anna", before="f3")] == [
            "f1"
        ]
        assert [flow.id for flow in store.flows.find("default", status="running")] == [
            "f1",
            "f2",
            "f3",
        ]
        assert [flow.id for flow in store.flows.find("default", status="running", owner="ben")] == [
            "f2"
        ]
        assert [flow.id for flow in store.flows.find("default", limit=2)] == ["f3", "f2"]
        assert [flow.id for flow in store.flows.find("default", before="f2")] == ["f1", "f0"]
        assert [
            flow.id for flow in store.flows.find("default", status="running", before="f1", limit=1)
        ] == ["f2"]
        assert [
            flow.id for flow in store.flows.find("default", status="running", owner="ben", limit=1)
        ] == ["f2"]
        assert store.flows.find("default", limit=-1) == []

    def test_only_flows_that_ended_long_ago_are_pruned(
        self, store: Store, clock: HandClock
    ) -> None:
        for name in ("old", "open", "new"):
            self.create_flow(store, name)
        self.act(store, flow_model.FinishFlow(), "old")
        clock.move(MINUTE)
        self.act(store, flow_model.FinishFlow(), "new")

        assert self.do(store, PruneFlows(clock.now(), "other")) == 0
        assert self.do(store, PruneFlows(clock.now(), "default")) == 1
        assert [flow.id for flow in store.flows.find("default", owner="anna")] == ["open", "new"]
        assert store.flows.events("old", 10) == []


def _broken(status: str, wait: str, revision: int = -1, awaits: str = "NULL") -> str:
    columns = (
        "id, namespace, controller, goal, owner, requester, current_step, state, wait, awaits,"
        " status, revision"
    )
    values = (
        f"'f', 'n', 'c', 'g', 'o', '', 's', '{{}}', {wait}, {awaits}, '{status}', {revision}, 1, 1"
    )
    return f"INSERT INTO holdfast.flow ({columns}, created_at, updated_at) VALUES ({values})"


BROKEN |= {
    "an_ended_flow_has_no_wait_and_no_wake_time": _broken("failed", "'{}'"),
    "only_a_waiting_flow_awaits_an_event": _broken("running", "NULL", awaits="'[]'"),
    "a_flow_has_a_wait_exactly_if_it_is_waiting": _broken("waiting", "NULL"),
    "the_revision_of_a_flow_matches_its_audit_trail": _broken("running", "NULL", revision=3),
}
