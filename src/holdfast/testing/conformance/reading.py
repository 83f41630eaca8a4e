"""Conformance of queries: reads, the next due instant, the clock, and ``check`` of the laws."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.core.events import Event, EventKind
from holdfast.core.runs import Limits, Route
from holdfast.core.sessions import Lane
from holdfast.core.status import Status
from holdfast.core.waits import WaitRecord
from holdfast.store import sql_files
from holdfast.store.keys.operations import NeedKey, OfferedKey
from holdfast.store.lanes.operations import SetLane
from holdfast.store.runs.list_query import RunFilter
from holdfast.store.runs.operations import Heartbeat, RequestCancel, StartChildren, StartRuns
from holdfast.store.schedules.operations import SetSchedule
from holdfast.store.signals.operations import SignalRun
from holdfast.store.store import Store
from holdfast.store.waits.operations import OpenWait
from holdfast.testing.conformance import schedules
from holdfast.testing.conformance.budgets import BROKEN as BROKEN_BUDGETS
from holdfast.testing.conformance.fixture import MINUTE, MORNING, HandClock, OpenStore, StoreFixture


class ReadConformance(StoreFixture):
    """Each query returns one committed state."""

    def test_queries_about_unknown_ids_return_none_or_empty(self, store: Store) -> None:
        assert (
            store.runs.get("none"),
            store.runs.history("none"),
            store.signals.of_run("none"),
            store.runs.tags("none"),
        ) == (None, [], [], {})
        assert (
            store.runs.children("none"),
            store.runs.held_by("none"),
            store.runs.notifications("none", 0),
        ) == (
            [],
            [],
            [],
        )
        assert (
            store.runs.find(RunFilter()),
            store.runs.counts(),
            store.runs.routes(),
            store.lanes.all(),
        ) == (
            [],
            {},
            {},
            [],
        )
        assert store.runs.next_wake() is None

    def test_runs_are_listed_from_new_to_old_page_by_page(self, store: Store) -> None:
        self.do(store, StartRuns([self.new(f"r{number}") for number in range(5)]))

        pages = []
        before = None
        while page := store.runs.find(RunFilter(limit=2, before=before)):
            pages.append([run.id for run in page])
            before = page[-1].id

        assert pages == [["r4", "r3"], ["r2", "r1"], ["r0"]]

    def test_a_page_is_not_affected_by_runs_started_meanwhile(self, store: Store) -> None:
        self.do(store, StartRuns([self.new(f"r{number}") for number in range(4)]))
        first = store.runs.find(RunFilter(limit=2))
        self.start(store, "r9")

        assert [run.id for run in store.runs.find(RunFilter(limit=2, before=first[-1].id))] == [
            "r1",
            "r0",
        ]

    def test_runs_are_found_by_what_is_known_of_them(self, store: Store, clock: HandClock) -> None:
        self.open(store, "s1", worker="ann")
        self.start(store, "r0", tags={"city": "Ulm", "kind": "a"})
        clock.move(MINUTE)
        self.start(
            store,
            "r1",
            route=Route("shop", "order", "1", "default"),
            tags={"city": "Ulm", "kind": "b"},
        )
        self.start(store, "r2", session_id="s1", tags={"city": "Bonn"})
        parent = self.get(store, "r2")
        self.advance(store, parent, effects=[StartChildren([self.child_of(parent, "r3")])])
        self.do(store, RequestCancel("r0", "enough"))

        def ids_of(**which: Any) -> list[str]:
            return [run.id for run in store.runs.find(RunFilter(**which))]

        assert ids_of(namespace="shop") == ["r1"]
        assert ids_of(workflow="greet") == ["r3", "r2", "r0"]
        assert ids_of(statuses=["cancelled", Status.RUNNING]) == ["r2", "r0"]
        assert ids_of(tags={"city": "Ulm"}) == ["r1", "r0"]
        assert ids_of(tags={"city": "Ulm", "kind": "b"}) == ["r1"]
        assert ids_of(since=clock.now()) == ["r3", "r2", "r1"]
        assert ids_of(until=clock.now()) == ["r0"]
        assert ids_of(worker="ann") == ids_of(worker="s1") == ["r2"]
        assert ids_of(parent_id="r2") == ["r3"]
        assert ids_of(roots=True) == ["r2", "r1", "r0"]
        assert ids_of(roots=True, workflow="greet", before="r2", limit=5) == ["r0"]
        assert ids_of(tags={"city": "x' OR '1'='1"}) == []

    def test_runs_are_counted_by_status(self, store: Store) -> None:
        self.do(store, StartRuns([self.new("r1"), self.new("r2")]))
        self.hold(store, "r3")

        assert store.runs.counts() == {"pending": 2, "running": 1}

    def test_the_next_instant_is_the_earliest_of_timers_and_deadlines(
        self, store: Store, clock: HandClock
    ) -> None:
        now = clock.now()
        self.start(store, "r1", available_at=now + 3 * MINUTE)
        assert store.runs.next_wake() == now + 3 * MINUTE
        self.start(store, "r2", deadline=now + 2 * MINUTE)
        assert store.runs.next_wake() == now + 2 * MINUTE
        self.park(store, self.hold(store, "r3"), wake_at=now + MINUTE)
        assert store.runs.next_wake() == now + MINUTE

    def test_another_process_sees_what_was_committed_and_that_something_was(
        self, store: Store, reopen: OpenStore, clock: HandClock
    ) -> None:
        other = reopen(clock)
        other.changed()
        assert not other.changed()

        self.start(store)

        assert (self.notices_commit(other), other.changed()) == (True, False)
        assert other.runs.get("r1") == store.runs.get("r1")
        assert not other.hints().ready

    def test_commits_of_this_process_are_not_reported_as_changes(self, store: Store) -> None:
        store.changed()
        self.start(store)

        assert not store.changed()

    def test_a_holder_is_notified_of_a_signal_that_another_process_sends(
        self, store: Store, reopen: OpenStore, clock: HandClock
    ) -> None:
        other = reopen(clock)
        self.hold(store)

        self.do(other, SignalRun("r1", "paid", b"1"))

        assert self.notices_commit(store)
        assert [run_id for _, run_id in store.runs.notifications("s1", 0)] == ["r1"]

    def test_the_facts_say_what_the_store_is(self, store: Store) -> None:
        facts = store.info()

        assert facts["schema"]
        assert all(isinstance(name, str) for name in facts)


class ClockConformance(StoreFixture):
    """The clock of a store never goes back, even if the clock of its machine does."""

    @pytest.mark.parametrize("trace", ["event", "run", "session"])
    def test_the_clock_is_never_behind_a_written_instant(
        self, store: Store, reopen: OpenStore, clock: HandClock, trace: str
    ) -> None:
        run = self.hold(store)
        clock.move(MINUTE)
        if trace == "event":
            self.advance(store, run)
        elif trace == "run":
            self.start(store, "r2")
        else:
            self.do(store, Heartbeat("s1", MINUTE))

        other = reopen(HandClock(MORNING))

        assert other.now() >= MORNING + MINUTE

    def test_the_clock_follows_a_process_whose_clock_is_ahead(
        self, store: Store, reopen: OpenStore
    ) -> None:
        self.start(store)

        assert reopen(HandClock(MORNING + MINUTE)).now() == MORNING + MINUTE

    def test_the_clock_of_the_machine_goes_on(self, reopen: OpenStore) -> None:
        store = reopen()

        times = [store.now() for _ in range(1000)]

        assert times == sorted(times)


GATE = (
    "INSERT INTO holdfast.gate (id, run_id, step, status, prompt, terms, assignees, roles,"
    " opened_at, closed_at, choice) VALUES ('g', {}, 'gate', {}, 'ok?', '{{}}', '[]', '[]', 1,"
    " {}, {})"
)
ENTRY = "INSERT INTO holdfast.gate_entry (gate_id, number, run_id, kind, person, at, detail) VALUES"

BROKEN = {
    "a_run_has_its_input": "UPDATE holdfast.run SET input = ''",
    "a_run_that_can_be_claimed_is_pending_or_cancelling_and_held_by_nobody": (
        "UPDATE holdfast.run SET rank = 1 WHERE id = 'held'"
    ),
    "a_run_that_can_be_claimed_waits_for_nothing": (
        "UPDATE holdfast.run SET wake_at = 1 WHERE id = 'pending'"
    ),
    "a_pending_run_can_be_claimed_now_or_later": (
        "UPDATE holdfast.run SET rank = NULL WHERE id = 'pending'"
    ),
    "a_run_that_is_being_cancelled_is_held_or_can_be_claimed_or_waits": (
        "UPDATE holdfast.run SET status = 'cancelling', rank = NULL WHERE id = 'pending'"
    ),
    "a_running_run_is_held": (
        "UPDATE holdfast.run SET status = 'running', rank = NULL WHERE id = 'pending'"
    ),
    "a_held_run_is_at_work": "UPDATE holdfast.run SET status = 'blocked' WHERE id = 'held'",
    "a_held_run_is_held_by_a_session_that_exists": "DELETE FROM holdfast.session",
    "a_waiting_run_waits_for_something": (
        "UPDATE holdfast.run SET waits = NULL WHERE id = 'waiting'"
    ),
    "a_finished_run_has_ended_and_only_that": (
        "UPDATE holdfast.run SET finished_at = 1 WHERE id = 'pending'"
    ),
    "a_finished_run_holds_nothing": "UPDATE holdfast.run SET wake_at = 1 WHERE id = 'completed'",
    "a_completed_run_has_no_error": "UPDATE holdfast.run SET error = '{}' WHERE id = 'completed'",
    "a_run_that_did_not_complete_has_no_result": (
        "UPDATE holdfast.run SET result = '1' WHERE id = 'pending'"
    ),
    "a_stuck_run_says_why": "UPDATE holdfast.run SET error = NULL WHERE id = 'stuck'",
    "a_run_at_work_has_a_generation": "UPDATE holdfast.run SET generation = 0 WHERE id = 'held'",
    "a_run_has_a_route": "UPDATE holdfast.run SET route_id = 99 WHERE id = 'pending'",
    "a_history_has_no_gaps": "UPDATE holdfast.event SET seq = 9 WHERE run_id = 'held' AND seq = 1",
    "an_event_belongs_to_a_run": (
        "INSERT INTO holdfast.event (run_id, seq, kind, attempt, at) VALUES ('none', 1, 'marked',"
        " 1, 1)"
    ),
    "a_step_completes_once": (
        "INSERT INTO holdfast.event (run_id, seq, kind, step, attempt, at) VALUES ('held', 2,"
        " 'step_completed', 'a', 1, 1)"
    ),
    "a_completed_run_has_recorded_the_steps_it_was_given": (
        "UPDATE holdfast.event SET data = '{\"steps\":7}' WHERE run_id = 'completed' AND kind ="
        " 'run_completed'"
    ),
    "a_child_has_a_parent": "UPDATE holdfast.run SET parent_id = 'none' WHERE id = 'pending'",
    "a_signal_belongs_to_a_run": (
        "INSERT INTO holdfast.signal (run_id, name, payload, at) VALUES ('none', 'paid', '1', 1)"
    ),
    "a_tag_belongs_to_a_run": (
        "INSERT INTO holdfast.tag (name, value, run_id) VALUES ('a', 'b', 'none')"
    ),
    "a_fanout_counts_its_open_children": (
        "INSERT INTO holdfast.fanout (run_id, step, remaining, eager) VALUES ('held', 'map', 1, 0)"
    ),
    "a_pending_run_waits_for_nothing_but_its_time": (
        "UPDATE holdfast.run SET waits = '[]' WHERE id = 'pending'"
    ),
    "what_is_told_of_a_flow_belongs_to_it": (
        "INSERT INTO holdfast.flow_event (flow_id, seq, kind, payload, at) VALUES ('none', 1,"
        " 'created', '{}', 1)"
    ),
    "no_run_is_above_itself": (
        "UPDATE holdfast.run SET parent_id = id, root_id = id WHERE id = 'pending'"
    ),
    "a_child_has_the_root_of_its_parent": (
        "UPDATE holdfast.run SET parent_id = 'held', root_id = 'x' WHERE id = 'pending'"
    ),
    "no_two_children_have_the_same_place": (
        "UPDATE holdfast.run SET parent_id = 'held', parent_step = 'map', parent_index = 0 WHERE id"
        " IN ('pending', 'waiting')"
    ),
    "a_parent_counts_the_children_that_it_waits_for": (
        "INSERT INTO holdfast.event (run_id, seq, kind, step, attempt, at) VALUES ('held', 2,"
        " 'map_started', 'map', 1, 1)"
    ),
    "what_began_of_late_is_numbered_one_after_another": (
        "INSERT INTO holdfast.rate_admission (lane, share, at, number, count) VALUES"
        " ('x', '', 1, 1, 1), ('x', '', 2, 3, 1)"
    ),
    "a_gate_belongs_to_a_run": GATE.format("'none'", "'open'", "NULL", "NULL"),
    "an_open_gate_belongs_to_a_run_that_has_not_ended": GATE.format(
        "'completed'", "'open'", "NULL", "NULL"
    ),
    "a_gate_is_open_until_it_is_closed": GATE.format("'held'", "'approved'", "NULL", "'yes'"),
    "a_decided_gate_has_a_choice": GATE.format("'held'", "'approved'", "1", "NULL"),
    "an_open_gate_is_in_an_inbox_and_a_closed_one_is_not": GATE.format(
        "'held'", "'open'", "NULL", "NULL"
    ),
    "a_run_opens_a_gate_in_its_history": GATE.format("'held'", "'expired'", "1", "NULL"),
    "a_place_in_an_inbox_belongs_to_a_gate": (
        "INSERT INTO holdfast.gate_assignment (kind, name, gate_id, run_id) VALUES ('person',"
        " 'ann', 'none', 'held')"
    ),
    "what_was_done_to_a_gate_belongs_to_it": (
        f"{ENTRY} ('none', 1, 'held', 'expired', NULL, 1, '{{}}')"
    ),
    "a_person_decides_a_gate_once": (
        f"{ENTRY} ('g', 1, 'held', 'decided', 'ann', 1, '{{}}'), ('g', 2, 'held', 'decided', 'ann',"
        " 1, '{}')"
    ),
    "there_is_one_current_key_if_there_is_any": "UPDATE holdfast.key SET expires_at = 2",
    "there_is_a_key_for_the_waits_that_were_handed_out": "DELETE FROM holdfast.key",
    "a_lane_has_limits_that_let_something_begin": "UPDATE holdfast.lane SET concurrency = -1",
    "starts_are_gathered_in_a_run": (
        "INSERT INTO holdfast.gathering (run_id, key, count, latest) VALUES ('none', 'k', 1, 1)"
    ),
    "news_belong_to_a_graph": (
        "INSERT INTO holdfast.graph_outbox (graph_id, run_id, status, at) VALUES ('none',"
        " 'none::a', 'completed', 1)"
    ),
    "a_share_is_free_again_when_its_window_has_passed": (
        "INSERT INTO holdfast.share (lane, share, free_at) VALUES ('rated', 'ann',"
        f" {MORNING + 3 * 24 * 60 * MINUTE})"
    ),
    **schedules.BROKEN,
    "a_payload_that_a_run_refers_to_is_there": (
        "INSERT INTO holdfast.payload_use (run_id, digest) VALUES ('held', 'x')"
    ),
    "whoever_refers_to_a_payload_is_a_run": (
        "INSERT INTO holdfast.payload_use (run_id, digest) VALUES ('nobody', 'x')"
    ),
    "a_part_belongs_to_a_payload": (
        "INSERT INTO holdfast.payload_part (digest, part, data) VALUES ('x', 0, 'y')"
    ),
    "a_payload_has_all_its_parts": (
        "INSERT INTO holdfast.payload (digest, key, form, size, stored, parts, kept_at) VALUES"
        " ('x', '', 'p', 1, 1, 1, 1)"
    ),
    "somebody_refers_to_a_payload": (
        "INSERT INTO holdfast.payload (digest, key, form, size, stored, parts, kept_at) VALUES"
        " ('x', '', 'p', 0, 0, 0, 1)"
    ),
    "a_wait_belongs_to_a_run": (
        "INSERT INTO holdfast.wait (run_id, step, name, opened_at) VALUES ('none', 'wait',"
        " 'paid', 1)"
    ),
    "a_wait_that_is_closed_says_by_what": "UPDATE holdfast.wait SET closed_at = 1",
    "a_wait_that_was_handed_out_has_a_key": "UPDATE holdfast.wait SET kid = NULL",
    "only_what_a_run_waits_for_needs_a_person": "UPDATE holdfast.wait SET escalated_at = 1",
    "a_signal_to_a_wait_belongs_to_the_run_of_that_wait": (
        "INSERT INTO holdfast.signal (run_id, name, payload, at, wait_id) VALUES ('waiting',"
        " 'paid', '1', 1, 'w1')"
    ),
    "a_signal_to_a_wait_has_that_wait": (
        "INSERT INTO holdfast.signal (run_id, name, payload, at, wait_id) VALUES ('waiting',"
        " 'paid', '1', 1, 'none')"
    ),
    "a_wait_that_a_run_has_opened_is_there": (
        "INSERT INTO holdfast.event (run_id, seq, kind, step, attempt, at) VALUES ('held', 2,"
        " 'wait_opened', 'none', 1, 1)"
    ),
    "no_two_signals_of_a_run_have_the_same_number": (
        "INSERT INTO holdfast.signal (run_id, name, payload, at, number)"
        " VALUES ('held', 'a', '1', 1, 1), ('held', 'b', '1', 1, 1)"
    ),
    **BROKEN_BUDGETS,
}
"""One statement per law that breaks it."""


class LawConformance(StoreFixture):
    """``check`` names each broken law."""

    def populate(self, store: Store) -> None:
        """Write one run of each kind; no law is broken."""
        self.start(store, "pending")
        held = self.hold(store, "held")
        wait = WaitRecord(
            run_id="held", step="create w", id="w1", name="w", kid="k1", opened_at=store.now()
        )
        self.advance(
            store,
            held,
            events=[Event(EventKind.STEP_COMPLETED, "a", b"1", seq=1)],
            effects=[OpenWait(wait)],
        )
        self.parked(store, "waiting", budgets=("tree:waiting",), limits=Limits({"tokens": 1}))
        self.stuck(store, "stuck")
        self.finish(store, self.hold(store, "completed"))
        self.do(store, SetSchedule(schedules.hourly()))
        self.do(store, NeedKey(OfferedKey("k1", b"x" * 32)))
        self.do(store, SetLane(Lane(name="rated", share_rate_limit=1, share_rate_per=MINUTE)))

    def test_a_valid_database_breaks_no_law(self, bare_store: Store) -> None:
        self.populate(bare_store)

        assert bare_store.check() == []

    @pytest.mark.parametrize("law", sql_files.laws())
    def test_each_broken_law_is_found(self, bare_store: Store, law: str) -> None:
        self.populate(bare_store)

        self.execute(bare_store, BROKEN[law])

        assert [
            finding
            for finding in bare_store.check()
            if finding.startswith(law.replace("_", " ") + ":")
        ]
