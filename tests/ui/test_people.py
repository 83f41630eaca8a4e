"""People with API keys of different roles, and pages that outlive their server."""

from __future__ import annotations

import signal

import pytest

from holdfast import Engine
from tests.server.clients import ServeProcess
from tests.ui.conftest import SHOP
from tests.ui.pages import PATIENCE


@pytest.fixture(scope="module")
def people(tmp_path_factory):
    """A server for people with API keys of their own, and its database."""
    database = str(tmp_path_factory.mktemp("shop") / "shop.db")
    with ServeProcess(database, "--worker", str(SHOP)) as server:
        yield server, database


@pytest.fixture
def waiting(people, request):
    """The server, an engine, and a run that waits for a decision."""
    server, database = people
    with Engine(database, work=False) as engine:
        run = engine.start("checkout", "order-7", id=request.node.name.replace("_", "-"))
        run.wait_until("waiting", timeout="20s")
        yield server, engine, run
        if run.status == "waiting":
            run.cancel(force=True)


def log_in(page, api_key):
    page.tab.goto(page.url)
    page.tab.get_by_label("API key").fill(api_key)
    page.press("Log in")
    page.tab.wait_for_selector("nav >> text=Runs")


BUTTONS = {
    "run/{id}": ("checkout", ".facts", ("Signal", "Fork", "Cancel")),
    "lanes": ("Lanes and workers", "table[aria-label=Lanes]", ("Pause",)),
    "versions": ("Versions", "table[aria-label=Versions]", ("Check the live runs",)),
    "storage": ("Storage", ".facts", ("Check the database",)),
}
"""The screens: the heading, what is there when all buttons are, and the buttons."""
OPERATES = {"Signal", "Fork", "Cancel", "Pause", "Check the live runs"}


def test_each_role_sees_its_screens_and_buttons(waiting, browser):
    server, engine, run = waiting
    may = {"viewer": set(), "operator": OPERATES, "admin": {*OPERATES, "Check the database"}}
    for role, expected in may.items():
        key = engine.api_keys.add(f"{role}-key", roles=[role])
        with browser.page(server, log_in=False) as page:
            log_in(page, key.api_key)
            shown = set()
            for address, (title, content, names) in BUTTONS.items():
                page.open(address.format(id=run.id))
                page.see_screen(title)
                page.tab.wait_for_selector(f"main {content}")
                shown |= {
                    name
                    for name in names
                    if page.tab.get_by_role("button", name=name, exact=True).count()
                }

            assert shown == expected, role
            has_keys = page.tab.locator("nav >> text=API keys").count()
            assert bool(has_keys) == (role == "admin")


def test_an_approver_sees_the_inbox_and_nothing_else(waiting, browser):
    server, engine, run = waiting
    key = engine.api_keys.add("boss", roles=["approver"])
    with browser.page(server, log_in=False) as page:
        page.tab.goto(page.url)
        page.tab.get_by_label("API key").fill("hf_nothing_of_ours")
        page.press("Log in")
        page.tab.wait_for_selector("[role=alert]")
        page.tab.get_by_label("API key").fill(key.api_key)
        page.press("Log in")
        page.see("What will be done")
        assert page.tab.locator("nav a").all_inner_texts() == ["Holdfast", "Inbox"]

        page.open("runs")
        page.see("You may not see this page")
        page.open("inbox")
        page.press("approve")

        run.result(timeout="20s")
        assert page.errors == []


def test_a_login_that_ends_in_a_dialog_keeps_the_typed_text(waiting, browser):
    server, engine, run = waiting
    key = engine.api_keys.add(f"ann of {run.id}", roles=["operator"])
    with browser.page(server, log_in=False) as page:
        log_in(page, key.api_key)
        page.open(f"run/{run.id}")
        page.press("Cancel")
        page.tab.get_by_label("Reason").fill("the customer called")
        page.tab.context.clear_cookies()
        page.press("Cancel the run")

        dialog = page.tab.get_by_role("dialog")
        dialog.get_by_label("API key").fill(key.api_key)
        dialog.get_by_role("button", name="Log in").click()
        dialog.get_by_label("API key").wait_for(state="detached")
        assert dialog.get_by_label("Reason").input_value() == "the customer called"
        page.press("Cancel the run")

        page.see("the customer called")
        # The reason is shown while the compensations run.
        assert run.wait_until("cancelled", timeout="60s") == "cancelled"


def test_two_people_on_one_decision_see_each_other(waiting, browser):
    server, engine, run = waiting
    key = engine.api_keys.add(f"ann of {run.id}", roles=["operator"])
    with browser.page(server) as first, browser.page(server, log_in=False) as second:
        log_in(second, key.api_key)
        for page in (first, second):
            page.open(f"inbox?run={run.id}")
            page.see("What will be done")

        first.press("approve")

        second.see("/No decision is open|approved/")


def test_a_page_catches_up_after_its_server_was_restarted(browser, tmp_path):
    database = str(tmp_path / "shop.db")
    with (
        ServeProcess(database, "--worker", str(SHOP)) as server,
        Engine(database, work=False) as engine,
        browser.page(server) as page,
    ):
        engine.start("checkout", "order-7", id="order-7")
        page.open("run/order-7")
        page.see("Ship it?")
        port = server.url.rstrip("/").rpartition(":")[2]
        server.process.send_signal(signal.SIGKILL)
        server.process.wait()
        page.press("Signal")
        page.tab.get_by_role("dialog").get_by_role("button", name="Send").click()
        page.see("The server does not answer.")
        page.press("Close")

        with ServeProcess(database, "--worker", str(SHOP), "--port", port):
            engine.gates.approve("order-7", by="ben")

            page.tab.wait_for_selector(".bar >> .state.completed", timeout=PATIENCE)
            page.see("caught up")
            assert page.errors == []
