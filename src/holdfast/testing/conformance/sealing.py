"""Conformance of a sealed store: writes of every process are refused, reads are served."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.core.payload import Seal
from holdfast.core.sessions import Lane
from holdfast.core.status import Status
from holdfast.errors import HoldfastError, StoreInUse, StoreSealed
from holdfast.store.database import Operation
from holdfast.store.installation import HALF_COPIED
from holdfast.store.lanes.operations import SetLane
from holdfast.store.runs.copy_operations import BeginCopy, EndCopy, SealStore, UnsealStore
from holdfast.store.runs.list_query import RunFilter
from holdfast.store.runs.operations import Advance, EndSession, Heartbeat, RequestCancel, StartRuns
from holdfast.store.signals.operations import SignalRun
from holdfast.store.store import Store
from holdfast.testing.conformance.fixture import OpenStore, StoreFixture


class SealConformance(StoreFixture):
    """From the commit that seals it on, a store refuses writes and names where its runs are."""

    def seal(self, store: Store, **options: Any) -> bool:
        seal = Seal(
            at=1_700_000_000_000_000, moved_to="postgresql://db.example/or'ders", copy_id="c1"
        )
        answer: bool = self.do(store, SealStore(seal, **{"check": lambda: True, **options}))
        return answer

    def test_a_sealed_store_refuses_every_kind_of_write_and_says_where_its_runs_are(
        self, store: Store
    ) -> None:
        run = self.hold(store)
        self.start(store, "r2")

        assert self.seal(store) is True

        writes: list[Operation] = [
            StartRuns([self.new("r3")]),
            Advance(run_id="r1", generation=run.generation, events=[self.event(store)]),
            SignalRun("r1", "paid", b"1"),
            RequestCancel("r2", "enough"),
            SetLane(Lane(name="l", concurrency=3)),
            Heartbeat("s1", 15_000_000, 0),
            EndSession("s1", crashed=True),
        ]
        before = (
            store.runs.find(RunFilter()),
            store.runs.history("r1"),
            store.lanes.all(),
            store.signals.of_run("r1"),
        )
        for write in writes:
            with pytest.raises(
                StoreSealed, match=r"moved_to=.postgresql://db.example/or'ders"
            ) as refused:
                store.apply([write])
            assert refused.value.facts["since"] == "2023-11-14T22:13:20+00:00"
        with pytest.raises(StoreSealed):
            store.apply(writes)
        assert (
            store.runs.find(RunFilter()),
            store.runs.history("r1"),
            store.lanes.all(),
            store.signals.of_run("r1"),
        ) == before
        assert store.check() == []

    def test_a_store_that_was_open_before_refuses_too(
        self, store: Store, reopen: OpenStore
    ) -> None:
        self.start(store)
        other = reopen()
        self.start(other, "r2")

        self.seal(store)

        with pytest.raises(StoreSealed):
            self.start(other, "r3")
        with pytest.raises(StoreSealed):
            self.hold(other, "r4")
        assert other.installation.seal() == store.installation.seal()
        assert reopen().installation.seal() is not None

    def test_a_check_that_fails_seals_nothing(self, store: Store) -> None:
        self.start(store)

        assert self.seal(store, check=lambda: False) is False

        assert store.installation.seal() is None
        assert self.start(store, "r2").id == "r2"

    def test_a_check_that_raises_seals_nothing(self, store: Store) -> None:
        def refuse() -> bool:
            raise StoreInUse(worker="w")

        with pytest.raises(StoreInUse):
            self.seal(store, check=refuse)

        assert store.installation.seal() is None
        assert self.start(store).id == "r1"

    def test_the_check_reads_what_is_sealed(self, store: Store) -> None:
        self.start(store)
        seen: list[dict[str, int]] = []

        def record_counts() -> bool:
            seen.append(dict(store.runs.counts()))
            return True

        self.seal(store, check=record_counts)

        assert seen[-1] == {"pending": 1}

    def test_a_store_that_is_unsealed_goes_on(self, store: Store, reopen: OpenStore) -> None:
        self.start(store)
        self.seal(store)

        seal = self.do(reopen(), UnsealStore())

        assert (seal.copy_id, store.installation.seal()) == ("c1", None)
        assert self.do(store, UnsealStore()) is None
        self.finish(store, self.hold(store, "r2"))
        assert self.status(store, "r2") is Status.COMPLETED
        assert self.seal(store) is True
        with pytest.raises(HoldfastError):
            self.start(store, "r3")

    def test_the_end_of_a_copy_may_seal_it(self, store: Store) -> None:
        self.do(store, BeginCopy([], {}, "c7"))
        assert store.installation.setting(HALF_COPIED) == "c7"

        self.do(store, EndCopy(Seal(at=5, copied_from="sqlite:////there.db")))

        assert not store.installation.is_half_copied()
        with pytest.raises(StoreSealed, match="copied_from"):
            self.start(store)
