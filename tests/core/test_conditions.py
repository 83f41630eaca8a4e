"""Conditions: judged over all signals, each node counting for itself, met once and for all."""

from __future__ import annotations

import itertools
from typing import NamedTuple

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.core.conditions import evaluation as of
from holdfast.core.conditions import validation as condition_validation
from holdfast.core.conditions.evaluation import ConditionProgress
from holdfast.core.conditions.model import (
    AllOf,
    AnyOf,
    Condition,
    Count,
    SignalEffect,
    SignalNamed,
    SignalToWait,
)
from holdfast.errors import BadCondition


class Told(NamedTuple):
    name: str
    source: str | None = None
    payload: object = None
    wait_id: str | None = None


def read(signal: Told) -> object:
    return signal.payload


def handed(wait: str, until: int | None = None) -> SignalToWait:
    return SignalToWait(wait, f"create {wait}", wait, until)


def tally(condition: Condition, *signals: Told | str) -> ConditionProgress:
    return ConditionProgress(condition_validation.checked_condition(condition), read).offer_all(
        [Told(signal) if isinstance(signal, str) else signal for signal in signals]
    )


PAID, SHIPPED, VOTE = SignalNamed("paid"), SignalNamed("shipped"), SignalNamed("vote")


# One by one


def test_a_name_is_met_by_the_first_signal_of_that_name():
    tallied = tally(PAID, "other", "paid", "paid")

    assert (tallied.met, tallied.satisfiers(), tallied.spent()) == (True, [1], [1])


def test_all_of_needs_every_member_and_any_of_needs_one():
    both, either = AllOf((PAID, SHIPPED)), AnyOf((PAID, SHIPPED))

    assert not tally(both, "paid", "paid").met
    assert tally(both, "shipped", "paid").satisfiers() == [0, 1]
    assert tally(either, "shipped", "paid").satisfiers() == [0]


def test_signals_are_counted_or_those_who_sent_them():
    votes = [Told("vote", "ann"), Told("vote", "ann"), Told("vote", "bob")]

    assert tally(Count(2, (VOTE,)), *votes).satisfiers() == [0, 1]
    by_source = tally(Count(2, (VOTE,), "sources"), *votes)
    assert (by_source.satisfiers(), by_source.spent()) == ([0, 2], [0, 1, 2])


def test_signals_without_a_source_have_one_source_together():
    assert not tally(Count(2, (VOTE,), "sources"), "vote", "vote").met


def test_conditions_are_counted_too():
    two_of_three = Count(2, (PAID, AllOf((SHIPPED, VOTE)), handed("w")), "waits")

    assert not tally(two_of_three, "paid", "paid", "shipped").met
    assert tally(two_of_three, "paid", "shipped", "vote").satisfiers() == [0, 1, 2]
    assert tally(two_of_three, "shipped", Told("x", wait_id="w"), "paid").satisfiers() == [1, 2]


def test_two_counts_in_one_tree_count_for_themselves():
    tree = AllOf((Count(2, (VOTE,)), Count(2, (VOTE, PAID))))

    assert not tally(tree, "vote", "paid").met
    assert tally(tree, "vote", "vote").met


def test_a_wait_is_met_by_what_was_delivered_to_it_whatever_its_name():
    assert not tally(handed("w"), "w", Told("w", wait_id="other")).met
    assert tally(handed("w"), Told("anything", wait_id="w")).met
    wants_a_name = SignalToWait("w", "create w", "w", name="yes")
    assert [tally(wants_a_name, Told(name, wait_id="w")).met for name in ("no", "yes")] == [
        False,
        True,
    ]


def test_what_comes_after_the_last_one_needed_is_left_for_others():
    tallied = tally(AnyOf((AllOf((PAID, VOTE)), SHIPPED)), "paid", "shipped", "vote", "paid")

    assert (tallied.satisfiers(), tallied.spent()) == ([1], [1])


def test_a_condition_that_is_not_met_says_what_is_missing_and_what_is_there():
    tallied = tally(
        AllOf((PAID, AnyOf((SHIPPED, Count(2, (VOTE,), "sources"))))), "paid", Told("vote", "ann")
    )

    assert tallied.here() == ["'paid'"]
    assert tallied.missing() == ["any of ('shipped', 2 distinct sources of 'vote', 1 so far)"]
    assert tallied.open_leaf() == SHIPPED
    assert tallied.spent() == [0, 1]


@pytest.mark.parametrize(
    ("wanted", "payload", "fits"),
    [
        ({}, {"a": 1}, True),
        ({"a": 1}, {"a": 1, "b": 2}, True),
        ({"a": 1}, {"b": 1}, False),
        ({"a": 1}, {"a": True}, False),
        ({"a": True}, {"a": 1}, False),
        ({"a": 1}, {"a": 1.0}, True),
        ({"a": None}, {}, False),
        ({"a": None}, {"a": None}, True),
        ({"a": {"b": [1, {"c": 2}]}}, {"a": {"b": [1, {"c": 2, "d": 3}], "e": 4}}, True),
        ({"a": [1]}, {"a": [1, 2]}, False),
        ({"a": "__class__"}, {"a": 1}, False),
        ({"a": 1}, [1], False),
        ({"a": 1}, "a", False),
        ({"a": 1}, None, False),
    ],
)
def test_a_payload_has_what_is_wanted_in_it(wanted, payload, fits):
    assert tally(SignalNamed("paid", wanted), Told("paid", payload=payload)).met is fits


@pytest.mark.parametrize(
    ("before", "new", "effect"),
    [
        ((), "other", SignalEffect.KEPT),
        ((), "paid", SignalEffect.KEPT),
        (("paid",), "paid", SignalEffect.DUPLICATE),
        (("paid",), Told("vote", payload={"ok": False}), SignalEffect.IGNORED),
        (("paid",), Told("vote", payload={"ok": True}), SignalEffect.SATISFIED),
        (("paid", Told("vote", payload={"ok": True})), "paid", SignalEffect.KEPT),
    ],
)
def test_a_new_signal_is_told_what_it_came_to(before, new, effect):
    tallied = tally(AllOf((PAID, SignalNamed("vote", {"ok": True}))), *before)

    assert tallied.offer(Told(new) if isinstance(new, str) else new) == effect


# Time


def test_a_condition_is_hopeless_when_waits_that_it_needs_have_expired():
    assert tally(handed("w", 5)).is_hopeless(5)
    assert not tally(handed("w", 5)).is_hopeless(4)
    assert not tally(handed("w", 5), Told("x", wait_id="w")).is_hopeless(9)
    assert not tally(AnyOf((handed("w", 5), PAID))).is_hopeless(9)
    assert tally(AllOf((handed("w", 5), PAID))).is_hopeless(9)
    assert not tally(AllOf((handed("w", 5), PAID)), Told("x", wait_id="w")).is_hopeless(9)
    assert not tally(Count(2, (handed("v", 5), handed("w")), "sources")).is_hopeless(9)
    assert tally(Count(2, (handed("v", 5), handed("w")), "waits")).is_hopeless(9)


def test_the_next_expiry_is_told():
    tree = AllOf((handed("a", 7), AnyOf((handed("b", 5), handed("c"), PAID))))

    assert [of.next_expiry(tree, now) for now in (1, 5, 7)] == [5, 7, None]
    assert set(of.issued_waits(tree)) == {"a", "b", "c"}


# Refused


def nested(depth: int) -> Condition:
    return PAID if depth == 0 else AllOf((nested(depth - 1),))


@pytest.mark.parametrize(
    ("condition", "why"),
    [
        (AllOf(()), "empty"),
        (AnyOf((PAID, AnyOf(()))), "empty"),
        (Count(1, ()), "empty"),
        (Count(0, (PAID,)), "from 1 on"),
        (Count(True, (PAID,)), "from 1 on"),
        (Count(1.5, (PAID,)), "from 1 on"),
        (Count(3, (PAID, VOTE), "waits"), "has only 2"),
        (Count(1, (PAID,), "people"), "must be one of"),
        (Count(2, (AllOf((PAID,)),), "sources"), "only names and waits"),
        (SignalNamed(""), "the name of a signal"),
        (SignalNamed(7), "the name of a signal"),
        (SignalNamed("paid", ["amount"]), "mapping"),
        (SignalNamed("paid", {1: 2}), "mapping"),
        (SignalNamed("paid", {"a": object()}), "plain data"),
        (SignalNamed("paid", {"a": "x" * 9000}), "bytes"),
        (nested(5), "5 levels deep"),
    ],
)
def test_what_nothing_could_meet_is_refused(condition, why):
    with pytest.raises(BadCondition, match=why):
        condition_validation.checked_condition(condition)


def test_four_levels_are_deep_enough():
    assert tally(nested(4), "paid").met


# Any tree, any signals


leaves = st.one_of(
    st.builds(SignalNamed, st.sampled_from("abc"), st.none() | st.just({"ok": True})),
    st.sampled_from("vw").map(handed),
)


def _groups(inner):
    some = st.lists(inner, min_size=1, max_size=3).map(tuple)
    few = st.lists(leaves, min_size=1, max_size=3).map(tuple)
    return st.one_of(
        st.builds(AllOf, some),
        st.builds(AnyOf, some),
        st.builds(Count, st.integers(1, 3), few, st.sampled_from(["signals", "sources"])),
        some.flatmap(
            lambda members: st.builds(
                Count, st.integers(1, len(members)), st.just(members), st.just("waits")
            )
        ),
    )


def _trees(depth: int):
    return leaves if depth == 0 else st.one_of(leaves, _groups(_trees(depth - 1)))


trees = _trees(3)
told = st.lists(
    st.builds(
        Told,
        st.sampled_from("abcd"),
        st.sampled_from([None, "ann", "bob"]),
        st.sampled_from([{"ok": True}, {"ok": False}, 3]),
        st.sampled_from([None, None, "v", "w"]),
    ),
    max_size=8,
)


def holds(condition: Condition, signals: list[Told]) -> bool:
    """Say whether a set of signals meets a condition, by its definition alone."""
    if isinstance(condition, AllOf):
        return all(holds(member, signals) for member in condition.of)
    if isinstance(condition, AnyOf):
        return any(holds(member, signals) for member in condition.of)
    if isinstance(condition, Count) and condition.distinct == "waits":
        return sum(holds(member, signals) for member in condition.of) >= condition.n
    parts = condition.of if isinstance(condition, Count) else (condition,)
    fitting = [
        place
        for place, signal in enumerate(signals)
        if any(of.matches(leaf, signal, read) for leaf in parts)
    ]
    if isinstance(condition, Count):
        by_source = condition.distinct == "sources"
        return (
            len({signals[place].source for place in fitting} if by_source else fitting)
            >= condition.n
        )
    return bool(fitting)


@settings(max_examples=400, deadline=None)
@given(trees, told)
def test_a_tree_is_met_exactly_when_its_definition_says_so(tree, signals):
    assert tally(tree, *signals).met == holds(tree, signals)


@settings(max_examples=400, deadline=None)
@given(trees, told)
def test_it_is_met_by_the_first_signal_that_makes_it_whole_and_that_signal_is_among_its_satisfiers(
    tree, signals
):
    tallied = tally(tree, *signals)
    if not tallied.met:
        return
    last = max(tallied.satisfiers())
    assert holds(tree, signals[: last + 1]) and not holds(tree, signals[:last])
    assert holds(tree, [signals[place] for place in tallied.satisfiers()])
    assert set(tallied.satisfiers()) <= set(tallied.spent()) <= set(range(last + 1))


@settings(max_examples=300, deadline=None)
@given(trees, told, told)
def test_once_met_it_stays_met_and_by_the_same(tree, signals, more):
    tallied = tally(tree, *signals)
    later = tally(tree, *signals, *more)
    assert not tallied.met or (
        later.met
        and later.satisfiers() == tallied.satisfiers()
        and later.spent() == tallied.spent()
    )


@settings(max_examples=300, deadline=None)
@given(trees, told)
def test_the_effect_of_each_signal_tells_when_it_is_met(tree, signals):
    found, effects = ConditionProgress(tree, read), []
    for signal in signals:
        effects.append(found.offer(signal))
    met = [place for place, effect in enumerate(effects) if effect is SignalEffect.SATISFIED]
    assert len(met) == int(found.met)
    assert not met or met == [max(found.satisfiers())]


@settings(max_examples=200, deadline=None)
@given(trees, told)
def test_something_is_missing_exactly_while_it_is_not_met(tree, signals):
    tallied = tally(tree, *signals)
    assert bool(tallied.missing()) == (not tallied.met) == (tallied.open_leaf() is not None)


@settings(max_examples=300, deadline=None)
@given(_trees(3), told, told)
def test_told_by_kind_and_number_it_comes_to_the_same(tree, signals, more):
    one_by_one, by_kind = ConditionProgress(tree, read), ConditionProgress(tree, read)
    for signal in signals:
        one_by_one.offer(signal)
    kinds = {str(signal): signal for signal in signals}
    for text, signal in kinds.items():
        by_kind.offer(signal, sum(str(other) == text for other in signals))

    assert one_by_one.met == by_kind.met
    assert by_kind.met or not more or one_by_one.offer(more[0]) == by_kind.offer(more[0])


@settings(max_examples=200, deadline=None)
@given(trees)
def test_a_tree_survives_its_trip_through_json(tree):
    assert msgspec.json.decode(msgspec.json.encode(tree), type=Condition) == tree
    assert msgspec.convert(msgspec.to_builtins(tree), Condition) == tree
    assert of.show(tree)


@settings(max_examples=200, deadline=None)
@given(trees, told)
def test_hope_is_lost_only_where_no_signals_could_help(tree, signals):
    aged = msgspec.json.encode(tree).replace(b'"label":"v"', b'"label":"v","until":5')
    old = msgspec.json.decode(aged, type=Condition)
    tallied = tally(old, *signals)
    everything = [
        Told(name, source, {"ok": True}, wait)
        for name, source, wait in itertools.product(
            "abc", ("ann", "bob", "cy", "dora"), (None, "w")
        )
    ]
    assert tallied.is_hopeless(9) == (not holds(old, [*signals, *everything]))
