"""Conformance of retention: rules, deletion by rule, and maintenance locks."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.core.events import EventKind
from holdfast.core.retention import RetentionRule
from holdfast.errors import BadOption, RetentionNotFound
from holdfast.store.payloads.operations import SaveSetting
from holdfast.store.retention.operations import (
    EndMaintenance,
    Forget,
    RemoveRetention,
    SaveRetention,
    TakeMaintenanceLock,
)
from holdfast.store.runs.operations import (
    EndSession,
    Prune,
    StartChildren,
)
from holdfast.store.store import Store
from holdfast.testing.conformance.fixture import MINUTE, HandClock, StoreFixture
from holdfast.testing.conformance.payloads import BIG, ENDED, reference_to


class RetentionConformance(StoreFixture):
    """Retention deletes the data that a rule names, and no other data."""

    def run_to_completion(self, store: Store, run_id: str, **options: Any) -> None:
        self.finish(store, self.hold(store, run_id, **options))

    def test_a_rule_comes_back_as_it_was_made(self, store: Store) -> None:
        rule = RetentionRule(
            name="old",
            workflow="greet",
            statuses=("failed",),
            older_than=MINUTE,
            keep_last=3,
            max_bytes=9,
        )
        self.do(store, SaveRetention(rule))
        self.do(store, SaveRetention(RetentionRule(name="all", target="events", older_than=1)))

        assert store.retention.rules() == [
            RetentionRule(name="all", target="events", older_than=1),
            rule,
        ]

    def test_a_rule_of_the_same_name_takes_its_place(self, store: Store) -> None:
        self.do(store, SaveRetention(RetentionRule(name="old", older_than=1)))
        self.do(store, SaveRetention(RetentionRule(name="old", keep_last=2)))

        assert store.retention.rules() == [RetentionRule(name="old", keep_last=2)]
        self.do(store, RemoveRetention("old"))
        assert store.retention.rules() == []
        with pytest.raises(RetentionNotFound):
            self.do(store, RemoveRetention("old"))

    def test_pruning_can_name_a_workflow(self, store: Store, clock: HandClock) -> None:
        self.run_to_completion(store, "r1")
        clock.move(MINUTE)
        prune = Prune(store.now(), ENDED, workflow="other")

        assert self.do(store, prune).runs == 0
        assert self.do(store, Prune(store.now(), ENDED, workflow="greet")).runs == 1

    def test_a_history_is_deleted_while_its_run_stays(self, store: Store, clock: HandClock) -> None:
        run = self.hold(store)
        self.advance(
            store,
            run,
            events=[self.event(store, kind=EventKind.STEP_COMPLETED, data=reference_to(BIG))],
            payloads=[BIG],
        )
        self.finish(store, run)
        clock.move(MINUTE)
        forget = Forget("events", store.now(), ENDED)

        assert self.do(store, forget).runs == 1
        assert [(event.kind, event.seq, event.data) for event in store.runs.history("r1")] == [
            (EventKind.HISTORY_DELETED, 1, b'{"events":2}')
        ]
        assert (self.get(store).result, store.payloads.get(BIG.digest)) == (b"1", None)
        assert self.do(store, forget).runs == 0

    def test_a_history_that_is_too_young_or_whose_tree_lives_stays(
        self, store: Store, clock: HandClock
    ) -> None:
        parent = self.hold(store)
        self.advance(
            store,
            parent,
            effects=[StartChildren([self.child_of(parent, "r2", on_parent_end="leave")])],
        )
        self.finish(store, parent)
        clock.move(MINUTE)

        assert self.do(store, Forget("events", store.now(), ENDED)).runs == 0
        assert len(store.runs.history("r1")) == 2
        (child,) = self.claim(store)
        self.finish(store, child)
        assert self.do(store, Forget("events", store.now(), ENDED)).runs == 0
        clock.move(MINUTE)
        assert self.do(store, Forget("events", store.now(), ENDED)).runs == 2

    def test_an_unknown_kind_of_data_cannot_be_forgotten(self, store: Store) -> None:
        with pytest.raises(BadOption):
            self.do(store, Forget("dreams", store.now(), ENDED))

    def test_the_nth_newest_is_found_by_when_it_ended(self, store: Store, clock: HandClock) -> None:
        times = []
        for number in range(3):
            self.run_to_completion(store, f"r{9 - number}")
            times.append(store.now())
            clock.move(MINUTE)

        assert [store.retention.nth_newest("greet", ENDED, number) for number in (1, 3, 4)] == [
            times[2],
            times[0],
            None,
        ]
        assert store.retention.nth_newest("greet", ["failed"], 1) is None

    def test_the_oldest_trees_are_listed_with_their_size(
        self, store: Store, clock: HandClock
    ) -> None:
        self.run_to_completion(store, "r2", input=b"x" * 5000)
        clock.move(MINUTE)
        self.run_to_completion(store, "r1")
        clock.move(MINUTE)
        trees = store.retention.oldest_finished(None, ENDED, 0, store.now(), 10)

        assert [(tree.id, tree.runs) for tree in trees] == [("r2", 1), ("r1", 1)]
        assert trees[0].bytes - trees[1].bytes > 4000
        assert sum(tree.bytes for tree in trees) <= store.retention.used_bytes()

    def test_used_bytes_shrink_when_data_is_deleted(self, store: Store, clock: HandClock) -> None:
        self.run_to_completion(store, "r1", input=b"x" * 5000)
        before = store.retention.used_bytes()
        clock.move(MINUTE)
        self.do(store, Prune(store.now(), ENDED))

        assert before > 5000
        assert store.retention.used_bytes() == 0

    def test_a_maintenance_lock_belongs_to_one_session_until_it_expires(
        self, store: Store, clock: HandClock
    ) -> None:
        for session in ("s1", "s2"):
            self.open(store, session)
        take = [TakeMaintenanceLock("retention", session, MINUTE) for session in ("s1", "s2")]

        assert [self.do(store, op) for op in (take[0], take[1], take[0])] == [True, False, True]
        clock.move(MINUTE)
        assert self.do(store, take[1]) is True

    def test_a_maintenance_lock_is_free_when_its_session_has_ended(self, store: Store) -> None:
        for session in ("s1", "s2"):
            self.open(store, session)
        self.do(store, TakeMaintenanceLock("retention", "s1", MINUTE))
        self.do(store, EndSession("s1", crashed=True))

        assert self.do(store, TakeMaintenanceLock("retention", "s2", MINUTE)) is True

    def test_finished_maintenance_is_due_again_after_its_interval(
        self, store: Store, clock: HandClock
    ) -> None:
        self.open(store, "s1")
        self.do(store, TakeMaintenanceLock("retention", "s1", MINUTE))
        self.do(store, EndMaintenance("retention", "s1", 2 * MINUTE))
        done = store.retention.maintenance_lock("retention")

        assert done is not None and (done.session_id, done.done_at) == (None, store.now())
        assert self.do(store, TakeMaintenanceLock("retention", "s1", MINUTE)) is False
        clock.move(2 * MINUTE)
        assert self.do(store, TakeMaintenanceLock("retention", "s1", MINUTE)) is True

    def test_a_setting_is_noted_once(self, store: Store) -> None:
        self.do(store, SaveSetting("encryption", "on"))
        self.do(store, SaveSetting("encryption", "off"))

        assert (
            store.installation.setting("encryption"),
            store.installation.setting("nothing"),
        ) == ("on", None)
