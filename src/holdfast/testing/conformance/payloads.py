"""Conformance of payloads: offloaded values and resealing."""

from __future__ import annotations

import hashlib
import threading
from typing import Any

import pytest

from holdfast.core.envelope import reference
from holdfast.core.events import EventKind
from holdfast.core.payload import Payload
from holdfast.core.runs import RunRecord
from holdfast.core.status import FINAL, Status
from holdfast.errors import BadOption, HoldfastError, RunExists, RunNotFound
from holdfast.store.payloads.operations import CopyPayloads, Reseal, ValueChange
from holdfast.store.runs.copy_operations import BeginCopy, EndCopy, ImportRun
from holdfast.store.runs.operations import Body, EndSession, Prune, Pruned, StartChildren, StartRuns
from holdfast.store.signals.operations import SignalOtherRun, SignalRun
from holdfast.store.store import Store
from holdfast.testing.conformance.fixture import MINUTE, SECOND, HandClock, OpenStore, StoreFixture

ENDED = sorted(status.value for status in FINAL)


def payload_of(content: bytes, size: int = 4) -> Payload:
    """Return a payload of *content* in parts of *size* bytes."""
    parts = [content[place : place + size] for place in range(0, len(content), size)]
    return Payload(hashlib.sha256(content).digest(), "", "p", len(content), parts)


def reference_to(payload: Payload) -> bytes:
    """Return the reference that the column of an offloaded value holds."""
    return reference(payload.key, payload.digest, payload.size)


BIG = payload_of(b'"a very large value"')


OTHER = payload_of(b'"another large value"')


class PayloadConformance(StoreFixture):
    """A payload exists as long as a run refers to it, and no longer."""

    def new_big_run(self, run_id: str = "r1", payload: Payload = BIG, **options: Any) -> Any:
        return self.new(run_id, input=reference_to(payload), payloads=(payload,), **options)

    def start_big(
        self, store: Store, run_id: str = "r1", payload: Payload = BIG, **options: Any
    ) -> Any:
        return self.do(store, StartRuns([self.new_big_run(run_id, payload, **options)]))[0]

    def finished_big(self, store: Store, run_id: str = "r1", **options: Any) -> RunRecord:
        """Start a run with a large input, claim it and finish it; return its record."""
        self.start_big(store, run_id)
        (run,) = [claimed for claimed in self.claim(store) if claimed.id == run_id]
        self.finish(store, run, **options)
        return self.get(store, run_id)

    def prune_all(self, store: Store, **options: Any) -> int:
        pruned: Pruned = self.do(
            store, Prune(**{"before": store.now() + 1, "statuses": ENDED, **options})
        )
        return pruned.runs

    def test_a_payload_comes_back_in_all_its_parts(self, store: Store) -> None:
        self.start_big(store)

        assert store.payloads.get(BIG.digest) == BIG
        assert store.payloads.of_run("r1") == [BIG.digest]
        assert self.get(store).input == reference_to(BIG)

    def test_the_same_content_is_kept_once(self, store: Store) -> None:
        self.start_big(store, "r1")
        self.start_big(store, "r2")

        assert store.payloads.totals() == {"payloads": 1, "bytes": BIG.size, "stored": BIG.size}

    def test_a_refused_start_keeps_nothing(self, store: Store) -> None:
        self.start(store, "r1")

        with pytest.raises(RunExists):
            self.start_big(store, "r1")

        assert store.payloads.get(BIG.digest) is None

    def test_a_run_is_recognised_by_its_input_under_any_seal(self, store: Store) -> None:
        self.start_big(store)
        seen: list[Any] = []

        def same(run: Any, old_id: str, old: bytes, fetch: Any) -> bool:
            seen.append(fetch(BIG.digest))
            return old == reference_to(BIG)

        again = self.do(
            store, StartRuns([self.new("r1", input=b'"a very large value"', same=same)])
        )[0]

        assert (again.id, again.created) == ("r1", False)
        assert seen == [BIG]

    def test_an_event_a_result_and_an_error_bring_their_payloads(self, store: Store) -> None:
        run = self.hold(store)
        event = self.event(store, kind=EventKind.STEP_COMPLETED, data=reference_to(BIG))
        self.advance(store, run, events=[event], payloads=[BIG])
        end = self.event(store, kind=EventKind.RUN_COMPLETED)
        self.advance(
            store,
            run,
            events=[end],
            status=Status.COMPLETED,
            result=reference_to(OTHER),
            payloads=[OTHER],
        )

        assert store.payloads.of_run("r1") == sorted([BIG.digest, OTHER.digest])
        assert store.payloads.get(OTHER.digest) == OTHER

    def test_a_write_that_lost_its_lease_keeps_nothing(self, store: Store) -> None:
        run = self.hold(store)
        self.do(store, EndSession("s1", crashed=True))
        event = self.event(store, kind=EventKind.STEP_COMPLETED, data=reference_to(BIG))

        with pytest.raises(HoldfastError):
            self.advance(store, run, events=[event], payloads=[BIG])

        assert store.payloads.get(BIG.digest) is None

    def test_a_signal_brings_its_payload_once(self, store: Store) -> None:
        self.start(store)
        signal = SignalRun("r1", "paid", reference_to(BIG), "k", payloads=[BIG])

        again = SignalRun("r1", "paid", reference_to(OTHER), "k", payloads=[OTHER])
        assert [self.do(store, op).new for op in (signal, again)] == [True, False]
        assert (store.payloads.of_run("r1"), store.payloads.get(OTHER.digest)) == (
            [BIG.digest],
            None,
        )

    def test_a_signal_from_one_run_to_another_belongs_to_the_other(self, store: Store) -> None:
        run = self.hold(store)
        self.start(store, "r2")
        self.advance(
            store,
            run,
            payloads=[BIG],
            effects=[SignalOtherRun("r2", "paid", reference_to(BIG), "k")],
        )

        assert (store.payloads.of_run("r1"), store.payloads.of_run("r2")) == ([], [BIG.digest])

    def test_a_signal_to_a_run_that_has_ended_keeps_nothing(self, store: Store) -> None:
        run = self.hold(store)
        other = self.hold(store, "r2")
        self.finish(store, other)
        self.advance(
            store,
            run,
            payloads=[BIG],
            effects=[SignalOtherRun("r2", "paid", reference_to(BIG), "k")],
        )

        assert store.payloads.get(BIG.digest) is None

    def test_a_child_brings_its_payload(self, store: Store) -> None:
        parent = self.hold(store)
        child = self.child_of(parent, "r2", input=reference_to(BIG), payloads=(BIG,))
        self.advance(store, parent, effects=[StartChildren([child])])

        assert store.payloads.of_run("r2") == [BIG.digest]

    def test_a_transactional_step_may_return_an_offloaded_value(self, store: Store) -> None:
        run = self.hold(store)

        def seal(data: bytes, payloads: list[Payload]) -> bytes:
            payloads.append(BIG)
            return reference_to(BIG)

        event = self.event(store, kind=EventKind.STEP_COMPLETED)
        answer = self.advance(
            store, run, events=[event], body=Body(lambda connection: b'"plain"', seal)
        )

        assert answer.data == b'"plain"'
        assert store.runs.history("r1")[-1].data == reference_to(BIG)
        assert store.payloads.of_run("r1") == [BIG.digest]

    def test_runs_started_within_a_transaction_bring_theirs(self, store: Store) -> None:
        with self.transaction(store) as connection:
            store.start_within(connection, [self.new_big_run()])

        assert store.payloads.get(BIG.digest) == BIG

    def test_a_transaction_that_is_rolled_back_keeps_nothing(self, store: Store) -> None:
        with pytest.raises(ZeroDivisionError), self.transaction(store) as connection:
            store.start_within(connection, [self.new_big_run()])
            raise ZeroDivisionError

        assert store.payloads.get(BIG.digest) is None

    def test_a_payload_goes_with_the_last_run_that_refers_to_it(
        self, store: Store, clock: HandClock
    ) -> None:
        self.finished_big(store, "r1")
        self.start_big(store, "r2")
        clock.move(MINUTE)

        assert self.prune_all(store) == 1
        assert store.payloads.get(BIG.digest) == BIG

        (run,) = self.claim(store)
        self.finish(store, run)
        clock.move(MINUTE)
        assert self.prune_all(store) == 1
        assert store.payloads.get(BIG.digest) is None
        assert store.payloads.totals()["payloads"] == 0

    def test_a_fork_refers_to_what_its_original_does(self, store: Store, clock: HandClock) -> None:
        run = self.finished_big(store, "r1")
        fork = RunRecord(
            **{
                **_fields(run),
                "id": "r2",
                "status": Status.PENDING,
                "result": None,
                "finished_at": None,
            }
        )
        self.do(store, ImportRun(fork, {}, []))
        clock.move(MINUTE)
        self.prune_all(store)

        assert (store.runs.get("r1"), store.payloads.get(BIG.digest)) == (None, BIG)

    def test_a_run_cannot_be_brought_without_what_it_refers_to(self, store: Store) -> None:
        run = self.finished_big(store, "r1")
        lost = RunRecord(**{**_fields(run), "id": "r2", "input": reference_to(OTHER)})

        with pytest.raises(RunNotFound):
            self.do(store, ImportRun(lost, {}, []))

        assert store.runs.get("r2") is None
        self.do(store, ImportRun(lost, {}, [], payloads=[OTHER]))
        assert store.payloads.get(OTHER.digest) == OTHER

    def test_payloads_are_listed_in_order(self, store: Store) -> None:
        self.start_big(store, "r1", BIG)
        self.start_big(store, "r2", OTHER)
        digests = sorted([BIG.digest, OTHER.digest])

        assert [digest for digest, _ in store.payloads.page(b"", 10)] == digests
        assert store.payloads.page(digests[0], 1)[0][0] == digests[1]
        assert store.payloads.page(digests[1], 1) == []

    def test_only_a_copy_brings_payloads_before_their_runs(self, store: Store) -> None:
        with pytest.raises(BadOption):
            self.do(store, CopyPayloads([BIG]))

        self.end_sessions(store)
        self.do(store, BeginCopy([]))
        self.do(store, CopyPayloads([BIG]))
        assert store.payloads.get(BIG.digest) == BIG
        self.end_sessions(store)
        self.do(store, BeginCopy([]))
        assert store.payloads.get(BIG.digest) is None
        self.do(store, EndCopy())

    def test_a_payload_that_is_referred_to_during_a_prune_is_kept(
        self, store: Store, reopen: OpenStore, clock: HandClock
    ) -> None:
        """One process starts and finishes runs with the same large input, while another process
        prunes them in a loop."""
        other = reopen(clock)
        rounds = 40
        errors: list[Exception] = []
        done = threading.Event()

        def prune() -> None:
            try:
                while not done.is_set():
                    self.prune_all(other)
            except Exception as error:
                errors.append(error)

        pruner = threading.Thread(target=prune)
        pruner.start()
        try:
            for number in range(rounds):
                self.start_big(store, f"run {number}", session_id=self.open_first_session(store))
                run = self.get(store, f"run {number}")
                assert store.payloads.get(BIG.digest) == BIG
                self.finish(store, run)
                clock.move(SECOND)
        finally:
            done.set()
            pruner.join()

        assert errors == []
        self.prune_all(store)
        assert store.runs.counts() == {}

    def open_first_session(self, store: Store) -> str:
        self.open(store, "s1")
        return "s1"


class ResealConformance(StoreFixture):
    """Values can be sealed with another key while workers write."""

    def test_a_value_is_resealed_only_if_it_has_not_changed(self, store: Store) -> None:
        run = self.hold(store, input=b"[1]")
        self.advance(
            store, run, events=[self.event(store, kind=EventKind.STEP_COMPLETED, data=b"1")]
        )
        self.do(store, SignalRun("r1", "paid", b"2"))
        changes = [
            ValueChange("run_input", b"[1]", b"[9]"),
            ValueChange("event_data", b"1", b"8", 1),
            ValueChange("signal_payload", b"2", b"7", store.signals.of_run("r1")[0].id),
            ValueChange("run_result", b"1", b"2"),
        ]

        assert self.do(store, Reseal("r1", changes)) == 3
        assert self.get(store).input == b"[9]"
        assert store.runs.history("r1")[0].data == b"8"
        assert store.signals.of_run("r1")[0].payload == b"7"
        assert self.do(store, Reseal("r1", changes)) == 0

    def test_a_payload_is_deleted_with_its_last_reference(self, store: Store) -> None:
        old = reference_to(BIG)
        new = reference_to(OTHER)
        self.do(
            store,
            StartRuns(
                [
                    self.new("r1", input=old, payloads=(BIG,)),
                    self.new("r2", input=old, payloads=(BIG,)),
                ]
            ),
        )

        self.do(store, Reseal("r1", [ValueChange("run_input", old, new)], [OTHER]))
        assert (store.payloads.of_run("r1"), store.payloads.of_run("r2")) == (
            [OTHER.digest],
            [BIG.digest],
        )

        self.do(store, Reseal("r2", [ValueChange("run_input", old, new)], [OTHER]))
        assert (store.payloads.get(BIG.digest), store.payloads.get(OTHER.digest)) == (None, OTHER)

    def test_an_unknown_column_is_refused(self, store: Store) -> None:
        self.start(store)

        with pytest.raises(BadOption):
            self.do(store, Reseal("r1", [ValueChange("run_id", b"1", b"2")]))

    def test_keys_in_use_are_counted_by_their_ids(self, store: Store) -> None:
        self.start(store, "r1", input=b"\x00k1\x00psecret")
        run = self.hold(store, "r2", input=b"\x00k2\x00psecret")
        self.advance(
            store,
            run,
            events=[
                self.event(store, "r2", kind=EventKind.STEP_COMPLETED, data=b"\x00k2\x00zsecret")
            ],
        )
        self.start(store, "r3", input=b"\x00\x00zpacked")

        assert store.payloads.keys_in_use() == {"k1": 1, "k2": 2}


class PayloadLawConformance(StoreFixture):
    """``check`` finds broken laws about payloads and reports its progress."""

    def test_a_reference_without_a_payload_use_row_breaks_a_law(self, bare_store: Store) -> None:
        self.do(bare_store, StartRuns([self.new("r1", input=reference_to(BIG), payloads=(BIG,))]))
        assert bare_store.check() == []
        self.execute(bare_store, "DELETE FROM holdfast.payload_use")

        assert any(
            finding.startswith("every payload reference of a run is recorded")
            for finding in bare_store.check()
        )

    def test_progress_of_a_check_is_reported_law_by_law(self, store: Store) -> None:
        progress: list[tuple[int, int]] = []
        store.check(lambda done, total: progress.append((done, total)))

        assert progress[0][0] == 0
        assert progress[-1][0] == progress[-1][1] == len(progress) - 1


def _fields(run: RunRecord) -> dict[str, Any]:
    return {name: getattr(run, name) for name in RunRecord.__struct_fields__}
