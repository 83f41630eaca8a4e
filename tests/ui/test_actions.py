"""What a person does in the UI has its effect in the database, and the page shows it."""

from __future__ import annotations


def test_a_decision_in_the_inbox_lets_the_run_continue(site):
    run = site.engine.start("checkout", "order-7", id="order-7")
    site.page.open("inbox?run=order-7")
    site.page.see("Ship it?")

    site.page.press("approve")

    assert run.result(timeout="20s")["payment"]["payment"] == "p-order-7"
    me = site.page.tab.evaluate("fetch('api/v1/me').then((answer) => answer.json())")
    (gate,) = site.engine.gates.list(status="approved", run="order-7")
    assert [entry.person for entry in gate.entries] == [me["name"]]


def test_a_run_changes_in_place_while_it_is_watched(site):
    site.engine.start("paid", "order-8", id="order-8")
    site.page.open("run/order-8")
    site.page.see("waiting")

    site.engine.signal("order-8", "paid", {"amount": 10})

    site.page.see("completed")
    assert site.page.errors == []


def test_cancel_asks_first_and_names_what_is_undone(site):
    site.engine.start("checkout", "order-9", id="order-9")
    site.page.open("run/order-9")
    site.page.see("Ship it?")

    site.page.press("Cancel")
    site.page.see("Compensations of completed steps run")
    site.page.press("Cancel the run")

    site.page.see("cancelled")
    assert site.engine.run("order-9").wait_until("cancelled", timeout="60s") == "cancelled"


def test_a_failed_run_is_replayed_from_its_page(site):
    site.engine.start("refuse", "order-10", id="order-10")
    site.page.open("run/order-10")
    site.page.see("card expired")

    site.page.press("Replay")
    site.page.tab.get_by_role("dialog").get_by_role("button", name="Replay").click()

    site.page.tab.wait_for_function(
        """fetch('api/v1/runs/order-10/history').then((answer) => answer.json())
           .then((page) => page.items.some((event) => event.kind === 'run_replayed'))"""
    )


def test_a_signal_is_sent_from_the_blocker(site):
    run = site.engine.start("paid", "order-11", id="order-11")
    site.page.open("run/order-11")

    site.page.press("Send the signal")
    site.page.tab.get_by_label("Payload").fill('{"amount": 7}')
    site.page.press("Send")

    assert run.result(timeout="20s") == {"amount": 7}


def test_failed_runs_are_selected_and_replayed_together(site):
    for number in range(3):
        run = site.engine.start("refuse", f"o{number}", id=f"together-{number}")
        run.wait_until("failed", timeout="20s")
    site.page.open("runs?status=failed&id_prefix=together")
    site.page.see("together-1")
    for box in site.page.tab.get_by_role("checkbox").all():
        box.check()

    site.page.press("Replay")
    site.page.see("Replay 3 runs?")
    site.page.tab.get_by_role("dialog").get_by_role("button", name="Replay").click()

    site.page.see("3 changed, 0 refused")


def test_a_group_of_failed_runs_is_replayed_with_one_button(site):
    for number in range(3):
        run = site.engine.start("decline", f"o{number}", id=f"alike-{number}")
        run.wait_until("failed", timeout="20s")
    site.page.open("attention")
    site.page.see("Fail: no credit")

    group = site.page.tab.get_by_role("row", name="Fail: no credit")
    group.get_by_role("button", name="Replay all").click()
    site.page.tab.get_by_role("dialog").get_by_role("button", name="Replay").click()

    site.page.see("3 changed, 0 refused")


def test_a_workflow_is_started_from_its_form(site):
    site.page.open("workflows")
    site.page.see("pack")
    row = site.page.tab.get_by_role("row", name="pack")

    row.get_by_role("button", name="Start").click()
    site.page.tab.get_by_label("order").fill("order-20")
    site.page.tab.get_by_role("dialog").get_by_role("button", name="Start").click()

    site.page.see("packed order-20")


def test_values_are_text_whatever_they_contain(site):
    hostile = "<img src=x onerror=alert(1)><script>alert(2)</script>"
    site.engine.start("pack", hostile, id="hostile", tags={"note": hostile}).result(timeout="20s")

    site.page.open("run/hostile")

    site.page.see("<script>alert(2)</script>")
    assert site.page.tab.evaluate("document.querySelectorAll('main script, main img').length") == 0


def test_a_large_number_keeps_its_digits(site):
    site.engine.start("checkout", "order-12", False, id="order-12").result(timeout="20s")

    site.page.open("run/order-12")

    site.page.see("12345678901234567890")


ODD_ADDRESSES = {
    "run/nowhere": "There is no such run",
    "run/%E0%A4%A": "There is no such run",
    "run/odd?step=nope": "is not in this run, or not unfolded",
    "run/odd?open=nope": "packed odd",
    "inbox?gate=nope": "There is no such gate",
    "graph/nope": "There is no such graph",
    "operation/nope": "There is no such bulk operation",
    "runs?since=garbage": "This value is not a duration",
    "runs?status=nope": "Clear filters",
    "workflow/pack?version=99": "This process knows no workflow with this name",
    "subscriptions?webhook=nope": "There is no such subscription",
    "schedules?name=nope": "There is no such schedule",
    "no-such-screen": "There is no such page",
    "%": "There is no such page",
}


def test_an_address_that_does_not_exist_says_what_is_missing(site):
    site.engine.start("pack", "odd", id="odd").result(timeout="20s")

    for address, text in ODD_ADDRESSES.items():
        site.page.open(address)
        site.page.see(text)

    assert site.page.errors == []


def test_a_person_works_with_the_keyboard_alone(site):
    run = site.engine.start("checkout", "order-14", id="order-14")
    run.wait_until("waiting", timeout="20s")
    page = site.page
    keyboard = page.tab.keyboard
    page.open("runs?id_prefix=order-14")
    page.see("decision “Ship it?”")

    keyboard.press("j")
    keyboard.press("Enter")
    page.tab.wait_for_selector(".diagram")
    for key in ("+", "L", "J"):
        keyboard.press(key)
    page.see("fit")
    keyboard.press("f")
    page.tab.wait_for_selector("text=fit", state="detached")
    page.tab.locator(".diagram .node").nth(1).focus()
    keyboard.press("Enter")
    page.tab.get_by_role("region", name="Step charge").wait_for()
    keyboard.press("c")
    page.see("Compensations of completed steps run")
    keyboard.press("Escape")
    keyboard.press("g")
    keyboard.press("i")
    page.see("What will be done")
    keyboard.press("Control+k")
    keyboard.type("order-14")
    keyboard.press("Enter")
    page.see("Timeline")
    keyboard.press("?")
    page.see("Show all keys")
    keyboard.press("Escape")
    page.open("inbox?run=order-14")
    page.see("What will be done")
    keyboard.press("a")

    run.result(timeout="20s")
    assert page.errors == []
