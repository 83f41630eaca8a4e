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
from holdfast.store.messages.operations import OpenSubscription
from holdfast.store.runs.list_query import RunCursor, RunFilter
from holdfast.store.runs.operations import Heartbeat, RequestCancel, StartChildren, StartRuns
from holdfast.store.schedules.operations import SetSchedule
from holdfast.store.signals.operations import SignalRun
from holdfast.store.store import Store
from holdfast.store.waits.operations import OpenWait
from holdfast.testing.conformance import schedules
from holdfast.testing.conformance.api_keys import BROKEN_API_KEYS, populate_api_keys
from holdfast.testing.conformance.audit import BROKEN_AUDIT, populate_audit
from holdfast.testing.conformance.budget_fixture import BROKEN as BROKEN_BUDGETS
from holdfast.testing.conformance.bulk import BROKEN as BROKEN_OPERATIONS
from holdfast.testing.conformance.definitions import BROKEN as BROKEN_DEFINITIONS
from holdfast.testing.conformance.fixture import MINUTE, MORNING, HandClock, OpenStore, StoreFixture
from holdfast.testing.conformance.messages import AWAITED
from holdfast.testing.conformance.messages import BROKEN as BROKEN_MESSAGES


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
            store.children.all("none"),
            store.sessions.held_by("none"),
            store.sessions.notifications("none", 0),
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
        which = RunFilter(limit=2)
        while True:
            page = store.runs.page(which)
            pages.append([run.id for run in page.runs])
            if page.next is None:
                break
            which.after = page.next

        assert pages == [["r4", "r3"], ["r2", "r1"], ["r0"]]

    def test_runs_are_listed_by_their_time_of_creation_whatever_their_ids(
        self, store: Store, clock: HandClock
    ) -> None:
        for run_id in ("zeta", "alpha", "mid"):
            self.start(store, run_id)
            clock.move(MINUTE)

        first = store.runs.page(RunFilter(limit=2))
        second = store.runs.page(RunFilter(limit=2, after=first.next))

        assert [run.id for run in (*first.runs, *second.runs)] == ["mid", "alpha", "zeta"]
        assert second.next is None

    def test_a_page_is_not_affected_by_runs_started_meanwhile(
        self, store: Store, clock: HandClock
    ) -> None:
        self.do(store, StartRuns([self.new(f"r{number}") for number in range(4)]))
        first = store.runs.page(RunFilter(limit=2))
        clock.move(MINUTE)
        self.start(store, "r9")

        page = store.runs.page(RunFilter(limit=2, after=first.next))
        assert [run.id for run in page.runs] == ["r1", "r0"]

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
        assert ids_of(workflows=["greet"]) == ["r3", "r2", "r0"]
        assert ids_of(statuses=["cancelled", Status.RUNNING]) == ["r2", "r0"]
        assert ids_of(tags={"city": "Ulm"}) == ["r1", "r0"]
        assert ids_of(tags={"city": "Ulm", "kind": "b"}) == ["r1"]
        assert ids_of(since=clock.now()) == ["r3", "r2", "r1"]
        assert ids_of(until=clock.now()) == ["r0"]
        assert ids_of(worker="ann") == ids_of(worker="s1") == ["r2"]
        assert ids_of(parent_id="r2") == ["r3"]
        assert ids_of(roots=True) == ["r2", "r1", "r0"]
        after = RunCursor(parent.created_at, "r2")
        assert ids_of(roots=True, workflows=["greet"], after=after, limit=5) == ["r0"]
        assert ids_of(tags={"city": "x' OR '1'='1"}) == []

    def test_every_filter_selects_and_counts_the_same_runs(
        self, store: Store, clock: HandClock
    ) -> None:
        self.open(store, "s1", worker="ann")
        for number in range(6):
            self.start(
                store,
                f"r{5 - number}",
                route=Route("shop", f"w{number % 2}", "1", f"lane{number % 3}"),
                tags={"parity": str(number % 2), "all": "yes"},
                share="even" if number % 2 == 0 else None,
            )
            clock.move(MINUTE)
        self.do(store, RequestCancel("r0", "enough"))
        newest_first = [f"r{number}" for number in range(6)]
        selected: dict[str, dict[str, Any]] = {
            "r1 r2 r3 r4 r5": {"statuses": ["pending"]},
            "r0": {"statuses": ["cancelled"]},
            "r0 r1 r2 r3 r4 r5": {"statuses": ["cancelled", "pending"], "namespace": "shop"},
            "r1 r3 r5": {"workflows": ["w0"], "versions": ["1"]},
            "r0 r3": {"lanes": ["lane2"]},
            "r0 r1 r3 r4": {"lanes": ["lane1", "lane2"]},
            "r1 r4": {"lanes": ["lane1", "no"], "workflows": ["w0", "w1"], "versions": ["1", "2"]},
            "r0 r2 r3 r5": {"lanes": ["lane0", "lane2"], "statuses": ["pending", "cancelled"]},
            "r3": {"lanes": ["lane2"], "tags": {"parity": "0", "all": "yes"}},
            "r1 r3 r5 ": {"share": "even"},
            "r2": {"id_prefix": "r2", "tags": {"all": "yes"}},
            "": {"worker": "ann", "roots": True},
        }

        for ids, fields in selected.items():
            which = RunFilter(limit=2, **fields)
            expected = [run_id for run_id in newest_first if run_id in ids.split()]
            listed: list[str] = []
            while True:
                page = store.runs.page(which)
                listed += [run.id for run in page.runs]
                if page.next is None:
                    break
                which.after = page.next
            assert listed == expected, fields
            assert store.runs.count(RunFilter(**fields)) == len(expected), fields

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
        assert [run_id for _, run_id in store.sessions.notifications("s1", 0)] == ["r1"]

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
    **BROKEN_MESSAGES,
    **BROKEN_DEFINITIONS,
    "the_role_of_an_event_is_known": "UPDATE holdfast.event SET role = 'compensation of '",
    "a_run_has_its_input": "UPDATE holdfast.run SET input = ''",
    "a_claimable_run_is_pending_or_cancelling_and_not_leased": (
        "UPDATE holdfast.run SET rank = 1 WHERE id = 'held'"
    ),
    "a_claimable_run_has_no_waits_and_no_wake_time": (
        "UPDATE holdfast.run SET wake_at = 1 WHERE id = 'pending'"
    ),
    "a_pending_run_is_claimable_or_has_a_wake_time": (
        "UPDATE holdfast.run SET rank = NULL WHERE id = 'pending'"
    ),
    "a_cancelling_run_is_leased_or_claimable_or_waiting": (
        "UPDATE holdfast.run SET status = 'cancelling', rank = NULL WHERE id = 'pending'"
    ),
    "a_running_run_is_leased": (
        "UPDATE holdfast.run SET status = 'running', rank = NULL WHERE id = 'pending'"
    ),
    "a_leased_run_is_running_or_waiting_or_cancelling": (
        "UPDATE holdfast.run SET status = 'blocked' WHERE id = 'held'"
    ),
    "the_session_of_a_leased_run_exists": "DELETE FROM holdfast.session",
    "a_waiting_run_records_its_waits": (
        "UPDATE holdfast.run SET waits = NULL WHERE id = 'waiting'"
    ),
    "a_run_has_an_end_time_exactly_if_its_status_is_final": (
        "UPDATE holdfast.run SET finished_at = 1 WHERE id = 'pending'"
    ),
    "a_finished_run_is_not_leased_or_claimable_or_waiting": (
        "UPDATE holdfast.run SET wake_at = 1 WHERE id = 'completed'"
    ),
    "a_completed_run_has_no_error": "UPDATE holdfast.run SET error = '{}' WHERE id = 'completed'",
    "only_a_completed_run_has_a_result": (
        "UPDATE holdfast.run SET result = '1' WHERE id = 'pending'"
    ),
    "a_stuck_run_has_an_error": "UPDATE holdfast.run SET error = NULL WHERE id = 'stuck'",
    "only_a_stuck_run_has_a_stuck_cause": (
        "UPDATE holdfast.run SET stuck_cause = 'key_missing' WHERE id = 'pending'"
    ),
    "the_generation_of_a_leased_run_is_positive": (
        "UPDATE holdfast.run SET generation = 0 WHERE id = 'held'"
    ),
    "a_run_has_a_route": "UPDATE holdfast.run SET route_id = 99 WHERE id = 'pending'",
    "the_history_of_a_run_has_no_gaps": (
        "UPDATE holdfast.event SET seq = 9 WHERE run_id = 'held' AND seq = 1"
    ),
    "an_event_belongs_to_a_run": (
        "INSERT INTO holdfast.event (run_id, seq, kind, attempt, at) VALUES ('none', 1, 'marked',"
        " 1, 1)"
    ),
    "a_step_completes_once": (
        "INSERT INTO holdfast.event (run_id, seq, kind, step, attempt, at) VALUES ('held', 2,"
        " 'step_completed', 'a', 1, 1)"
    ),
    "the_history_of_a_completed_run_contains_all_its_steps": (
        "UPDATE holdfast.event SET data = '{\"steps\":7}' WHERE run_id = 'completed' AND kind ="
        " 'run_completed'"
    ),
    "the_parent_of_a_run_exists": "UPDATE holdfast.run SET parent_id = 'none' WHERE id = 'pending'",
    "a_signal_belongs_to_a_run": (
        "INSERT INTO holdfast.signal (run_id, name, payload, at) VALUES ('none', 'paid', '1', 1)"
    ),
    "a_tag_belongs_to_a_run": (
        "INSERT INTO holdfast.tag (name, value, run_id, created_at) VALUES ('a', 'b', 'none', 1)"
    ),
    "a_tag_has_the_time_of_its_run": (
        "INSERT INTO holdfast.tag (name, value, run_id, created_at) VALUES ('a', 'b', 'held', 1)"
    ),
    "the_open_child_count_of_a_fanout_is_correct": (
        "INSERT INTO holdfast.fanout (run_id, step, remaining, eager) VALUES ('held', 'map', 1, 0)"
    ),
    "a_pending_run_has_no_waits": ("UPDATE holdfast.run SET waits = '[]' WHERE id = 'pending'"),
    "a_flow_event_or_step_belongs_to_a_flow": (
        "INSERT INTO holdfast.flow_event (flow_id, seq, kind, payload, at) VALUES ('none', 1,"
        " 'created', '{}', 1)"
    ),
    "the_parents_of_runs_form_no_cycle": (
        "UPDATE holdfast.run SET parent_id = id, root_id = id WHERE id = 'pending'"
    ),
    "a_child_has_the_same_root_as_its_parent": (
        "UPDATE holdfast.run SET parent_id = 'held', root_id = 'x' WHERE id = 'pending'"
    ),
    "the_children_of_a_step_have_different_indexes": (
        "UPDATE holdfast.run SET parent_id = 'held', parent_step = 'map', parent_index = 0 WHERE id"
        " IN ('pending', 'waiting')"
    ),
    "a_map_that_has_not_ended_has_a_fanout": (
        "INSERT INTO holdfast.event (run_id, seq, kind, step, attempt, at) VALUES ('held', 2,"
        " 'map_started', 'map', 1, 1)"
    ),
    "rate_admissions_are_numbered_without_gaps": (
        "INSERT INTO holdfast.rate_admission (lane, share, at, number, count) VALUES"
        " ('x', '', 1, 1, 1), ('x', '', 2, 3, 1)"
    ),
    "a_gate_belongs_to_a_run": GATE.format("'none'", "'open'", "NULL", "NULL"),
    "an_open_gate_belongs_to_a_run_that_has_not_ended": GATE.format(
        "'completed'", "'open'", "NULL", "NULL"
    ),
    "a_gate_has_a_closing_time_exactly_if_it_is_closed": GATE.format(
        "'held'", "'approved'", "NULL", "'yes'"
    ),
    "a_decided_gate_has_a_choice": GATE.format("'held'", "'approved'", "1", "NULL"),
    "an_open_gate_has_assignments_and_a_closed_gate_has_none": GATE.format(
        "'held'", "'open'", "NULL", "NULL"
    ),
    "the_history_of_a_run_records_the_opening_of_its_gates": GATE.format(
        "'held'", "'expired'", "1", "NULL"
    ),
    "a_gate_assignment_belongs_to_a_gate": (
        "INSERT INTO holdfast.gate_assignment (kind, name, gate_id, run_id) VALUES ('person',"
        " 'ann', 'none', 'held')"
    ),
    "a_gate_entry_belongs_to_a_gate": (f"{ENTRY} ('none', 1, 'held', 'expired', NULL, 1, '{{}}')"),
    "a_person_decides_a_gate_once": (
        f"{ENTRY} ('g', 1, 'held', 'decided', 'ann', 1, '{{}}'), ('g', 2, 'held', 'decided', 'ann',"
        " 1, '{}')"
    ),
    "exactly_one_signing_key_is_current_if_there_are_keys": (
        "UPDATE holdfast.key SET expires_at = 2"
    ),
    "a_current_signing_key_exists_while_waits_with_tokens_are_open": "DELETE FROM holdfast.key",
    "the_limits_of_a_lane_are_valid": "UPDATE holdfast.lane SET concurrency = -1",
    "a_gathering_belongs_to_a_run": (
        "INSERT INTO holdfast.gathering (run_id, key, count, latest) VALUES ('none', 'k', 1, 1)"
    ),
    "a_graph_outbox_row_belongs_to_a_graph": (
        "INSERT INTO holdfast.graph_outbox (graph_id, run_id, status, at) VALUES ('none',"
        " 'none::a', 'completed', 1)"
    ),
    "a_share_is_blocked_no_longer_than_its_rate_window": (
        "INSERT INTO holdfast.share (lane, share, free_at) VALUES ('rated', 'ann',"
        f" {MORNING + 3 * 24 * 60 * MINUTE})"
    ),
    **schedules.BROKEN,
    "a_payload_reference_points_to_a_stored_payload": (
        "INSERT INTO holdfast.payload_use (run_id, digest) VALUES ('held', 'x')"
    ),
    "a_payload_reference_belongs_to_a_run": (
        "INSERT INTO holdfast.payload_use (run_id, digest) VALUES ('nobody', 'x')"
    ),
    "a_payload_part_belongs_to_a_payload": (
        "INSERT INTO holdfast.payload_part (digest, part, data) VALUES ('x', 0, 'y')"
    ),
    "a_payload_has_all_its_parts": (
        "INSERT INTO holdfast.payload (digest, key, form, size, stored, parts, kept_at) VALUES"
        " ('x', '', 'p', 1, 1, 1, 1)"
    ),
    "a_stored_payload_has_a_reference": (
        "INSERT INTO holdfast.payload (digest, key, form, size, stored, parts, kept_at) VALUES"
        " ('x', '', 'p', 0, 0, 0, 1)"
    ),
    "a_wait_belongs_to_a_run": (
        "INSERT INTO holdfast.wait (run_id, step, name, opened_at) VALUES ('none', 'wait',"
        " 'paid', 1)"
    ),
    "a_wait_has_a_closing_cause_exactly_if_it_is_closed": "UPDATE holdfast.wait SET closed_at = 1",
    "a_wait_has_a_signing_key_exactly_if_it_has_an_id": "UPDATE holdfast.wait SET kid = NULL",
    "an_escalated_wait_has_no_id_and_no_time_limit": "UPDATE holdfast.wait SET escalated_at = 1",
    "a_signal_to_a_wait_belongs_to_the_run_of_that_wait": (
        "INSERT INTO holdfast.signal (run_id, name, payload, at, wait_id) VALUES ('waiting',"
        " 'paid', '1', 1, 'w1')"
    ),
    "the_wait_of_a_signal_exists": (
        "INSERT INTO holdfast.signal (run_id, name, payload, at, wait_id) VALUES ('waiting',"
        " 'paid', '1', 1, 'none')"
    ),
    "a_wait_in_the_history_of_a_live_run_exists": (
        "INSERT INTO holdfast.event (run_id, seq, kind, step, attempt, at) VALUES ('held', 2,"
        " 'wait_opened', 'none', 1, 1)"
    ),
    "no_two_signals_of_a_run_have_the_same_number": (
        "INSERT INTO holdfast.signal (run_id, name, payload, at, number)"
        " VALUES ('held', 'a', '1', 1, 1), ('held', 'b', '1', 1, 1)"
    ),
    **BROKEN_BUDGETS,
    **BROKEN_OPERATIONS,
    **BROKEN_API_KEYS,
    **BROKEN_AUDIT,
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
            effects=[OpenWait(wait), OpenSubscription(AWAITED)],
        )
        self.parked(store, "waiting", budgets=("tree:waiting",), limits=Limits({"tokens": 1}))
        self.stuck(store, "stuck")
        self.finish(store, self.hold(store, "completed"))
        self.do(store, SetSchedule(schedules.hourly()))
        self.do(store, NeedKey(OfferedKey("k1", b"x" * 32)))
        populate_api_keys(self, store)
        populate_audit(self, store)
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
