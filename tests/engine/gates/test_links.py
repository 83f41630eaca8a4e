"""Links that answer a gate."""

from __future__ import annotations

import pytest

from holdfast.errors import (
    AlreadyDecided,
    BadOption,
    GateChanged,
    GateClosed,
    NotYourGate,
    TokenExpired,
    TokenRefused,
    UnknownChoice,
)
from holdfast.testing import internals
from tests.engine.gates.workflows import ask, opened, waits


def test_a_link_answers_one_gate_in_one_way_once(engine):
    run = engine.start(ask, {"options": ["yes", "no"], "quorum": 2, "roles": ["finance"]})
    open_gate = opened(engine, run)
    token = engine.gates.link(open_gate, "yes", by="ann", roles=["finance"])

    assert token not in repr(token)
    assert engine.gates.answer(token, feedback="by mail").status == "open"
    with pytest.raises(AlreadyDecided):
        engine.gates.answer(token)
    engine.gates.approve(open_gate, by="bob", roles=["finance"])
    with pytest.raises(GateClosed):
        engine.gates.answer(token)

    assert run.result(timeout=60)["feedback"] == "by mail"


def test_a_link_lapses_with_its_time_its_key_and_what_it_is_about(timed, clock):
    run = timed.start(ask, {"data": 1})
    waits(timed, run)
    tokens = [
        timed.gates.link(run.id, "approve", by="ann", expires=expires)
        for expires in ("1h", "1d", "9d")
    ]
    clock.advance("2h")

    with pytest.raises(TokenExpired):
        timed.gates.answer(tokens[0])
    timed.gates.update(run.id, 2)
    with pytest.raises(GateChanged):
        timed.gates.answer(tokens[1])
    fresh = timed.gates.link(run.id, "approve", by="ann")
    timed.keys.rotate(grace="1h")
    clock.advance("61m")
    for wrong in (fresh, tokens[2], "k.e.y", "", fresh[:-4] + "AAAA"):
        with pytest.raises(TokenRefused) as refused:
            timed.gates.answer(wrong)
        assert str(refused.value) == str(TokenRefused())
    assert timed.gates.get(run.id).status == "open"
    timed.gates.answer(timed.gates.link(run.id, "approve", by="ann"))
    assert run.result(timeout=60)["by"] == "ann"


def test_a_link_that_could_answer_nothing_is_not_made(engine):
    run = engine.start(ask, {"options": ["yes", "no"], "assignees": ["ann"]})
    open_gate = opened(engine, run)

    for error, choice, by, expires in [
        (UnknownChoice, "maybe", "ann", "1d"),
        (NotYourGate, "yes", "bob", "1d"),
        (BadOption, "yes", "ann", "0s"),
    ]:
        with pytest.raises(error):
            engine.gates.link(open_gate, choice, by=by, expires=expires)


def test_a_token_for_something_else_answers_nothing(engine):
    from holdfast.core import tokens

    run = engine.start(ask)
    open_gate = opened(engine, run)
    engine.gates.link(open_gate, "approve", by="ann")
    key = internals(engine).store.keys.all()[0]
    says = {
        "run": run.id,
        "gate": open_gate.id,
        "choice": "approve",
        "by": "ann",
        "roles": [],
        "hash": "",
    }

    with pytest.raises(TokenRefused):
        engine.gates.answer(tokens.sign(key, "signal", says))
    with pytest.raises(TokenRefused):
        engine.gates.answer(tokens.sign(key, "gate", {**says, "gate": "gone"}))
    assert engine.gates.get(open_gate).status == "open"
