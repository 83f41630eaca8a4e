"""Each button of the screens of operators has its effect in the database."""

from __future__ import annotations

import re
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing, contextmanager
from datetime import timedelta

import httpx
import pytest

import holdfast
from holdfast import Engine
from holdfast.errors import LeaseLost
from holdfast.testing import internals
from tests.engine.receiver import Receiver
from tests.engine.waiting import one_lease, until
from tests.server.clients import ServeProcess
from tests.ui.conftest import SHOP, opened_page
from tests.ui.pages import Site


@pytest.fixture(scope="module")
def shared_page(browser, tmp_path_factory):
    """As for other tests, with a worker that delivers webhooks to this computer."""
    database = str(tmp_path_factory.mktemp("shop") / "shop.db")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOLDFAST_WEBHOOK_HOSTS", "127.0.0.1")
        with opened_page(browser, database) as (server, page):
            yield database, server, page


def table(page, name):
    return page.tab.get_by_role("table", name=name, exact=True)


def row_of(page, name, text):
    """Return the row of a table that contains a text."""
    return table(page, name).get_by_role("row", name=text)


def press_in(place, name):
    """Press a button of a row or of a dialog."""
    place.get_by_role("button", name=name, exact=True).click()


@contextmanager
def dialog_of(page, verb):
    """Fill in the dialog that is open, then press its button; the dialog closes when its action
    has succeeded."""
    dialog = page.tab.get_by_role("dialog")
    dialog.wait_for()
    yield dialog
    press_in(dialog, verb)
    dialog.wait_for(state="detached")


def confirm(page, verb):
    with dialog_of(page, verb):
        pass


@contextmanager
def answering_as_now(page, name):
    """Answer all requests of the page for a list as the server answers now."""
    address = f"**/api/v1/{name}?*"
    answer = page.tab.evaluate(f"fetch('api/v1/{name}?limit=50').then((answer) => answer.text())")
    page.tab.route(
        address, lambda route: route.fulfill(body=answer, content_type="application/json")
    )
    try:
        yield
    finally:
        page.tab.unroute(address)


def test_a_refusal_of_a_button_without_a_dialog_is_shown(site):
    site.engine.schedules.set("short", "pack", cron="0 3 1 1 *", args=["y"], paused="a while")
    page = site.page
    page.open("schedules")
    row = row_of(page, "Schedules", "short")
    row.wait_for()
    with answering_as_now(page, "schedules"):  # the page does not learn that the schedule goes
        site.engine.schedules.remove("short")

        press_in(row, "Resume")

        page.tab.get_by_role("alert").get_by_text("There is no such schedule").wait_for()
    assert page.errors == []


def test_a_lane_is_paused_drained_and_limited(site):
    site.engine.lanes.set("mail", concurrency=2)
    page = site.page
    page.open("lanes")
    row = row_of(page, "Lanes", "mail")

    for button, state in (
        ("Pause", (True, False)),
        ("Drain", (True, True)),
        ("Resume", (False, True)),
        ("Stop draining", (False, False)),
    ):
        press_in(row, button)
        until(lambda: _lane_state(site) == state, button)  # noqa: B023
    press_in(row, "Edit")
    with dialog_of(page, "Save") as dialog:
        dialog.get_by_label(re.compile(r"^Runs at once \(")).fill("5")
        dialog.get_by_label(re.compile(r"^Starts per time \(")).fill("10/s")

    lane = site.engine.lanes.get("mail")
    assert (lane.concurrency, lane.rate) == (5, "10/s")
    row.get_by_text("0 of 5").wait_for()
    assert page.errors == []


def _lane_state(site):
    lane = site.engine.lanes.get("mail")
    return lane.paused, lane.draining


def test_a_schedule_is_paused_triggered_backfilled_and_removed(site):
    schedules = site.engine.schedules
    schedules.set("yearly", "pack", cron="0 3 1 1 *", args=["y"], overlap="allow")
    page = site.page
    page.open("schedules")
    row = row_of(page, "Schedules", "yearly")

    press_in(row, "Pause")
    with dialog_of(page, "Pause") as dialog:
        dialog.get_by_label("Reason").fill("inventory")
    assert schedules.get("yearly").paused == "inventory"
    row.get_by_text("inventory").wait_for()
    press_in(row, "Resume")
    until(lambda: schedules.get("yearly").paused is None)

    press_in(row, "Trigger")
    confirm(page, "Start")
    until(lambda: _ticks(site, "yearly"))

    press_in(row, "Backfill")
    dialog = page.tab.get_by_role("dialog")
    dialog.get_by_label("From").fill("2022-12-30T00:00")
    dialog.get_by_label("Until").fill("2025-01-03T00:00")
    press_in(dialog, "Preview")
    page.see("Start 3 runs?")
    assert not {2023, 2024, 2025} & {tick.year for tick in _ticks(site, "yearly")}
    confirm(page, "Start")
    assert {2023, 2024, 2025} <= {tick.year for tick in _ticks(site, "yearly")}

    press_in(row, "yearly")
    press_in(table(page, "Schedules"), "Remove")
    with dialog_of(page, "Remove") as dialog:
        dialog.get_by_label("Type yearly to confirm").fill("yearly")
    assert "yearly" not in [schedule.name for schedule in schedules.list()]
    row.wait_for(state="detached")
    assert page.errors == []


def _ticks(site, schedule):
    runs = site.engine.runs(workflow="pack")
    return [run.tick_at for run in runs if run.schedule == schedule]


def test_a_budget_is_raised_and_reset(site):
    budgets = site.engine.budgets
    budgets.set("words", {"words": 500})
    budgets.spend("words", {"words": 20})
    page = site.page
    page.open("budgets")
    row = row_of(page, "Budgets", "words")
    row.get_by_text("words 20 of 500").wait_for()

    press_in(row, "Raise limits")
    with dialog_of(page, "Raise") as dialog:
        dialog.get_by_label("words").fill("250")
    assert budgets.get("words").dimensions["words"].hard == 750
    row.get_by_text("words 20 of 750").wait_for()

    press_in(row, "Reset")
    confirm(page, "Reset")
    assert budgets.get("words").dimensions["words"].used == 0
    row.get_by_text("words 0 of 750").wait_for()
    assert page.errors == []


def test_an_api_key_is_added_used_and_revoked(site, browser):
    page = site.page
    page.open("api-keys")

    page.press("Add")
    with dialog_of(page, "Add") as dialog:
        dialog.get_by_label("Name", exact=True).fill("ann")
        dialog.get_by_label("Role").select_option("operator")
        dialog.get_by_label("Expires after").fill("90d")
    (key,) = (key for key in site.engine.api_keys.list() if key.name == "ann")
    assert (key.roles, key.state) == (["operator"], "active")
    page.see("Copy the secret now")
    secret = page.tab.locator(".notice code").inner_text()
    assert _me(site, secret).json()["name"] == "ann"
    page.press("Done")
    page.tab.get_by_text(secret).wait_for(state="detached")

    with browser.page(site.server, log_in=False) as other:
        other.tab.goto(other.url)
        other.tab.get_by_label("API key").fill(secret)
        other.press("Log in")
        other.see("Workers alive")
        page.open("overview")
        page.see("Workers alive")
        page.open("api-keys")
        press_in(row_of(page, "Login sessions", "ann"), "End")
        confirm(page, "End")
        store = internals(site.engine).store
        assert "ann" not in [login.grant.name for login in store.logins.sessions()]
        other.open("runs")
        other.see("Log in")

    press_in(row_of(page, "API keys", "ann"), "Revoke")
    confirm(page, "Revoke")
    (key,) = (key for key in site.engine.api_keys.list() if key.name == "ann")
    assert key.state == "revoked"
    assert _me(site, secret).status_code == 401
    row_of(page, "API keys", "ann").get_by_text("revoked").wait_for()
    assert page.errors == []


def _me(site, secret):
    return httpx.get(
        f"{site.server.url}api/v1/me", headers={"Authorization": f"Bearer {secret}"}, timeout=60
    )


def test_dead_letters_are_delivered_again_and_a_webhook_is_removed(site):
    webhooks = site.engine.webhooks
    with closing(Receiver()) as receiver:
        receiver.answers.append(500)
        webhooks.set("audit", receiver.url, attempts=1, run="told", kind="run_completed")
        site.engine.start("pack", "told", id="told").result(timeout="60s")
        until(lambda: webhooks.dead_letters("audit"), "a dead letter")
        page = site.page
        page.open("subscriptions")
        row = row_of(page, "Webhooks", "audit")
        press_in(row, "Show")
        row_of(page, "Dead letters", "told").wait_for()

        press_in(row, "Deliver again")
        confirm(page, "Deliver")

        receiver.wait(2)
        until(lambda: not webhooks.dead_letters("audit"), "the letter is delivered")
        page.see("Every event was delivered.")
        press_in(row, "Remove")
        confirm(page, "Remove")
    assert webhooks.list() == []
    page.see("There is no webhook.")
    assert page.errors == []


def test_a_stored_reader_is_removed(site):
    events = site.engine.events
    events.consume("ledger", lambda events, connection: None)
    page = site.page
    page.open("subscriptions")

    press_in(row_of(page, "Readers", "ledger"), "Remove")
    confirm(page, "Remove")

    assert events.subscriptions() == []
    page.see("There is no stored reader of events.")
    assert page.errors == []


def test_a_flow_is_asked_to_cancel(site):
    flow = site.engine.flows.create("agent", "sort the mail", owner="ann", start=True)
    page = site.page
    page.open("flows")

    press_in(row_of(page, "Flows", flow.id), "Cancel")
    confirm(page, "Cancel")

    assert site.engine.flows.get(flow.id).cancel_requested
    assert page.errors == []


def test_a_graph_is_cancelled_with_its_members(site):
    graph = holdfast.Graph()
    graph.add("paid", "a", name="first")
    graph.add("paid", "b", name="second")
    started = site.engine.graphs.start(graph, id="pair")
    page = site.page
    page.open("graph/pair")

    page.press("Cancel")
    confirm(page, "Cancel")

    until(lambda: started.status == "cancelled", "the graph is cancelled")
    page.tab.locator(".bar .state", has_text="cancelled").wait_for()
    assert page.tab.get_by_role("button", name="Cancel", exact=True).count() == 0
    statuses = {member.name: member.state for member in started.show().members}
    assert set(statuses) == {"first", "second"}
    assert page.errors == []


def test_the_database_is_checked(site):
    page = site.page
    page.open("storage")

    page.press("Check the database")

    page.see("The check found nothing.")
    assert page.errors == []


def test_filters_are_saved_as_a_view(site):
    site.engine.start("pack", "v", id="view-1").result(timeout="60s")
    page = site.page
    page.open("runs?id_prefix=view-")
    page.see("view-1")
    views = page.tab.get_by_label("Saved views")

    views.select_option("+")
    with dialog_of(page, "Save") as dialog:
        dialog.get_by_label("Name").fill("my runs")
    page.open("runs")
    views.select_option("my runs")

    page.tab.wait_for_url(re.compile("id_prefix=view-"))
    page.see("view-1")
    assert page.errors == []


@pytest.fixture
def ended(site, request):
    """The site and a run that has completed, with an id of its own."""
    name = request.node.name.removeprefix("test_").replace("_", "-")
    run = site.engine.start("checkout", "f", False, id=name)
    run.result(timeout="60s")
    return site, run


def test_a_run_is_forked(ended):
    site, run = ended
    page = site.page
    page.open(f"run/{run.id}")

    page.press("Fork")
    confirm(page, "Fork")

    fork = until(lambda: _fork_of(site, run), "the fork")
    page.tab.wait_for_url(re.compile(f"#/run/{fork.id}$"))
    assert page.errors == []


def test_a_run_is_forked_from_a_step(ended):
    site, run = ended
    page = site.page
    page.open(f"run/{run.id}?step=sleep")
    step = page.tab.get_by_role("region", name="Step sleep")

    press_in(step, "Fork from here")
    page.see("keeps the results before sleep")
    confirm(page, "Fork")

    fork = until(lambda: _fork_of(site, run), "the fork")
    assert fork.result(timeout="60s") == run.result()
    charged = (history[0] for history in (_ends(run, "charge"), _ends(fork, "charge")))
    assert len({event.at for event in charged}) == 1  # the result was kept, not made again
    assert _ends(run, "sleep")[0].at != _ends(fork, "sleep")[0].at
    assert page.errors == []


def test_a_run_is_replayed_from_a_step(ended):
    site, run = ended
    page = site.page
    page.open(f"run/{run.id}?step=sleep")
    step = page.tab.get_by_role("region", name="Step sleep")

    press_in(step, "Replay from here")
    page.see("Everything from sleep on runs again.")
    confirm(page, "Replay")

    until(lambda: len(_ends(run, "sleep")) == 2, "the timer has fired again")
    run.result(timeout="60s")
    assert len(_ends(run, "charge")) == 1
    assert page.errors == []


def _fork_of(site, run):
    copies = (copy for copy in site.engine.runs(workflow="checkout") if copy.forked_from == run.id)
    return next((site.engine.run(copy.id) for copy in copies), None)


def _ends(run, step):
    """Return the events with which a step has ended, of a replayed run also the void ones."""
    kinds = ("step_completed", "timer_fired")
    return [event for event in run.history() if event.step == step and event.kind in kinds]


def begin(page, run_id, verb):
    """Choose a verb of the menu of a run."""
    page.open(f"run/{run_id}")
    page.tab.locator("details.menu > summary").click()
    press_in(page.tab.locator("details.menu"), verb)


def test_the_rare_verbs_of_a_run_change_it(site):
    engine = site.engine
    for name in ("first", "stopped", "ended"):
        engine.start("paid", name, id=f"rare-{name}").wait_until("waiting", timeout="60s")
    page = site.page

    begin(page, "rare-first", "Priority")
    with dialog_of(page, "Priority") as dialog:
        dialog.get_by_label("Priority").fill("7")
    assert engine.run("rare-first").record.priority == 7

    begin(page, "rare-first", "Tags")
    with dialog_of(page, "Tags") as dialog:
        dialog.get_by_label("Name", exact=True).fill("customer")
        dialog.get_by_label("Value").fill("9")
    assert engine.run("rare-first").record.tags == {"customer": "9"}

    begin(page, "rare-stopped", "Cancel at once")
    with dialog_of(page, "Cancel at once") as dialog:
        dialog.get_by_label("Reason").fill("enough")
        dialog.get_by_label("Type rare-stopped to confirm").fill("rare-stopped")
    assert engine.run("rare-stopped").status == "cancelled"

    begin(page, "rare-ended", "Override")
    with dialog_of(page, "Override") as dialog:
        dialog.get_by_label("Reason").fill("paid by hand")
        dialog.get_by_label("Result").fill('{"amount": 3}')
        dialog.get_by_label("Type rare-ended to confirm").fill("rare-ended")
    assert engine.run("rare-ended").result(timeout="60s") == {"amount": 3}

    begin(page, "rare-ended", "Delete")
    with dialog_of(page, "Delete") as dialog:
        dialog.get_by_label("Type rare-ended to confirm").fill("rare-ended")
    assert not list(engine.runs(ids=["rare-ended"]))
    page.tab.wait_for_url(re.compile("#/runs$"))
    assert page.errors == []


@pytest.fixture(scope="module")
def idle_page(browser, tmp_path_factory):
    """A page of a server without a worker."""
    database = str(tmp_path_factory.mktemp("idle") / "shop.db")
    with ServeProcess(database) as server, browser.page(server) as page:
        yield database, server, page


@pytest.fixture
def idle_site(idle_page):
    """A site without a worker: nothing is carried out unless a person asks for it."""
    database, server, page = idle_page
    page.open("overview")
    page.see("Workers alive")
    page.errors.clear()
    with Engine(database, work=False) as engine:
        yield Site(page, server, engine, database)


def test_a_bulk_operation_is_stopped(idle_site):
    engine = idle_site.engine
    runs = [engine.start("nowhere", number, id=f"halt-{number}") for number in range(3)]
    report = engine.runs(id_prefix="halt-").cancel(wait=False)
    page = idle_site.page
    page.open(f"operation/{report.id}")

    page.press("Stop")
    confirm(page, "Stop")

    assert engine.operations.get(report.id).status == "stopped"
    page.tab.locator(".bar .state", has_text="stopped").wait_for()
    assert {run.status for run in runs} == {"pending"}
    assert page.errors == []


def test_a_worker_that_is_gone_is_declared_dead(idle_site):
    workers = idle_site.engine.workers
    command = [sys.executable, "-m", "holdfast", "--db", idle_site.path, "worker", str(SHOP)]
    process = subprocess.Popen(
        [*command, "--name", "crashed"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        until(lambda: [worker.worker for worker in workers.list()] == ["crashed"], "the worker")
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    page = idle_site.page
    page.open("lanes")

    press_in(row_of(page, "Workers", "crashed"), "Declare dead")
    confirm(page, "Declare dead")

    assert workers.list() == []
    page.see("No worker is known.")
    assert page.errors == []


def test_a_worker_loses_a_run_that_is_revoked(idle_site):
    engine = idle_site.engine
    run = engine.start("render", 1, id="held")
    page = idle_site.page
    with engine.tasks.worker("render-1", workflows=["render"]) as holder:
        lease = one_lease(holder)

        begin(page, "held", "Revoke")
        with dialog_of(page, "Revoke") as dialog:
            dialog.get_by_label("Reason").fill("too slow")

        assert run.status == "pending"
        with pytest.raises(LeaseLost):
            lease.complete(1)
    assert page.errors == []


def is_due(run):
    return run.wake_at < run.created_at + timedelta(days=1)


def test_a_run_does_not_wait_any_longer(idle_site):
    run = idle_site.engine.start("nowhere", id="late", delay="30d")
    page = idle_site.page
    page.open("run/late")

    page.press("Release")
    confirm(page, "Release")

    assert is_due(run.record)
    assert page.errors == []


def get_stuck(site, *ids):
    """Start runs and leave them stuck, as many crashes would."""
    for run_id in ids:
        site.engine.start("nowhere", id=run_id)
    marks = ", ".join("?" * len(ids))
    with closing(sqlite3.connect(site.path)) as db, db:
        db.execute(
            f"UPDATE holdfast_run SET status = 'stuck', rank = NULL WHERE id IN ({marks})", ids
        )


def test_a_stuck_run_is_resumed(idle_site):
    get_stuck(idle_site, "stuck-0")
    page = idle_site.page
    page.open("run/stuck-0")

    page.press("Resume")
    confirm(page, "Resume")

    assert idle_site.engine.run("stuck-0").status == "pending"
    assert page.errors == []


def change_all(page, verb, *ids):
    """Select runs in the list and apply a verb to all of them."""
    page.open(f"runs?id_prefix={ids[0].rpartition('-')[0]}-")
    for run_id in ids:
        page.tab.get_by_label(f"Select {run_id}").check()
    page.press(verb)
    confirm(page, verb)
    page.see(f"{len(ids)} changed, 0 refused")


def test_the_verbs_for_many_runs_change_all_of_them(idle_site):
    engine = idle_site.engine
    ids = ("many-0", "many-1")
    page = idle_site.page

    get_stuck(idle_site, *ids)
    change_all(page, "Resume", *ids)
    assert {run.status for run in engine.runs(ids=ids)} == {"pending"}

    change_all(page, "Cancel", *ids)
    assert {run.status for run in engine.runs(ids=ids)} == {"cancelled"}

    change_all(page, "Delete", *ids)
    assert not list(engine.runs(ids=ids))

    for run_id in ids:
        engine.start("nowhere", id=run_id, delay="30d")
    change_all(page, "Release", *ids)
    assert all(is_due(run) for run in engine.runs(ids=ids))
    assert page.errors == []
