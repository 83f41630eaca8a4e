"""Conformance of pruning: runs that ended long ago are deleted in whole trees."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.core.events import EventKind
from holdfast.core.runs import Route
from holdfast.core.status import Status
from holdfast.store.retention.operations import Forget
from holdfast.store.runs import trees
from holdfast.store.runs.list_query import RunFilter
from holdfast.store.runs.operations import (
    Prune,
    Pruned,
    StartChildren,
)
from holdfast.store.signals.operations import SignalRun
from holdfast.store.store import Store
from holdfast.testing.conformance.fixture import (
    HandClock,
    StoreFixture,
)


class PruneConformance(StoreFixture):
    """Runs that ended before an instant are deleted, in whole trees."""

    def prune(self, store: Store, clock: HandClock, **options: Any) -> Pruned:
        which = {
            "before": clock.now(),
            "statuses": ["completed", "failed", "cancelled", "expired", "skipped"],
            **options,
        }
        pruned: Pruned = self.do(store, Prune(**which))
        return pruned

    def run_to_end(
        self,
        store: Store,
        clock: HandClock,
        run_id: str,
        status: Status = Status.COMPLETED,
        **options: Any,
    ) -> None:
        self.finish(store, self.hold(store, run_id, **options), status)
        clock.move(1)

    def test_runs_that_ended_before_the_cutoff_are_pruned_with_all_of_their_rows(
        self, store: Store, clock: HandClock
    ) -> None:
        run = self.hold(store, tags={"a": "b"}, key="k")
        self.do(store, SignalRun("r1", "paid", b"1"))
        self.finish(store, run)
        clock.move(1)
        self.start(store, "r2")

        assert self.prune(store, clock) == Pruned(runs=1, last=None)

        assert (
            store.runs.get("r1"),
            store.runs.history("r1"),
            store.signals.of_run("r1"),
            store.runs.tags("r1"),
        ) == (
            None,
            [],
            [],
            {},
        )
        assert self.start(store, "r3", key="k", input=b"[3]").created

    def test_runs_that_do_not_match_the_prune_are_kept(
        self, store: Store, clock: HandClock
    ) -> None:
        self.run_to_end(store, clock, "old", route=Route("mine", "greet", "1", "default"))
        self.run_to_end(store, clock, "elsewhere")
        self.run_to_end(
            store, clock, "failed", Status.FAILED, route=Route("mine", "greet", "1", "default")
        )
        before = clock.now()
        self.run_to_end(store, clock, "late", route=Route("mine", "greet", "1", "default"))

        self.prune(store, clock, before=before, statuses=["completed"], namespace="mine")

        assert [run.id for run in store.runs.find(RunFilter())] == ["late", "failed", "elsewhere"]

    def test_a_tree_is_pruned_when_all_of_its_runs_have_ended(
        self, store: Store, clock: HandClock
    ) -> None:
        parent = self.hold(store)
        self.advance(
            store,
            parent,
            effects=[
                StartChildren([self.child_of(parent, "c1", session_id="s1", on_parent_end="leave")])
            ],
        )
        child = self.get(store, "c1")
        self.advance(
            store,
            child,
            effects=[
                StartChildren([self.child_of(child, "d1", session_id="s1", on_parent_end="leave")])
            ],
        )
        self.finish(store, parent)
        self.finish(store, child)
        clock.move(1)

        assert self.prune(store, clock).runs == 0
        assert sum(store.runs.counts().values()) == 3

        self.finish(store, self.get(store, "d1"))
        clock.move(1)
        assert self.prune(store, clock).runs == 3
        assert store.runs.counts() == {}

    def test_a_tree_ends_when_its_last_run_ends(self, store: Store, clock: HandClock) -> None:
        parent = self.hold(store)
        self.advance(
            store,
            parent,
            effects=[
                StartChildren([self.child_of(parent, "c1", session_id="s1", on_parent_end="leave")])
            ],
        )
        self.finish(store, parent)
        clock.move(1)
        between = clock.now()
        self.finish(store, self.get(store, "c1"))
        clock.move(1)

        assert self.prune(store, clock, before=between).runs == 0
        assert self.prune(store, clock).runs == 2

    def test_pruning_goes_in_portions(self, store: Store, clock: HandClock) -> None:
        for number in range(5):
            self.run_to_end(store, clock, f"r{number}")

        first = self.prune(store, clock, limit=2)
        second = self.prune(store, clock, limit=2, after=first.last)
        third = self.prune(store, clock, limit=2, after=second.last)

        assert [first, second, third] == [Pruned(2, "r1"), Pruned(2, "r3"), Pruned(1, None)]

    def test_a_tree_that_is_kept_does_not_keep_others_from_being_pruned(
        self, store: Store, clock: HandClock
    ) -> None:
        parent = self.hold(store, "r0")
        self.advance(
            store,
            parent,
            effects=[StartChildren([self.child_of(parent, "c1", on_parent_end="leave")])],
        )
        self.finish(store, parent)
        clock.move(1)
        self.run_to_end(store, clock, "r1")

        first = self.prune(store, clock, limit=1)
        second = self.prune(store, clock, limit=1, after=first.last)

        assert [first, second] == [Pruned(0, "r0"), Pruned(1, "r1")]

    def large_tree(self, store: Store, clock: HandClock, run_id: str = "r1") -> None:
        """Create a tree of eight finished runs: a root, three children, and four children of one of
        them."""
        parent = self.hold(store, run_id)
        for number in range(3):
            self.advance(
                store,
                parent,
                effects=[
                    StartChildren([self.child_of(parent, f"{run_id}c{number}", session_id="s1")])
                ],
            )
            clock.move(1)
        child = self.get(store, f"{run_id}c0")
        for number in range(4):
            self.advance(
                store,
                child,
                effects=[
                    StartChildren([self.child_of(child, f"{run_id}a{number}", session_id="s1")])
                ],
            )
            clock.move(1)
        for name in ("a0", "a1", "a2", "a3", "c0", "c1", "c2", ""):
            self.finish(store, self.get(store, run_id + name))
        clock.move(1)

    def test_a_large_tree_is_pruned_in_parts_and_its_root_last(
        self, store: Store, clock: HandClock, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(trees, "RUNS", 3)
        self.run_to_end(store, clock, "r0")
        self.large_tree(store, clock)
        self.run_to_end(store, clock, "r2")
        gone: list[int] = []
        after: str | None = ""
        while after is not None:
            pruned = self.prune(store, clock, after=after)
            gone.append(pruned.runs)
            after = pruned.last
            assert store.check() == []

        assert gone == [1, 3, 3, 3]
        assert store.runs.counts() == {}

    def test_a_partly_pruned_tree_has_no_history_to_replay(
        self, store: Store, clock: HandClock, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(trees, "RUNS", 3)
        self.large_tree(store, clock)

        assert self.prune(store, clock) == Pruned(runs=3, last="")
        assert self.kinds(store) == [EventKind.HISTORY_DELETED]
        assert {run.id for run in store.runs.find(RunFilter())} == {
            "r1",
            "r1c0",
            "r1c1",
            "r1c2",
            "r1a0",
        }

    def test_trees_that_are_large_together_are_pruned_one_after_another(
        self, store: Store, clock: HandClock, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(trees, "RUNS", 10)
        self.large_tree(store, clock, "r1")
        self.large_tree(store, clock, "r2")

        assert self.prune(store, clock) == Pruned(runs=8, last="r1")
        assert self.prune(store, clock, after="r1") == Pruned(runs=8, last=None)

    def test_the_histories_of_a_large_tree_are_trimmed_in_parts(
        self, store: Store, clock: HandClock, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(trees, "RUNS", 3)
        self.large_tree(store, clock)
        runs: list[int] = []
        after: str | None = ""
        while after is not None:
            trimmed = self.do(store, Forget("events", clock.now(), ["completed"], after=after))
            runs.append(trimmed.runs)
            after = trimmed.last

        assert runs == [3, 3, 2]
        assert {tuple(self.kinds(store, run.id)) for run in store.runs.find(RunFilter())} == {
            (EventKind.HISTORY_DELETED,)
        }
