"""Each button of the screens of models has its effect in the database."""

from __future__ import annotations

from tests.bpmn.models import flows, process_of
from tests.engine.waiting import until
from tests.ui.models import MODEL
from tests.ui.test_buttons import begin, confirm, dialog_of, press_in, row_of

CHOICE = (
    '<startEvent id="s"/><exclusiveGateway id="large" default="f2"/>'
    '<userTask id="small"/><userTask id="big"/>'
) + flows("s large", "large small", "large big ${amount > 5}")
"""A gateway that cannot decide without a variable: an incident."""

OPEN = (
    '<startEvent id="s"/><receiveTask id="r"/>'
    '<adHocSubProcess id="care"><task id="call"/><userTask id="visit"/></adHocSubProcess>'
) + flows("s r", "s care")


def elements(site, run_id):
    return sorted(token.element for token in site.engine.models.tokens(run_id))


def test_a_version_of_a_model_is_deprecated_and_activated(site):
    models = site.engine.models
    models.deploy(MODEL.replace("releasing", "shipping"))
    page = site.page
    page.open("models")
    row = row_of(page, "Deployed models", "shipping")

    press_in(row, "Deprecate")
    with dialog_of(page, "Deprecate") as dialog:
        dialog.get_by_label("Reason").fill("a fault")
    assert models.get("shipping", 1).state == "deprecated"
    press_in(row, "Activate")
    confirm(page, "Activate")

    assert models.get("shipping", 1).state == "active"
    row.get_by_text("active").wait_for()
    entries = site.engine.audit.list()
    reasons = {(entry.action, entry.details.get("reason")) for entry in entries}
    assert ("models.deprecate", "a fault") in reasons
    assert page.errors == []


def test_an_incident_is_retried_with_new_variables_and_another_is_skipped(site):
    engine = site.engine
    engine.models.deploy(process_of(CHOICE, id="choice"))
    for name in ("choice-1", "choice-2"):
        engine.start("choice", {}, id=name)
        until(lambda: engine.models.incidents(run=name), "the incident")  # noqa: B023
    page = site.page

    begin(page, "choice-1", "Variables")
    with dialog_of(page, "Variables") as dialog:
        dialog.get_by_label("Variables").fill('{"amount": 7}')
    assert engine.models.variables("choice-1") == {"amount": 7}
    page.open("models")
    press_in(row_of(page, "Incidents", "choice-1"), "Retry")
    confirm(page, "Retry")
    until(lambda: elements(site, "choice-1") == ["big"], "the retried element")

    press_in(row_of(page, "Incidents", "choice-2"), "Skip")
    confirm(page, "Skip")
    until(lambda: not engine.models.incidents(run="choice-2"), "the skipped element")
    row_of(page, "Incidents", "choice-2").wait_for(state="detached")
    assert page.errors == []


def test_an_incident_is_retried_where_its_run_is_shown(site):
    engine = site.engine
    engine.models.deploy(process_of(CHOICE, id="choosing"))
    engine.start("choosing", {}, id="choosing-1")
    until(lambda: engine.models.incidents(run="choosing-1"), "the incident")
    page = site.page
    page.open("run/choosing-1")
    page.see("Element 'large' failed with VariableMissing")

    page.press("Retry")
    with dialog_of(page, "Retry") as dialog:
        dialog.get_by_label("Variables").fill('{"amount": 7}')

    until(lambda: elements(site, "choosing-1") == ["big"], "the retried element")
    page.tab.locator(".timeline .name", has_text="big").wait_for()
    assert page.errors == []


def test_events_are_triggered_and_activities_started_by_hand(site):
    engine = site.engine
    engine.models.deploy(process_of(OPEN, id="open"))
    engine.start("open", {}, id="open-1").wait_until("waiting", timeout="60s")
    page = site.page

    begin(page, "open-1", "Start an activity")
    with dialog_of(page, "Start an activity") as dialog:
        dialog.get_by_label("Sub-process").fill("care")
        dialog.get_by_label("Activity").fill("visit")
    assert "visit" in elements(site, "open-1")
    begin(page, "open-1", "Trigger")
    with dialog_of(page, "Trigger") as dialog:
        dialog.get_by_label("Element").fill("r")

    assert "r" not in elements(site, "open-1")
    assert page.errors == []
