"""What a run is started with is there as long as the run is, however long it is and wherever a
store keeps it."""

from __future__ import annotations

import msgspec
import pytest

from holdfast.core.status import Status
from holdfast.errors import RunExists
from holdfast.store.contract import Store
from holdfast.store.contract.payloads import Reseal, ValueChange
from holdfast.store.contract.reading import RunFilter
from holdfast.store.contract.runs import DebounceStart, ImportRun, Prune, SignalRun, StartRuns
from holdfast.testing.conformance.fixture import MINUTE, SECOND, HandClock, StoreFixture

SIZES = (1, 600, 601, 5_000, 200_000)


def of(size: int, letter: str = "x") -> bytes:
    """Return an input of so many bytes."""
    return letter.encode() * size


class LargeInputConformance(StoreFixture):
    """Inputs come back as they were given."""

    @pytest.mark.parametrize("size", SIZES)
    def test_an_input_stays_as_it_is_whatever_becomes_of_its_run(
        self, store: Store, size: int
    ) -> None:
        data = of(size)
        self.start(store, input=data)
        seen = [self.get(store).input]

        (run,) = self.claim(store)
        seen.append(run.input)
        self.park(store, run)
        self.do(store, SignalRun("r1", "paid", b"1"))
        (run,) = self.claim(store)
        seen.append(run.input)
        self.finish(store, run)

        assert [*seen, self.get(store).input, store.runs(RunFilter())[0].input] == [data] * 5

    @pytest.mark.parametrize("size", SIZES)
    def test_a_run_is_recognised_by_its_input(self, store: Store, size: int) -> None:
        self.start(store, key="k", input=of(size))

        assert not self.start(store, input=of(size)).created
        assert self.start(store, "r2", key="k", input=of(size)).id == "r1"
        for run_id, key in (("r1", None), ("r2", "k")):
            with pytest.raises(RunExists):
                self.start(store, run_id, key=key, input=of(size, "y"))
        assert self.get(store).input == of(size)

    def test_many_runs_have_each_its_own(self, store: Store) -> None:
        self.start(store, "r7", input=of(900))
        inputs = {
            f"r{number}": of(300 * number + 1) if number != 7 else of(900) for number in range(20)
        }

        started = self.do(
            store, StartRuns([self.new(run_id, input=data) for run_id, data in inputs.items()])
        )

        assert [one.id for one in started if not one.created] == ["r7"]
        assert {run_id: self.get(store, run_id).input for run_id in inputs} == inputs

    @pytest.mark.parametrize("others", [0, 10])
    @pytest.mark.parametrize(("first", "second"), [(10, 900), (900, 10), (900, 901), (900, 900)])
    def test_of_two_with_the_same_id_the_first_counts(
        self, store: Store, first: int, second: int, others: int
    ) -> None:
        more = [self.new(f"other{number}", input=of(900)) for number in range(others)]
        both = StartRuns([*more, self.new(input=of(first)), self.new(input=of(second))])
        if first == second:
            assert [one.created for one in self.do(store, both)][-2:] == [True, False]
            assert self.get(store).input == of(first)
            return

        with pytest.raises(RunExists):
            self.do(store, both)
        assert store.run("r1") is None

    def test_a_refused_start_leaves_none(self, store: Store) -> None:
        self.start(store, "r2", input=of(900))

        with pytest.raises(RunExists):
            self.do(
                store, StartRuns([self.new("r1", input=of(900)), self.new("r2", input=of(901))])
            )

        assert store.run("r1") is None
        assert self.start(store, "r1", input=of(902)).created
        assert self.get(store).input == of(902)

    def test_a_start_within_a_transaction_brings_it(self, store: Store) -> None:
        with pytest.raises(ZeroDivisionError), self.transaction(store) as connection:
            store.start_within(connection, [self.new(input=of(5_000))])
            raise ZeroDivisionError
        assert store.run("r1") is None

        with self.transaction(store) as connection:
            store.start_within(connection, [self.new(input=of(6_000))])

        assert self.get(store).input == of(6_000)

    def test_it_can_be_replaced(self, store: Store) -> None:
        self.start(store, input=of(5_000))

        for old, new in (
            (of(5_000), of(7_000, "y")),
            (of(7_000, "y"), of(10)),
            (of(10), of(9_000)),
        ):
            assert (
                self.do(store, Reseal("r1", [ValueChange("run_input", b"another", b"wrong")])) == 0
            )
            assert self.do(store, Reseal("r1", [ValueChange("run_input", old, new)])) == 1
            assert self.get(store).input == new

    def test_what_is_gathered_takes_its_place(self, store: Store) -> None:
        for data in (of(5_000), of(10), of(6_000, "y")):
            self.do(
                store,
                DebounceStart(run=self.new(input=data), key="k", quiet=SECOND, longest=MINUTE),
            )

        assert self.get(store).input == of(6_000, "y")

    def test_a_copy_has_it(self, store: Store) -> None:
        self.start(store, input=of(5_000))
        whole = {**msgspec.structs.asdict(self.get(store)), "id": "r2"}

        self.do(store, ImportRun(msgspec.convert(whole, type(self.get(store))), {}, []))

        assert self.get(store, "r2").input == of(5_000)

    def test_it_counts_and_goes_with_its_run(self, store: Store, clock: HandClock) -> None:
        self.finish(store, self.hold(store, input=of(5_000)))
        assert store.used_bytes() > 5_000
        clock.move(MINUTE)

        self.do(store, Prune(store.now(), [Status.COMPLETED]))

        assert (store.run("r1"), store.used_bytes()) == (None, 0)
        self.start(store, input=of(10))
        assert self.get(store).input == of(10)

    def test_what_is_sealed_in_it_is_found(self, store: Store) -> None:
        self.start(store, input=b"\x00k1\x00p" + of(5_000))

        assert store.keys_in_use() == {"k1": 1}
