"""Conformance of children: parents that wait for them, and their cancellation."""

from __future__ import annotations

import pytest

from holdfast.core.runs import CancelCause, Cancellation, Fanout, RunRecord
from holdfast.core.status import Status
from holdfast.errors import RunExists
from holdfast.store.runs.operations import (
    CancelChildren,
    ReplayRun,
    RequestCancel,
    StartChildren,
)
from holdfast.store.store import Store
from holdfast.testing.conformance.fixture import StoreFixture


class ChildConformance(StoreFixture):
    """A parent is woken or notified by the ends of its children, and cancels them when it ends."""

    def with_children(
        self, store: Store, count: int, *, eager: bool = False, keep: bool = False
    ) -> list[RunRecord]:
        """Start a parent that is parked on a map; return its children, held by session ``s2``."""
        parent = self.hold(store)
        self.open(store, "s2")
        children = [
            self.child_of(parent, f"c{i}", parent_index=i, session_id="s2") for i in range(count)
        ]
        self.advance(
            store, parent, effects=[StartChildren(children, [Fanout("call", count, eager)])]
        )
        self.park(store, parent, keep=keep, waits=b'[{"kind":"map"}]')
        store.hints()
        return [self.get(store, f"c{i}") for i in range(count)]

    def test_children_start_with_the_write_and_know_their_parent(self, store: Store) -> None:
        parent = self.hold(store)

        leased = self.child_of(parent, "c2", session_id="s1", on_parent_end="leave")
        answer = self.advance(
            store, parent, effects=[StartChildren([self.child_of(parent, "c1"), leased])]
        )

        assert [(started.id, started.created, started.leased) for started in answer.started] == [
            ("c1", True, False),
            ("c2", True, True),
        ]
        child = self.get(store, "c2")
        assert (child.parent_id, child.parent_step, child.parent_index, child.root_id) == (
            "r1",
            "call",
            None,
            "r1",
        )
        assert (child.on_parent_end, self.get(store, "c1").on_parent_end) == ("leave", "cancel")

    def test_a_refused_child_refuses_the_whole_write(self, store: Store) -> None:
        parent = self.hold(store)
        self.start(store, "c2")

        with pytest.raises(RunExists):
            self.advance(
                store,
                parent,
                effects=[
                    StartChildren(
                        [self.child_of(parent, "c1"), self.child_of(parent, "c2", input=b"[9]")]
                    )
                ],
            )

        assert (store.runs.history("r1"), store.runs.get("c1")) == ([], None)

    def test_children_are_listed_in_order(self, store: Store) -> None:
        parent = self.hold(store)
        many = [
            self.child_of(parent, f"m{9 - i}", parent_step="b", parent_index=i) for i in range(3)
        ]
        self.advance(
            store,
            parent,
            effects=[
                StartChildren([*reversed(many), self.child_of(parent, "one", parent_step="a")])
            ],
        )

        assert [child.id for child in store.children.all("r1")] == ["one", "m9", "m8", "m7"]
        assert [child.id for child in store.children.all("r1", ["b"])] == ["m9", "m8", "m7"]
        assert store.children.all("r1", []) == []

    def test_the_end_of_a_child_wakes_its_parent(self, store: Store) -> None:
        parent = self.hold(store)
        self.advance(
            store, parent, effects=[StartChildren([self.child_of(parent, "c1", session_id="s1")])]
        )
        self.park(store, parent)

        self.finish(store, self.get(store, "c1"), Status.FAILED)

        assert self.status(store) is Status.PENDING
        (child,) = store.children.all("r1", ["call"])
        assert (child.status, child.result, child.error) == (
            Status.FAILED,
            None,
            b'{"type":"ValueError","message":"no"}',
        )

    def test_the_end_of_a_child_notifies_the_holder_of_its_parent(self, store: Store) -> None:
        parent = self.hold(store)
        self.advance(
            store, parent, effects=[StartChildren([self.child_of(parent, "c1", session_id="s1")])]
        )
        self.park(store, parent, keep=True)

        self.finish(store, self.get(store, "c1"))

        assert (self.status(store), self.get(store).revision) == (Status.WAITING, 1)
        assert [run_id for _, run_id in store.sessions.notifications("s1", 0)] == ["r1"]

    def test_the_children_that_ended_since_a_revision_are_found(self, store: Store) -> None:
        parent = self.hold(store)
        children = [
            self.child_of(parent, name, parent_step=name, session_id="s1")
            for name in ("c1", "c2", "c3")
        ]
        many = [self.child_of(parent, "m1", parent_step="m", parent_index=0, session_id="s1")]
        self.advance(store, parent, effects=[StartChildren([*children, *many])])

        self.finish(store, self.get(store, "c2"))
        seen = self.get(store).revision
        self.finish(store, self.get(store, "c1"), Status.FAILED)
        self.finish(store, self.get(store, "m1"))

        def ended(revision: int) -> list[str]:
            return sorted(child.id for child in store.children.ended("r1", since=revision))

        assert ended(0) == ["c1", "c2"]
        assert ended(seen) == ["c1"]
        assert ended(self.get(store).revision) == []

    def test_a_cancelled_child_wakes_its_parent_too(self, store: Store) -> None:
        parent = self.hold(store)
        self.advance(store, parent, effects=[StartChildren([self.child_of(parent, "c1")])])
        self.park(store, parent)

        self.do(store, RequestCancel("c1", "enough"))

        assert self.status(store) is Status.PENDING
        assert [child.id for child in store.children.ended("r1")] == ["c1"]

    def test_the_last_of_many_children_to_complete_wakes_the_parent(self, store: Store) -> None:
        children = self.with_children(store, 3)

        seen = []
        for child in children:
            self.finish(store, child)
            seen.append(self.status(store))

        assert seen == [Status.WAITING, Status.WAITING, Status.PENDING]

    def test_the_first_of_many_children_to_fail_wakes_the_parent(self, store: Store) -> None:
        children = self.with_children(store, 3)

        self.finish(store, children[1], Status.FAILED)

        assert self.status(store) is Status.PENDING

    def test_an_eager_parent_is_notified_of_each_child(self, store: Store) -> None:
        children = self.with_children(store, 3, eager=True, keep=True)

        for child in children:
            self.finish(store, child)

        assert [run_id for _, run_id in store.sessions.notifications("s1", 0)] == ["r1"] * 3

    def test_a_parent_that_is_not_eager_is_notified_only_once(self, store: Store) -> None:
        children = self.with_children(store, 3, keep=True)

        for child in children:
            self.finish(store, child)

        assert [run_id for _, run_id in store.sessions.notifications("s1", 0)] == ["r1"]

    def test_more_children_of_the_same_map_are_counted_with_the_others(self, store: Store) -> None:
        parent = self.hold(store)
        for number in range(2):
            child = self.child_of(parent, f"c{number}", parent_index=number, session_id="s1")
            self.advance(
                store, parent, effects=[StartChildren([child], [Fanout("call", 1, False)])]
            )
        self.park(store, parent)

        self.finish(store, self.get(store, "c0"))
        assert self.status(store) is Status.WAITING
        self.finish(store, self.get(store, "c1"))
        assert self.status(store) is Status.PENDING

    def test_existing_children_are_not_counted_again(self, store: Store) -> None:
        parent = self.hold(store)
        first = [self.child_of(parent, "c0", parent_index=0, session_id="s1")]
        self.advance(store, parent, effects=[StartChildren(first, [Fanout("call", 1, False)])])
        self.finish(store, self.get(store, "c0"))

        both = [*first, self.child_of(parent, "c1", parent_index=1)]
        answer = self.advance(
            store, parent, effects=[StartChildren(both, [Fanout("call", 2, False)])]
        )

        assert [started.created for started in answer.started] == [False, True]
        assert store.check() == []

    def test_a_parent_that_ends_takes_its_children_with_it(self, store: Store) -> None:
        parent = self.hold(store)
        young = self.child_of(parent, "young")
        old = self.child_of(parent, "old", session_id="s1")
        self.advance(
            store,
            parent,
            effects=[
                StartChildren([young, old, self.child_of(parent, "kept", on_parent_end="leave")])
            ],
        )

        self.finish(store, parent, Status.FAILED, had_children=True)

        statuses = [self.status(store, run_id) for run_id in ("young", "old", "kept")]
        assert statuses == [Status.CANCELLED, Status.CANCELLING, Status.PENDING]
        assert self.status(store) is Status.FAILED

    def test_a_run_cancels_its_children_and_goes_on(self, store: Store) -> None:
        parent = self.hold(store)
        young = self.child_of(parent, "young")
        old = self.child_of(parent, "old", session_id="s1")
        self.advance(
            store,
            parent,
            effects=[StartChildren([old, self.child_of(parent, "kept", on_parent_end="leave")])],
        )
        assert store.children.open(parent.id, limit=10) == ["old"]

        stop = Cancellation("its parent failed", CancelCause.PARENT)
        self.advance(store, parent, effects=[StartChildren([young]), CancelChildren(stop)])

        statuses = [self.status(store, run_id) for run_id in ("young", "old", "kept")]
        assert statuses == [Status.CANCELLED, Status.CANCELLING, Status.PENDING]
        assert self.status(store) is Status.RUNNING
        assert self.get(store, "old").cancel_reason == "its parent failed"
        assert store.children.open(parent.id, limit=10) == ["old"]

    def test_the_end_of_the_last_cancelled_child_wakes_its_parent(self, store: Store) -> None:
        children = self.with_children(store, 2)
        parent = self.get(store)
        for child in children:
            self.do(store, RequestCancel(child.id, "its parent failed"))
        assert store.children.open(parent.id, limit=1) == [children[0].id]

        self.finish(store, children[0], Status.CANCELLED)
        assert store.children.open(parent.id, limit=1) == [children[1].id]
        self.finish(store, children[1])

        assert store.children.open(parent.id, limit=1) == []
        assert self.status(store) is Status.PENDING

    def test_a_child_may_end_after_its_parent(self, store: Store) -> None:
        children = self.with_children(store, 2, keep=True)
        self.finish(store, self.get(store), had_children=False)

        for child in children:
            self.finish(store, child)

        assert (self.status(store), self.get(store).revision) == (Status.COMPLETED, 0)

    def test_a_replayed_child_is_counted_as_open_again(self, store: Store) -> None:
        children = self.with_children(store, 2)
        self.finish(store, children[0])

        self.do(store, ReplayRun("c0", []))

        assert store.check() == []
        self.finish(store, children[1])
        assert self.status(store) is Status.WAITING
