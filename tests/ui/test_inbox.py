"""The inbox: each way to decide, alone and several at once, and its effect in the database."""

from __future__ import annotations

import pytest

from tests.engine.waiting import until
from tests.ui.test_buttons import dialog_of, press_in


@pytest.fixture
def opened(site, request):
    """Start a workflow under the name of the test, and open the inbox with its gates."""

    def start(workflow, gates=1):
        name = request.node.name.removeprefix("test_").replace("_", "-")
        run = site.engine.start(workflow, "order", id=name)
        until(lambda: len(site.engine.gates.list(run=name)) == gates, "the gates are open")
        site.page.open(f"inbox?run={name}")
        return run

    return start


def decision(page, prompt):
    """Wait for the decision that is open on the right."""
    page.tab.get_by_role("heading", name=prompt, exact=True).wait_for()


def choose(page, option):
    """Choose an option, wherever its button is: messages that come and go move it."""
    page.tab.get_by_role("button", name=option, exact=True).first.dispatch_event("click")


def test_one_of_several_options_is_chosen(site, opened):
    run = opened("lunch")
    decision(site.page, "What to eat?")

    choose(site.page, "soup")

    assert run.result(timeout="60s") == ["soup"]
    assert site.page.errors == []


def test_several_options_are_selected(site, opened):
    run = opened("lunch")
    decision(site.page, "What to eat?")
    options = site.page.tab.get_by_role("group", name="Select several")

    options.get_by_label("pie").check()
    options.get_by_label("fish").check()
    choose(site.page, "Approve 2 selected")

    assert run.result(timeout="60s") == ["approve", "pie", "fish"]
    assert site.page.errors == []


def test_a_form_has_its_refusals_at_its_fields(site, opened):
    run = opened("repay")
    page = site.page
    decision(page, "How much?")
    field = page.tab.locator(".field")
    page.tab.get_by_label("euros").fill("many")

    choose(page, "approve")
    field.filter(has_text="euros").get_by_role("alert").get_by_text("expected integer").wait_for()
    field.filter(has_text="reason").get_by_role("alert").get_by_text("is missing").wait_for()
    assert page.tab.get_by_label("euros").input_value() == "many"
    page.tab.get_by_label("euros").fill("12")
    choose(page, "approve")
    field.filter(has_text="euros").get_by_role("alert").wait_for(state="detached")
    field.filter(has_text="reason").get_by_role("alert").get_by_text("is missing").wait_for()
    page.tab.get_by_label("reason").fill("broken")
    page.tab.get_by_label("Comment").fill("as agreed")
    choose(page, "approve")

    amount = {"euros": 12, "reason": "broken", "note": None}
    assert run.result(timeout="60s") == ["approve", amount]
    (gate,) = site.engine.gates.list(run=run.id, status="approved")
    assert [entry.feedback for entry in gate.entries] == ["as agreed"]
    assert page.errors == []


FILL_BOTH = """([amount, reason]) => {
  amount.value = '12'
  reason.value = 'broken'
  for (const field of [amount, reason]) field.dispatchEvent(new Event('input', { bubbles: true }))
}"""


def test_fields_that_are_filled_in_at_the_same_time_are_both_kept(site, opened):
    """As by the autofill of a browser: the page is not drawn between the two."""
    run = opened("repay")
    page = site.page
    decision(page, "How much?")
    fields = [page.tab.get_by_label(name).element_handle() for name in ("euros", "reason")]

    page.tab.evaluate(FILL_BOTH, fields)
    choose(page, "approve")

    amount = {"euros": 12, "reason": "broken", "note": None}
    assert run.result(timeout="60s") == ["approve", amount]
    assert page.errors == []


def test_a_gate_with_a_form_is_rejected_without_it(site, opened):
    run = opened("repay")
    decision(site.page, "How much?")

    choose(site.page, "reject")

    run.wait_until("failed", timeout="60s")
    assert len(site.engine.gates.list(run=run.id, status="rejected")) == 1
    assert site.page.errors == []


def test_the_next_decision_opens_by_itself(site, opened):
    run = opened("two_gates", gates=2)
    headings = site.page.tab.get_by_role("heading")
    first = headings.filter(has_text="?").inner_text()
    second = {"Left?": "Right?", "Right?": "Left?"}[first]

    choose(site.page, "approve")
    decision(site.page, second)
    choose(site.page, "approve")

    assert run.result(timeout="60s") == ["approve", "approve"]
    assert site.page.errors == []


def test_several_decisions_are_made_at_once(site, opened):
    run = opened("two_gates", gates=2)
    for prompt in ("Left?", "Right?"):
        site.page.tab.get_by_label(f"Select {prompt}").check()

    site.page.press("Approve")
    with dialog_of(site.page, "Approve"):
        site.page.see("Approve 2 decisions?")

    assert run.result(timeout="60s") == ["approve", "approve"]
    assert site.page.errors == []


def test_a_decision_is_delegated_and_reassigned(site, opened):
    run = opened("lunch")
    page = site.page
    decision(page, "What to eat?")

    page.press("Delegate")
    with dialog_of(page, "Delegate") as dialog:
        dialog.get_by_label("People").fill("ben")
        dialog.get_by_label("Reason").fill("on leave")
    (gate,) = site.engine.gates.list(run=run.id)
    assert [(entry.kind, entry.reason) for entry in gate.entries] == [("delegated", "on leave")]

    page.press("Reassign")
    with dialog_of(page, "Reassign") as dialog:
        dialog.get_by_label("People").fill("ann, cleo")
    (gate,) = site.engine.gates.list(run=run.id)
    assert sorted(gate.assignees) == ["ann", "cleo"]

    press_in(page.tab.get_by_role("main"), "soup")
    page.tab.get_by_role("alert").get_by_text("This person may not decide this gate").wait_for()
    assert run.status == "waiting"
    run.cancel(force=True)
    assert page.errors == []
