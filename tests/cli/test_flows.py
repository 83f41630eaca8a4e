"""``holdfast flows``."""

from __future__ import annotations

import pytest


@pytest.fixture
def flow(call):
    call.start("shop.py:listener")  # there is a database
    return call.text(
        "flows",
        "create",
        "research",
        "compare three",
        "--owner",
        "a",
        "--state",
        '{"n": 3}',
        "--start",
    ).strip()


def test_a_flow_is_driven_to_its_end(call, flow):
    assert "running, revision 2" in call.text(
        "flows", "advance", flow, '{"found": 1}', "--step", "compare"
    )
    assert "waiting" in call.text(
        "flows", "wait", flow, "--topic", "invoice", "--correlation", "77"
    )
    assert "does not wait for invoice 78" in call.error("flows", "deliver", flow, "invoice", "78")
    assert (
        call.json("flows", "deliver", flow, "invoice", "77", '{"paid": true}')["status"]
        == "running"
    )
    call.text("flows", "wait", flow, "--until", "2999-12-24T18:00")
    assert "running" in call.text("flows", "resume", flow, '{"woken": 1}')
    assert call.json("flows", "finish", flow)["state"] == {
        "n": 3,
        "found": 1,
        "resume_event": {"paid": True},
        "woken": 1,
    }

    shown = call.text("flows", "show", flow)
    assert "compare three" in shown
    assert "finished" in shown
    assert call.json("flows", "show", flow)["events"][-1]["kind"] == "created"


def test_what_happens_elsewhere_is_noted(call, flow):
    assert "j1  running  ask" in call.text(
        "flows", "observe", flow, "j1", "running", "--task", "ask", "--session", "s9"
    )
    data = call.json(
        "flows", "observe", flow, "j1", "succeeded", "--task", "ask", "--result", '{"price": 10}'
    )
    assert (data["status"], data["result"], data["child_session"]) == (
        "succeeded",
        {"price": 10},
        "s9",
    )
    assert [step["run_id"] for step in call.json("flows", "show", flow)["steps"]] == ["j1"]


def test_each_namespace_has_its_own(call, flow, monkeypatch):
    assert "no flows" in call.text("--namespace", "acme", "flows")
    monkeypatch.setenv("HOLDFAST_NAMESPACE", "acme")
    other = call.text("flows", "create", "c", "g", "--owner", "a").strip()
    assert [each_flow["id"] for each_flow in call.items("flows")] == [other]
    assert "no such flow" in call.error("flows", "show", flow)
    task = call.text("tasks", "submit", "render").strip()
    assert [run["id"] for run in call.json("runs")["items"]] == [task]
    (lease,) = call.json("tasks", "claim", "--workflow", "render")
    monkeypatch.delenv("HOLDFAST_NAMESPACE")
    assert "no such lease" in call.error("tasks", "renew", lease["lease"])
    assert "no such run" in call.error("tasks", "revoke", task)
    assert "must be a text" in call.error("--namespace", "", "flows", code=2)


def test_flows_are_listed(call, flow):
    assert [each_flow["id"] for each_flow in call.items("flows")] == [flow]
    assert call.items("flows", "--owner", "b") == []
    assert [each_flow["goal"] for each_flow in call.items("flows", "--status", "running")] == [
        "compare three"
    ]
    assert "compare three" in call.text("flows")


def test_a_flow_is_failed_asked_to_stop_cancelled_and_pruned(call, flow):
    assert "cancellation requested" in call.text("flows", "cancel", flow, "--request")
    assert "it can only be cancelled now" in call.error("flows", "advance", flow, "{}")
    assert "cancelled" in call.text("flows", "cancel", flow)
    other = call.text("flows", "create", "c", "g", "--owner", "a").strip()
    assert "running" in call.text("flows", "start", other)
    assert "failed" in call.text("flows", "fail", other, "nobody answered")
    assert "2 flows deleted" in call.text("flows", "prune", "--older-than", "0s", "--yes")
    assert call.items("flows") == []


def test_wrong_words_are_one_clear_line(call, flow):
    assert "no such flow" in call.error("flows", "show", "nobody")
    assert "is not JSON" in call.error("flows", "advance", flow, "{", code=2)
    assert "Another caller" in call.error("flows", "advance", flow, "{}", "--revision", "7")
    assert "must not be blank" in call.error("flows", "create", " ", "g", "--owner", "a", code=2)


def test_what_a_flow_waits_for_is_told_with_the_command_that_ends_it(call, flow):
    call.text("flows", "wait", flow, "--topic", "an invoice", "--correlation", "77")
    data = call.json("why", flow)
    assert (data["status"], data["remedy"]) == (
        "waiting",
        f"holdfast flows deliver {flow} 'an invoice' 77",
    )
    assert data["remedy"] in call.text("flows", "show", flow)
    assert "it waits for 'an invoice' about '77'" in call.text("why", flow)
    assert "no such run" in call.error("--namespace", "acme", "why", flow)
    assert "possible=running, failed, cancelled" in call.error("flows", "finish", flow)


def test_moves_are_guarded_by_owner_and_revision(call, flow):
    for command in (
        ("start", flow),
        ("advance", flow, "{}"),
        ("wait", flow),
        ("resume", flow),
        ("finish", flow),
        ("fail", flow, "x"),
        ("cancel", flow),
        ("cancel", flow, "--request"),
    ):
        assert "another owner" in call.error("flows", *command, "--owner", "b")
        assert "Another caller" in call.error("flows", *command, "--revision", "7")
    assert "another owner" in call.error(
        "flows", "observe", flow, "j", "running", "--task", "t", "--owner", "b"
    )
    assert call.json("flows", "cancel", flow, "--owner", "a", "--revision", "1")["revision"] == 2


def test_time_is_let_do_what_it_does_by_hand(call, flow):
    assert "too far away" in call.error("flows", "wait", flow, "--until", "31d", "--horizon", "30d")
    call.text("flows", "wait", flow, "--until", "2999-12-24T18:00")
    assert call.json("flows", "wake") == {"resumed": 0, "cancelled": 0}
    call.text("flows", "cancel", flow, "--request")
    assert "0 flows resumed, 1 cancelled" in call.text("flows", "wake")


def test_ids_are_chosen_and_pages_turned(call, flow):
    call.text("flows", "create", "c", "g", "--owner", "a", "--id", "mine")
    page = call.json("flows", "--limit", "1")
    assert ([each_flow["id"] for each_flow in page["items"]], page["next"]) == (["mine"], "mine")
    assert [each_flow["id"] for each_flow in call.items("flows", "--after", "mine")] == [flow]
