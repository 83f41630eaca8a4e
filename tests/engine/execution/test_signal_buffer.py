"""The untaken signals of a run, by themselves."""

from holdfast.core.waits import Signal
from holdfast.engine.execution.signal_buffer import SignalBuffer


def signal(number: int, name: str = "paid", **more: object) -> Signal:
    return Signal(id=number, number=number, name=name, payload=b"1", at=number, **more)


def test_the_oldest_signal_of_a_name_is_taken_first():
    signals = SignalBuffer([signal(1), signal(2, "other"), signal(3)], is_exact=True)

    assert signals.has("paid")
    assert signals.take("paid").id == 1
    assert signals.take("paid").id == 3
    assert signals.take("paid") is None
    assert [left.id for left in signals] == [2]


def test_a_signal_to_a_wait_or_a_step_is_not_taken_by_name():
    signals = SignalBuffer([signal(1, wait_id="w"), signal(2, step="pack")], is_exact=True)

    assert not signals.has("paid")
    assert signals.take("paid") is None


def test_conditions_are_evaluated_over_the_signals_up_to_an_instant():
    signals = SignalBuffer([signal(1), signal(2, wait_id="w"), signal(3, step="a")], is_exact=True)

    assert [found.id for found in signals.addressed()] == [1, 2]
    assert [found.id for found in signals.addressed(1)] == [1]


def test_signals_whose_taking_is_not_committed_yet_do_not_come_back():
    signals = SignalBuffer([], is_exact=False)

    signals.replace([signal(1), signal(2)], {1})

    assert [left.id for left in signals] == [2]
    assert signals.is_exact


def test_all_releases_of_a_step_are_taken_at_once():
    signals = SignalBuffer(
        [signal(1, step="a"), signal(2, step="b"), signal(3, step="a")], is_exact=True
    )

    assert signals.release_of("a").id == 1
    assert signals.releases_of("a") == [1, 3]
    assert signals.take_releases("a") == [1, 3]
    assert signals.release_of("a") is None
    assert signals.release_of("b") is not None


def test_a_signal_that_a_program_names_release_releases_nothing():
    signals = SignalBuffer([signal(1, "release"), signal(2, "release", step="a")], is_exact=True)

    assert [found.is_release for found in signals] == [False, True]
    assert signals.take("release").id == 1
    assert signals.take("release") is None
