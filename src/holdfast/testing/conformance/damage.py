"""Conformance of damaged rows: a row that cannot be read delays no other row."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import msgspec
import pytest

from holdfast.core.events import Event, EventKind
from holdfast.core.flows.model import FlowRecord, FlowStatus, TimerWait, WaitFlow
from holdfast.core.runs import Limits
from holdfast.core.schedules.model import Schedule
from holdfast.core.sessions import Lane
from holdfast.core.status import Status
from holdfast.core.subscriptions import NOW
from holdfast.errors import RowDamaged
from holdfast.store.budgets.operations import SetBudget
from holdfast.store.flows.operations import CreateFlow, MoveFlow, WakeFlows
from holdfast.store.graphs.operations import SweepStages
from holdfast.store.keys.operations import NeedKey, OfferedKey, RotateKey
from holdfast.store.lanes.operations import SetLane
from holdfast.store.retention.operations import TakeMaintenanceLock
from holdfast.store.runs.list_query import RunFilter
from holdfast.store.runs.operations import (
    EndSession,
    OpenSession,
    RequestCancel,
    StartRuns,
)
from holdfast.store.schedules.operations import SetSchedule
from holdfast.store.store import Store
from holdfast.store.subscriptions.operations import SetWebhook
from holdfast.testing.conformance.fixture import (
    MORNING,
    ROUTE,
    SECOND,
    HandClock,
    OpenStore,
    StoreFixture,
)

LARGEST = 2**63 - 1


YEAR_9000 = 221_845_392_000_000_000


def hourly_schedule(name: str) -> Schedule:
    """Return a schedule that ticks every hour."""
    return Schedule(
        namespace=ROUTE.namespace,
        name=name,
        workflow=ROUTE.workflow,
        version=ROUTE.version,
        lane=ROUTE.lane,
        input=b"[]",
        rule='{"interval":3600000000}',
    )


def new_flow(name: str) -> FlowRecord:
    """Return the record of a flow that has not been started."""
    return FlowRecord(
        id=name,
        namespace=ROUTE.namespace,
        controller="research",
        goal="find it",
        owner="ann",
        requester="",
        current_step="init",
        state=b"{}",
        status=FlowStatus.CREATED,
        created_at=0,
        updated_at=0,
    )


class DamageConformance(StoreFixture):
    """A row that was damaged without the store is named, and all other rows are processed."""

    def test_a_run_that_is_started_while_it_is_read_is_not_damaged(
        self, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        reader = store.runs._reader
        first = reader.first

        def read_and_start(*arguments: Any, **parameters: Any) -> Any:
            monkeypatch.undo()
            row = first(*arguments, **parameters)
            self.start(store)
            return row

        monkeypatch.setattr(reader, "first", read_and_start)
        run = store.runs.get("r1")

        assert run is not None
        assert run.id == "r1"

    @pytest.mark.parametrize(
        ("column", "value"),
        [
            ("generation", LARGEST),
            ("revision", LARGEST),
            ("priority", LARGEST),
            ("created_at", -1),
            ("started_at", LARGEST),
        ],
    )
    def test_a_damaged_run_does_not_keep_others_from_being_claimed(
        self, bare_store: Store, clock: HandClock, column: str, value: int
    ) -> None:
        for run_id in ("r1", "r2"):
            self.start(bare_store, run_id, available_at=clock.now() + SECOND)
        self.execute(bare_store, f"UPDATE holdfast.run SET {column} = {value} WHERE id = 'r1'")
        clock.move(2 * SECOND)

        assert "r2" in self.claimed(bare_store)

        assert any(f"in run: r1, column {column}:" in line for line in bare_store.check())

    def test_a_status_that_does_not_exist_is_named(self, bare_store: Store) -> None:
        self.start(bare_store, "r1")
        self.start(bare_store, "r2")
        self.execute(bare_store, "UPDATE holdfast.run SET status = 'lost' WHERE id = 'r1'")

        assert [run.id for run in bare_store.runs.find(RunFilter())] == ["r2"]
        with pytest.raises(RowDamaged) as raised:
            bare_store.runs.get("r1")
        assert (
            raised.value.facts["table"],
            raised.value.facts["key"],
            raised.value.facts["column"],
        ) == ("run", "r1", "status")

    def test_a_call_about_a_damaged_run_is_refused_and_its_neighbours_are_not(
        self, bare_store: Store
    ) -> None:
        self.start(bare_store, "r1")
        self.start(bare_store, "r2")
        self.execute(bare_store, f"UPDATE holdfast.run SET started_at = {LARGEST} WHERE id = 'r1'")

        refused, done = bare_store.apply([RequestCancel("r1", "no"), RequestCancel("r2", "no")])

        assert isinstance(refused, RowDamaged)
        assert done is Status.CANCELLED

    def test_a_damaged_session_counts_as_expired(self, bare_store: Store) -> None:
        self.hold(bare_store)
        self.execute(bare_store, "UPDATE holdfast.session SET beat_at = -7 WHERE id = 's1'")

        (session,) = bare_store.sessions.all()

        assert (session.id, session.expires_at) == ("s1", 0)
        assert self.do(bare_store, EndSession("s1", crashed=True)) == ["r1"]

    def test_a_damaged_lane_lets_nothing_go(self, bare_store: Store) -> None:
        self.do(bare_store, SetLane(Lane(name="slow", concurrency=1)))
        self.execute(bare_store, "UPDATE holdfast.lane SET free_at = -1 WHERE name = 'slow'")

        (lane,) = bare_store.lanes.all()

        assert (lane.name, lane.paused) == ("slow", True)

    def test_a_damaged_stage_keeps_no_other_from_being_swept(self, bare_store: Store) -> None:
        self.execute(
            bare_store,
            "INSERT INTO holdfast.graph_stage (id, written, due_at, discarded) VALUES ('bad', 0,"
            " -1, 0), ('good', 0, 1, 0)",
        )

        while self.do(bare_store, SweepStages()):
            pass

        broken = bare_store.check()
        assert any("in graph_stage: bad, column due_at:" in line for line in broken)
        assert not any("good" in line for line in broken)

    def test_an_event_of_a_kind_that_does_not_exist_is_named(self, bare_store: Store) -> None:
        run = self.hold(bare_store)
        self.advance(bare_store, run, events=[Event(EventKind.STEP_COMPLETED, "a", b"1", seq=1)])
        self.execute(
            bare_store, "UPDATE holdfast.event SET kind = 'step_forgotten' WHERE run_id = 'r1'"
        )

        with pytest.raises(RowDamaged) as raised:
            bare_store.runs.history("r1")

        assert (raised.value.facts["table"], raised.value.facts["column"]) == ("event", "kind")
        assert any("in event:" in line and "column kind:" in line for line in bare_store.check())

    @pytest.mark.parametrize(
        ("table", "column"), [("run", "created_at"), ("event", "at"), ("session", "beat_at")]
    )
    def test_an_instant_of_another_century_does_not_move_the_clock(
        self, bare_store: Store, open_store: OpenStore, table: str, column: str
    ) -> None:
        self.stuck(bare_store)
        self.open(bare_store)
        self.execute(bare_store, f"UPDATE holdfast.{table} SET {column} = {YEAR_9000}")
        clock = HandClock()

        with closing(open_store(clock)) as other:
            assert other.now() < MORNING + 1000 * SECOND
            assert any(
                f"in {table}:" in line and f"column {column}:" in line for line in other.check()
            )

    @pytest.mark.parametrize(
        "place",
        [
            "lane.free_at",
            "session.expires_at",
            "key.expires_at",
            "subscription.next_at",
            "maintenance_lock.until",
            "graph_stage.due_at",
            "budget.reset_at",
            "schedule.next_at",
            "schedule.wake_at",
        ],
    )
    def test_a_row_that_is_due_in_another_century_is_named(
        self, bare_store: Store, place: str
    ) -> None:
        self.write_due_rows(bare_store)
        assert bare_store.check() == []
        table, column = place.split(".")

        self.execute(bare_store, f"UPDATE holdfast.{table} SET {column} = {YEAR_9000}")

        assert any(
            f"in {table}:" in line and f"column {column}:" in line for line in bare_store.check()
        )

    def write_due_rows(self, store: Store) -> None:
        """Write one row of each kind that has an instant at which it is due."""
        self.hold(store)
        self.do(store, SetLane(Lane(name="rated", rate_limit=1, rate_per=SECOND)))
        self.do(store, SetSchedule(hourly_schedule("hourly")))
        self.do(store, RotateKey(OfferedKey("k1", b"x" * 32), SECOND))
        self.do(store, RotateKey(OfferedKey("k2", b"y" * 32), SECOND))
        self.do(
            store,
            SetWebhook(
                name="hook", start=NOW, first_secret="s" * 16, url="https://example.org/hook"
            ),
        )
        self.execute(store, f"UPDATE holdfast.subscription SET attempts = 1, next_at = {MORNING}")
        self.do(store, TakeMaintenanceLock("retention", "s1", SECOND))
        self.do(store, SetBudget(name="day", limits=Limits({"money": 5}), resets="day"))
        self.execute(
            store,
            "INSERT INTO holdfast.graph_stage (id, written, due_at, discarded) VALUES ('stage', 0,"
            f" {MORNING}, 0)",
        )

    def test_a_worker_that_is_said_to_live_longer_than_it_asked_for_is_named(
        self, bare_store: Store
    ) -> None:
        worker = msgspec.structs.replace(
            self.open(bare_store, "other"), id="s1", serves=b'{"session_ttl":15000000}'
        )
        self.do(bare_store, OpenSession(worker))
        year = 365 * 86_400 * SECOND
        assert bare_store.check() == []

        self.execute(bare_store, f"UPDATE holdfast.session SET expires_at = {MORNING + year}")

        assert any("in session: s1, column expires_at:" in line for line in bare_store.check())

    @pytest.mark.parametrize(
        "address",
        ["nonsense", "", "http://[::1", "ftp://example.org/x", "http://example.org:99999/"],
    )
    def test_a_webhook_with_an_address_that_is_none_is_named(
        self, bare_store: Store, address: str
    ) -> None:
        self.do(
            bare_store,
            SetWebhook(
                name="hook", start=NOW, first_secret="s" * 16, url="https://example.org/hook"
            ),
        )

        self.execute(bare_store, f"UPDATE holdfast.subscription SET url = '{address}'")

        assert any("in subscription: hook, column url:" in line for line in bare_store.check())

    @pytest.mark.parametrize("resets", ["0", "-5", "fortnight", ""])
    def test_a_budget_that_is_reset_in_no_rhythm_is_named(
        self, bare_store: Store, resets: str
    ) -> None:
        self.do(bare_store, SetBudget(name="day", limits=Limits({"money": 5}), resets="day"))

        self.execute(bare_store, f"UPDATE holdfast.budget SET resets = '{resets}'")

        assert any(
            "in budget: day" in line and "column resets:" in line for line in bare_store.check()
        )

    def test_a_signing_key_without_a_secret_is_named(self, bare_store: Store) -> None:
        self.do(bare_store, NeedKey(OfferedKey("k1", b"x" * 32)))

        self.execute(bare_store, "UPDATE holdfast.key SET secret = ''")

        assert any("in key: k1, column secret:" in line for line in bare_store.check())

    @pytest.mark.parametrize(
        "waits",
        [
            b"[{}]",
            b'[{"kind":7}]',
            b'[{"kind":"timer","until":"x"}]',
            b'[{"kind":"timer","step":[]}]',
        ],
    )
    def test_a_wait_that_cannot_be_followed_is_named(self, bare_store: Store, waits: bytes) -> None:
        self.park(bare_store, self.hold(bare_store), waits=waits)

        assert any("in run: r1, column waits:" in line for line in bare_store.check())

    def test_a_run_whose_route_is_gone_is_damaged_and_not_unknown(self, bare_store: Store) -> None:
        self.start(bare_store, "r1")
        self.execute(bare_store, "DELETE FROM holdfast.route")

        with pytest.raises(RowDamaged) as raised:
            bare_store.runs.get("r1")
        (again,) = bare_store.apply([StartRuns([self.new("r1")])])

        assert (
            raised.value.facts["table"],
            raised.value.facts["key"],
            raised.value.facts["column"],
        ) == ("run", "r1", "route_id")
        assert isinstance(again, RowDamaged)

    def test_a_run_whose_route_is_gone_never_becomes_a_run_of_another_workflow(
        self, bare_store: Store, open_store: OpenStore, clock: HandClock
    ) -> None:
        self.start(bare_store, "r1")
        self.execute(bare_store, "DELETE FROM holdfast.route")

        with closing(open_store(clock)) as other:
            other.apply(
                [
                    StartRuns(
                        [self.new("r2", route=msgspec.structs.replace(ROUTE, workflow="refund"))]
                    )
                ]
            )

            assert [run.id for run in other.runs.find(RunFilter())] == ["r2"]
            assert any(
                line.startswith("a run has a route: 1 broken, such as r1") for line in other.check()
            )

    def test_routes_that_were_deleted_under_a_store_are_written_once_more(
        self, bare_store: Store
    ) -> None:
        self.start(bare_store, "r1")
        self.execute(bare_store, "DELETE FROM holdfast.route")

        assert bare_store.runs.routes() == {}

        self.start(bare_store, "r2")
        assert [run.id for run in bare_store.runs.find(RunFilter())] == ["r2"]

    def test_a_damaged_line_about_a_flow_keeps_no_other_flow_asleep(
        self, bare_store: Store, clock: HandClock
    ) -> None:
        for name in ("bad", "good"):
            self.do(bare_store, CreateFlow(new_flow(name), start=True))
            wait = WaitFlow(TimerWait(clock.now() + SECOND))
            self.do(bare_store, MoveFlow(flow_id=name, namespace=ROUTE.namespace, action=wait))
        self.execute(
            bare_store,
            f"UPDATE holdfast.flow_event SET seq = {LARGEST} WHERE flow_id = 'bad' AND seq = 1",
        )
        clock.move(2 * SECOND)

        self.do(bare_store, WakeFlows())

        good = bare_store.flows.get("good")
        assert good is not None
        assert good.status is FlowStatus.RUNNING
        assert any("in flow_event: bad" in line for line in bare_store.check())
