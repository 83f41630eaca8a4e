"""Conformance of large inputs: the input of a run exists as long as the run, whatever its length
and wherever the store keeps it."""

from __future__ import annotations

import msgspec
import pytest

from holdfast.core import typed_json
from holdfast.core.status import Status
from holdfast.errors import RunExists
from holdfast.store.payloads.operations import Reseal, ValueChange
from holdfast.store.runs.copy_operations import ImportRun
from holdfast.store.runs.list_query import RunFilter
from holdfast.store.runs.operations import DebounceStart, Prune, StartRuns
from holdfast.store.signals.operations import SignalRun
from holdfast.store.store import Store
from holdfast.testing.conformance.fixture import MINUTE, SECOND, HandClock, StoreFixture

SIZES = (1, 600, 601, 5_000, 200_000)


def input_of(size: int, letter: str = "x") -> bytes:
    """Return an input of *size* bytes."""
    return letter.encode() * size


class LargeInputConformance(StoreFixture):
    """An input of any length is read as it was written, and is deleted with its run."""

    @pytest.mark.parametrize("size", SIZES)
    def test_an_input_is_unchanged_in_every_state_of_its_run(self, store: Store, size: int) -> None:
        data = input_of(size)
        self.start(store, input=data)
        seen = [self.get(store).input]

        (run,) = self.claim(store)
        seen.append(run.input)
        self.park(store, run)
        self.do(store, SignalRun("r1", "paid", b"1"))
        (run,) = self.claim(store)
        seen.append(run.input)
        self.finish(store, run)

        assert [*seen, self.get(store).input, store.runs.find(RunFilter())[0].input] == [data] * 5

    @pytest.mark.parametrize("size", SIZES)
    def test_a_run_is_recognised_by_its_input(self, store: Store, size: int) -> None:
        self.start(store, key="k", input=input_of(size))

        assert not self.start(store, input=input_of(size)).created
        assert self.start(store, "r2", key="k", input=input_of(size)).id == "r1"
        for run_id, key in (("r1", None), ("r2", "k")):
            with pytest.raises(RunExists):
                self.start(store, run_id, key=key, input=input_of(size, "y"))
        assert self.get(store).input == input_of(size)

    def test_many_runs_each_keep_their_own_large_input(self, store: Store) -> None:
        self.start(store, "r7", input=input_of(900))
        inputs = {
            f"r{number}": input_of(300 * number + 1) if number != 7 else input_of(900)
            for number in range(20)
        }

        started = self.do(
            store, StartRuns([self.new(run_id, input=data) for run_id, data in inputs.items()])
        )

        assert [answer.id for answer in started if not answer.created] == ["r7"]
        assert {run_id: self.get(store, run_id).input for run_id in inputs} == inputs

    @pytest.mark.parametrize("others", [0, 10])
    @pytest.mark.parametrize(("first", "second"), [(10, 900), (900, 10), (900, 901), (900, 900)])
    def test_two_starts_of_one_id_in_one_batch_must_have_the_same_large_input(
        self, store: Store, first: int, second: int, others: int
    ) -> None:
        more = [self.new(f"other{number}", input=input_of(900)) for number in range(others)]
        both = StartRuns([*more, self.new(input=input_of(first)), self.new(input=input_of(second))])
        if first == second:
            assert [answer.created for answer in self.do(store, both)][-2:] == [True, False]
            assert self.get(store).input == input_of(first)
            return

        with pytest.raises(RunExists):
            self.do(store, both)
        assert store.runs.get("r1") is None

    def test_a_refused_start_leaves_no_large_input(self, store: Store) -> None:
        self.start(store, "r2", input=input_of(900))

        with pytest.raises(RunExists):
            self.do(
                store,
                StartRuns(
                    [self.new("r1", input=input_of(900)), self.new("r2", input=input_of(901))]
                ),
            )

        assert store.runs.get("r1") is None
        assert self.start(store, "r1", input=input_of(902)).created
        assert self.get(store).input == input_of(902)

    def test_a_start_within_a_transaction_writes_its_large_input(self, store: Store) -> None:
        with pytest.raises(ZeroDivisionError), self.transaction(store) as connection:
            store.start_within(connection, [self.new(input=input_of(5_000))])
            raise ZeroDivisionError
        assert store.runs.get("r1") is None

        with self.transaction(store) as connection:
            store.start_within(connection, [self.new(input=input_of(6_000))])

        assert self.get(store).input == input_of(6_000)

    def test_a_large_input_can_be_resealed(self, store: Store) -> None:
        self.start(store, input=input_of(5_000))

        for old, new in (
            (input_of(5_000), input_of(7_000, "y")),
            (input_of(7_000, "y"), input_of(10)),
            (input_of(10), input_of(9_000)),
        ):
            assert (
                self.do(store, Reseal("r1", [ValueChange("run_input", b"another", b"wrong")])) == 0
            )
            assert self.do(store, Reseal("r1", [ValueChange("run_input", old, new)])) == 1
            assert self.get(store).input == new

    def test_a_debounced_start_replaces_the_large_input(self, store: Store) -> None:
        for data in (input_of(5_000), input_of(10), input_of(6_000, "y")):
            self.do(
                store,
                DebounceStart(run=self.new(input=data), key="k", quiet=SECOND, longest=MINUTE),
            )

        assert self.get(store).input == input_of(6_000, "y")

    def test_an_imported_run_keeps_its_large_input(self, store: Store) -> None:
        self.start(store, input=input_of(5_000))
        whole = {**msgspec.structs.asdict(self.get(store)), "id": "r2"}

        self.do(store, ImportRun(typed_json.convert(whole, type(self.get(store))), {}, []))

        assert self.get(store, "r2").input == input_of(5_000)

    def test_a_large_input_counts_as_used_bytes_and_is_pruned_with_its_run(
        self, store: Store, clock: HandClock
    ) -> None:
        self.finish(store, self.hold(store, input=input_of(5_000)))
        assert store.retention.used_bytes() > 5_000
        clock.move(MINUTE)

        self.do(store, Prune(store.now(), [Status.COMPLETED]))

        assert (store.runs.get("r1"), store.retention.used_bytes()) == (None, 0)
        self.start(store, input=input_of(10))
        assert self.get(store).input == input_of(10)

    def test_the_key_of_a_sealed_large_input_counts_as_in_use(self, store: Store) -> None:
        self.start(store, input=b"\x00k1\x00p" + input_of(5_000))

        assert store.payloads.keys_in_use() == {"k1": 1}
