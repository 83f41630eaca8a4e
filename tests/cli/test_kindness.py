"""Commands that help: the cause first, and the word that was meant."""

from __future__ import annotations

import json

import pytest


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["rnus"], "did you mean holdfast runs?"),
        (["prune"], "did you mean holdfast db prune?"),
        (["db", "chekc"], "did you mean holdfast db check?"),
        (["schedules", "remvoe"], "did you mean holdfast schedules remove?"),
        (["runs", "--stauts", "failed"], "did you mean --status?"),
        (["events", "webhooks", "--jsn"], "did you mean --json?"),
        (["show", "--namespace", "x"], "did you mean holdfast --namespace ... show?"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_a_misspelt_word_is_told_with_the_word_that_was_meant(call, words, meant):
    call.start("shop.py:parcel", '"a"')

    assert meant in call.error(*words, code=2)
    assert meant in json.loads(call("--json", *words, code=2).stderr)["hint"]


def test_a_word_that_resembles_nothing_has_no_suggestion(call):
    assert "did you mean" not in call.error("xyzzy", code=2)


def test_a_misspelt_run_is_told_with_the_run_that_was_meant(call):
    call.start("shop.py:parcel", '"a"', "--id", "order-77")

    assert "did you mean order-77?" in call.error("show", "ordr-77")
    assert "give at least the first 6 characters" in call.error("show", "order")


def test_a_run_of_another_namespace_is_never_suggested(call):
    call("--namespace", "acme", "run", "shop.py:parcel", '"a"', "--id", "order-77", "--detach")

    assert "order-77" not in call.error("--namespace", "other", "show", "ordr-77")


def test_a_misspelt_workflow_is_told_with_the_one_that_was_meant(call):
    line = call.error("run", "shop.py:chekout")

    assert "did you mean shop.py:checkout?" in line


def test_the_cause_of_a_failure_comes_first_and_its_place_after_it(call, folder):
    (folder / "chain.py").write_text(
        "from holdfast import step, workflow\n"
        "@step\n"
        "def pay():\n"
        "    raise ValueError('card expired') from ConnectionError('no route')\n"
        "@workflow\n"
        "async def buying():\n"
        "    await pay()\n"
    )
    first = "ConnectionError: no route (raised as ValueError: card expired, in step pay"

    assert f"{first}, run " in call("run", "chain.py:buying", code=1).stderr
    assert first in call.text("runs")
    assert f"it failed with {first})" in call.text("why", "last")
    assert f"error     {first})" in call.text("show", "last")
    assert "raise ValueError('card expired')" in call.text("show", "last")
