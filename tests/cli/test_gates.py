"""``holdfast gates, approve, reject, decide, delegate, reassign``."""

from __future__ import annotations

import getpass

import pytest

from holdfast import Engine, gate, workflow
from tests.store.helpers import wait_until


@workflow
async def asks_on_the_command_line(options: dict) -> list:
    answer = await gate("Ship it?", **options)
    return [answer, answer.by, answer.feedback, answer.selections, answer.value]


@pytest.fixture
def ask(call, database):
    """Start a run that asks, let it park, and return it."""

    def ask(**options):
        with Engine(database, workflows=[asks_on_the_command_line]) as engine:
            run = engine.start(asks_on_the_command_line, options)
            wait_until(lambda: run.record.waits)
            return run.id

    return ask


@pytest.fixture
def result(database):
    def result(run_id):
        with Engine(database, workflows=[asks_on_the_command_line]) as engine:
            return engine.run(run_id).result(timeout=60)

    return result


def test_the_inbox_lists_who_may_decide_what_and_until_when(call, ask):
    run_id = ask(assignees=["ann"], timeout="2d")
    ask(roles=["finance"])

    lines = call.text("gates").splitlines()
    assert lines[0].split() == ["GATE", "RUN", "STATE", "WHO", "PROMPT"]
    assert run_id in lines[1]
    assert "open, ends in 1d 23h" in lines[1]
    assert "ann" in lines[1]
    assert "anybody with the role finance" in lines[2]
    assert len(call.items("gates", "--mine", "ann")) == 1
    assert len(call.items("gates", "--mine", "bob", "--role", "finance")) == 1
    assert len(call.items("gates", "--run", run_id, "--status", "any")) == 1
    assert call.items("gates", "--status", "closed") == call.items("gates", "--overdue") == []


def test_a_gate_is_approved_by_the_id_of_its_run(call, ask, result):
    run_id = ask(options=["yes", "no"])

    assert call.text("approve", run_id, "--by", "ann", "--feedback", "fine").endswith(
        "is approved: yes\n"
    )
    assert result(run_id)[:3] == ["yes", "ann", "fine"]


def test_a_gate_is_rejected_by_its_id_or_the_beginning_of_it(call, ask, result):
    run_id = ask()
    data = call.items("gates")[0]

    done = call.json("reject", data["id"][:20])

    assert (done["id"], done["status"], done["choice"]) == (data["id"], "rejected", "reject")
    assert result(run_id)[:2] == ["reject", getpass.getuser()]


def test_one_of_the_options_is_chosen_and_others_are_refused(call, ask, result):
    run_id = ask(options=["small", "large"])

    assert "known=small, large" in call.error("gates", "decide", "last", "huge", "--by", "ann")
    assert "say which of them" in call.error("approve", "last", "--by", "ann")
    call.text("gates", "decide", "last", "large", "--by", "ann")
    assert result(run_id)[0] == "large"


def test_options_are_selected(call, ask, result):
    run_id = ask(options=["a", "b", "c"])

    call.text("approve", "last", "--select", "a", "--select", "c", "--by", "ann")
    assert result(run_id)[3] == ["a", "c"]


def test_a_quorum_says_how_many_are_missing(call, ask):
    ask(assignees=["ann", "bob", "carol"], quorum=2)

    assert "your decision was recorded; 1 more must agree" in call.text(
        "approve", "last", "--by", "ann"
    )
    assert "has decided this gate already" in call.error("reject", "last", "--by", "ann")
    assert "is approved" in call.text("approve", "last", "--by", "bob")
    data = call.items("gates", "--status", "closed")[0]
    assert "This gate is closed" in call.error("approve", data["id"], "--by", "carol")
    assert [(entry["kind"], entry["person"]) for entry in data["entries"]] == [
        ("decided", "ann"),
        ("decided", "bob"),
    ]


def test_one_gate_is_shown_with_what_was_done_to_it(call, ask):
    ask(assignees=["ann"], data={"rows": 3})
    call.text("gates", "delegate", "last", "--to", "bob", "--by", "ann", "--reason", "holiday")
    call.text("gates", "reassign", "last", "--to", "carol,dan", "--role", "finance", "--by", "root")

    text = call.text("gates", "show", "last")
    data = call.json("gates", "show", "last")

    assert "delegated by ann to bob holiday" in text
    assert "carol, dan or anybody with the role finance" in text
    assert (data["data"], data["assignees"], data["roles"]) == (
        {"rows": 3},
        ["carol", "dan"],
        ["finance"],
    )
    assert data["hash"] in text
    assert "has changed" in call.error("approve", "last", "--by", "carol", "--expect", "0000")


def test_why_and_show_tell_of_a_gate(call, ask):
    run_id = ask(assignees=["ann"], timeout="2d")

    assert "it waits for ann to decide: 'Ship it?'" in call.text("why", run_id)
    assert "holdfast approve" in call.text("why", run_id)
    assert "asks 'Ship it?'" in call.text("show", run_id)
    call.text("approve", run_id, "--by", "ann")
    assert call.json("show", run_id)["status"] == "pending"


def test_the_history_tells_what_was_decided(call, ask, result):
    run_id = ask()
    call.text("approve", run_id, "--by", "ann")
    result(run_id)

    assert "→ approve by ann" in call.text("show", run_id)


def test_wrong_usage(call, ask):
    ask()

    assert "There is no such gate" in call.error("approve", "nowhere", "--by", "ann")
    assert "--to or --role" in call.error("gates", "reassign", "last", code=2)
    assert "not JSON" in call.error("approve", "last", "--form", "{", code=2)
    assert "known" in call.error("gates", "--status", "nonsense", code=2)
    call.text("approve", "last", "--by", "ann")
    assert "no gate is open" in call.error("approve", "last")


def test_a_gate_is_updated_answered_by_a_link_and_withdrawn(call, ask):
    run_id = ask(data={"rows": 3}, assignees=["ann"])
    stale = call.text("gates", "link", run_id, "approve", "--by", "ann").strip()
    before = call.json("gates", "show", run_id)["hash"]

    assert call.json("gates", "update", run_id, '{"rows": 4}', "--by", "root")["data"] == {
        "rows": 4
    }
    assert call.json("gates", "show", run_id)["hash"] != before
    assert "has changed" in call.error("gates", "answer", stale)
    token = call.json("gates", "link", run_id, "approve", "--by", "ann", "--expires", "2d")["token"]
    assert "is approved: approve" in call.text(
        "gates", "answer", token, "--feedback", "from my phone"
    )
    assert "is closed" in call.error("gates", "answer", token)
    assert "not valid here" in call.error("gates", "answer", "k1.x.y")

    second = ask(assignees=["ann"])
    assert "may not decide this gate" in call.error(
        "gates", "link", second, "approve", "--by", "bob"
    )
    assert "in the past" in call.error(
        "gates", "link", second, "approve", "--by", "ann", "--expires", "0s", code=2
    )
    assert "is withdrawn" in call.text(
        "gates", "withdraw", second, "--by", "root", "--reason", "moot"
    )
    assert "by='root'" in call.error("approve", second, "--by", "ann")
