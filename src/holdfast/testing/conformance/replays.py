"""Conformance of replays: a run and its children are replayed in one transaction or not at all."""

from __future__ import annotations

import msgspec
import pytest

from holdfast.core.events import EventKind
from holdfast.core.runs import Fanout, RunRecord
from holdfast.core.status import Status
from holdfast.errors import RunChanged, RunNotFinished, RunNotFound
from holdfast.store.runs.operations import ReplayRun, ReplayRuns, RequestCancel, StartChildren
from holdfast.store.store import Store
from holdfast.testing.conformance.fixture import StoreFixture


class ChildReplayConformance(StoreFixture):
    """The children of a replayed run are replayed with it, left running, or detached."""

    def failed_family(self, store: Store, count: int = 2) -> RunRecord:
        """Start a run with a map of *count* children, then fail the children and the run."""
        parent = self.hold(store)
        children = [
            self.child_of(parent, f"c{index}", parent_index=index, session_id="s1")
            for index in range(count)
        ]
        self.advance(
            store, parent, effects=[StartChildren(children, [Fanout("call", count, False)])]
        )
        for index in range(count):
            self.finish(store, self.get(store, f"c{index}"), Status.FAILED)
        self.finish(store, self.get(store), Status.FAILED)
        return self.get(store)

    def replay(self, store: Store, **details: object) -> object:
        return self.do(store, ReplayRun("r1", [], **details))  # type: ignore[arg-type]

    def last_seq(self, store: Store, run_id: str = "r1") -> int:
        return store.runs.history(run_id)[-1].seq

    def test_children_are_replayed_with_their_parent_and_counted_as_open(
        self, store: Store
    ) -> None:
        self.failed_family(store)

        assert (
            self.replay(store, children=[ReplayRun("c0", []), ReplayRun("c1", [])])
            is Status.PENDING
        )

        assert [self.status(store, run_id) for run_id in ("r1", "c0", "c1")] == [Status.PENDING] * 3
        event = store.runs.history("r1")[-1]
        assert (event.kind, msgspec.json.decode(event.data or b"")) == (
            EventKind.RUN_REPLAYED,
            {"void": [], "children": ["c0", "c1"]},
        )
        assert store.run_snapshots.page("", 10, 100_000)[-1].fanouts == [
            Fanout("call", 2, eager=False)
        ]
        assert store.check() == []

    def test_children_of_children_are_replayed_too(self, store: Store) -> None:
        parent = self.hold(store)
        self.advance(
            store, parent, effects=[StartChildren([self.child_of(parent, "c1", session_id="s1")])]
        )
        child = self.get(store, "c1")
        self.advance(
            store, child, effects=[StartChildren([self.child_of(child, "d1", session_id="s1")])]
        )
        for run_id in ("d1", "c1", "r1"):
            self.finish(store, self.get(store, run_id), Status.FAILED)

        self.replay(store, children=[ReplayRun("c1", [], children=[ReplayRun("d1", [])])])

        assert {self.status(store, run_id) for run_id in ("r1", "c1", "d1")} == {Status.PENDING}

    def test_children_that_are_replayed_before_their_parent_are_named_in_its_history(
        self, store: Store
    ) -> None:
        self.failed_family(store)

        self.do(store, ReplayRuns([ReplayRun("c0", []), ReplayRun("c1", [])]))
        self.do(store, ReplayRuns([ReplayRun("c0", [])]))
        self.replay(store, replayed=["c0", "c1"])

        assert [self.status(store, run_id) for run_id in ("r1", "c0", "c1")] == [Status.PENDING] * 3
        assert [event.kind for event in store.runs.history("c0")].count(EventKind.RUN_REPLAYED) == 1
        assert msgspec.json.decode(store.runs.history("r1")[-1].data or b"") == {
            "void": [],
            "children": ["c0", "c1"],
        }
        assert store.run_snapshots.page("", 10, 100_000)[-1].fanouts == [
            Fanout("call", 2, eager=False)
        ]
        assert store.check() == []

    def test_a_child_that_is_at_work_again_is_left_alone(self, store: Store) -> None:
        self.failed_family(store)
        self.do(store, ReplayRun("c0", []))
        events = store.runs.history("c0")

        self.replay(store, children=[ReplayRun("c0", [], seen=1), ReplayRun("c1", [])])

        assert store.runs.history("c0") == events
        assert msgspec.json.decode(store.runs.history("r1")[-1].data or b"")["children"] == ["c1"]
        assert store.check() == []

    def test_a_child_that_is_still_stopping_refuses_the_replay(self, store: Store) -> None:
        parent = self.hold(store)
        self.advance(
            store, parent, effects=[StartChildren([self.child_of(parent, "c1", session_id="s1")])]
        )
        self.do(store, RequestCancel("c1", "enough"))
        self.finish(store, self.get(store), Status.FAILED)

        with pytest.raises(RunNotFinished) as refused:
            self.replay(store, children=[ReplayRun("c1", [])])

        assert refused.value.facts["run"] == "c1"
        assert self.status(store) is Status.FAILED

    @pytest.mark.parametrize("grown", ["r1", "c1"])
    def test_a_history_that_has_grown_refuses_the_whole_replay(
        self, store: Store, grown: str
    ) -> None:
        self.failed_family(store)
        seen = {
            run_id: self.last_seq(store, run_id) - (run_id == grown)
            for run_id in ("r1", "c0", "c1")
        }
        before = {run_id: store.runs.history(run_id) for run_id in seen}

        with pytest.raises(RunChanged) as refused:
            self.replay(
                store,
                seen=seen["r1"],
                children=[
                    ReplayRun(child_id, [], seen=seen[child_id]) for child_id in ("c0", "c1")
                ],
            )

        assert refused.value.facts["run"] == grown
        assert {run_id: store.runs.history(run_id) for run_id in seen} == before
        assert {self.status(store, run_id) for run_id in seen} == {Status.FAILED}

    def test_a_child_that_does_not_exist_refuses_the_whole_replay(self, store: Store) -> None:
        self.failed_family(store)

        with pytest.raises(RunNotFound):
            self.replay(store, children=[ReplayRun("c0", []), ReplayRun("none", [])])

        assert {self.status(store, run_id) for run_id in ("r1", "c0")} == {Status.FAILED}

    def test_a_refused_replay_refuses_no_other_write_of_its_batch(self, store: Store) -> None:
        self.failed_family(store)
        refused = ReplayRun("r1", [], children=[ReplayRun("c0", []), ReplayRun("none", [])])

        answers = store.apply([refused, ReplayRun("c1", [])])

        assert isinstance(answers[0], RunNotFound)
        assert answers[1] is Status.PENDING
        assert {self.status(store, run_id) for run_id in ("r1", "c0")} == {Status.FAILED}
        assert store.check() == []

    def test_children_of_a_start_that_is_void_no_longer_belong_to_it(self, store: Store) -> None:
        self.failed_family(store)

        self.replay(store, detach=["call"])

        assert store.children.all("r1", ["call"]) == []
        assert [child.id for child in store.children.all("r1")] == ["c0", "c1"]
        assert all(not snapshot.fanouts for snapshot in store.run_snapshots.page("", 10, 100_000))
        self.do(store, ReplayRun("c0", []))
        assert store.check() == []

    def test_a_map_whose_children_are_at_work_is_not_started_again(self, store: Store) -> None:
        self.failed_family(store)
        self.do(store, ReplayRun("c1", []))

        with pytest.raises(RunNotFinished) as refused:
            self.replay(store, detach=["call"])

        assert refused.value.facts["run"] == "c1"
        assert [child.id for child in store.children.all("r1", ["call"])] == ["c0", "c1"]

    def test_children_say_how_they_were_stopped(self, store: Store) -> None:
        parent = self.hold(store)
        self.advance(
            store,
            parent,
            effects=[
                StartChildren([self.child_of(parent, "c1", session_id="s1", on_parent_end="leave")])
            ],
        )
        self.do(store, RequestCancel("c1", "enough"))

        (child,) = store.children.all("r1")
        assert (child.on_parent_end, child.cancel_reason) == ("leave", "enough")
        assert child.cancelled_at is not None
