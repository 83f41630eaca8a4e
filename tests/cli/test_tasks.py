"""``holdfast tasks``."""

from __future__ import annotations

import msgspec
import pytest

from holdfast import Engine


@pytest.fixture
def task(call):
    call.start("shop.py:listener")  # there is a database
    return call.text(
        "tasks",
        "submit",
        "render",
        '{"size": 3}',
        "--retries",
        "1",
        "--lane",
        "gpu",
        "--capability",
        "cuda",
    ).strip()


def claimed(call):
    (lease,) = call.json(
        "tasks", "claim", "--workflow", "render", "--lane", "gpu", "--capability", "cuda"
    )
    return lease


def test_a_task_is_leased_renewed_and_completed(call, task):
    lease = claimed(call)

    assert (lease["run"], lease["input"], lease["attempt"]) == (task, {"size": 3}, 1)
    assert "renewed" in call.text("tasks", "renew", lease["lease"], "--ttl", "2m")
    assert f"run {task} is completed" in call.text(
        "tasks", "complete", lease["lease"], '{"url": "x"}'
    )
    assert call.json("tasks", "complete", lease["lease"], '{"url": "x"}')["status"] == "completed"
    assert call.json("show", task)["result"] == {"url": "x"}
    assert call.json("tasks", "claim", "--lane", "gpu") == []


def test_a_failed_attempt_is_made_again_then_the_run_fails(call, task):
    assert (
        call.json("tasks", "fail", claimed(call)["lease"], "infrastructure", "power")["status"]
        == "pending"
    )
    lease = claimed(call)["lease"]
    assert "will be retried at" in call.text("tasks", "fail", lease, "transient", "no disk")
    assert (
        call.json("tasks", "claim", "--lane", "gpu", "--capability", "cuda", "--wait", "1ms") == []
    )


def test_a_task_is_put_off_and_waits(call, task):
    assert (
        call.json("tasks", "suspend", claimed(call)["lease"], "go", "--timeout", "1h")["status"]
        == "waiting"
    )
    call.text("signal", task, "go", "7")
    lease = claimed(call)
    assert lease["signals"] == [{"name": "go", "payload": 7, "source": None, "wait": None}]
    assert "until" in call.text("tasks", "delay", lease["lease"], "5m")


def test_a_task_shows_what_it_does(call, task):
    lease = claimed(call)["lease"]
    assert "at 40 %" in call.text("tasks", "progress", lease, "40", "half of it")
    assert (
        call.json(
            "tasks",
            "emit",
            lease,
            '{"pages": 3}',
            '{"pages": 4}',
            "--name",
            "pages",
            "--place",
            "0",
        )["seq"]
        == 2
    )
    assert "frame 2" in call.text(
        "tasks", "emit", lease, '{"pages": 3}', '{"pages": 4}', "--name", "pages", "--place", "0"
    )
    call.text("tasks", "emit", lease, '"done\\n"', "--kind", "stdout")
    call.text("tasks", "emit", lease, '{"state": "ok"}', "--mode", "summary")
    call.text("tasks", "complete", lease)

    lines = [msgspec.json.decode(line) for line in call.text("tail", task, "--json").splitlines()]
    assert [line["value"] for line in lines] == [
        {"pages": 3},
        {"pages": 4},
        "done\n",
        {"state": "ok"},
    ]
    assert "does not hold the lease of this run" in call.error("tasks", "emit", lease, "1")
    assert "half of it" in call.text("show", task)


def test_a_task_is_suspended_until_an_operator_releases_it(call, task):
    lease = claimed(call)["lease"]
    call.text("tasks", "suspend", lease, "--reason", "manual review", "--by", "agent-7")
    (wait,) = call.json("waits")["items"]
    assert (wait["run_id"], wait["reason"], wait["asked_by"]) == (task, "manual review", "agent-7")
    assert "manual review" in call.text("waits")
    assert "an operator (manual review, asked by agent-7)" in call.text("why", task)
    call.text("waits", "release", task, "--by", "ann")
    lease = claimed(call)["lease"]

    call.text("tasks", "suspend", lease, "--any-signal", "--resume-delay", "1h")
    call.text("signal", task, "whatever", "1")
    assert call.json("tasks", "claim", "--workflow", "render", "--capability", "cuda") == []
    call.text("waits", "release", task)
    assert [signal["name"] for signal in claimed(call)["signals"]] == ["whatever"]


def test_a_field_of_a_summary_is_set_to_null(call, task, database):
    lease = claimed(call)["lease"]
    patch = '{"owner": "ann", "b": 1, "files": {"a/b": "open", "c": "open"}}'
    call.text("tasks", "emit", lease, patch, "--mode", "summary")
    more = call.json(
        "tasks",
        "emit",
        lease,
        '{"b": null}',
        "--null",
        "owner",
        "--null",
        "/files/a~1b",
        "--mode",
        "summary",
    )
    only = call.json("tasks", "emit", lease, "--mode", "summary", "--null", "x")

    assert (more["seq"], more["frames"], more["version"], only["version"]) == (3, 3, 3, 4)
    with Engine(database, work=False) as engine:
        assert engine.streams.summary(task) == {
            "owner": None,
            "files": {"a/b": None, "c": "open"},
            "x": None,
        }
    assert "--mode summary" in call("tasks", "emit", lease, "--null", "x", code=2).stderr
    assert "at least one value" in call("tasks", "emit", lease, code=2).stderr
    nested = ("--mode", "summary", "--null", "x", "--null", "/x/y")
    assert "part of the path" in call("tasks", "emit", lease, *nested, code=2).stderr
    lines = call.text("tail", task, "--attempt", "1", "--json").splitlines()
    assert (len(lines), call.text("tail", task, "--attempt", "2")) == (4, "")


def test_a_task_waits_for_a_condition_and_for_whoever_has_the_token(call, task):
    lease = claimed(call)["lease"]
    wait = call.json("tasks", "wait", lease, "approval", "--expires", "2d")
    assert wait["wait"] in call.text("tasks", "wait", lease, "approval")
    condition = msgspec.json.encode({"all_of": ["go", {"wait": wait["wait"]}]}).decode()
    call.text(
        "tasks", "suspend", lease, "--for", condition, "--timeout", "3d", "--on-timeout", "fail"
    )
    call.text("signal", task, "go", "1")
    call.text("signal", "yes", "2", "--wait", wait["wait"], "--token", wait["token"])

    assert [(signal["name"], signal["wait"]) for signal in claimed(call)["signals"]] == [
        ("go", None),
        ("yes", wait["wait"]),
    ]


def test_a_task_that_shall_stop_is_stopped_by_its_holder(call, task):
    lease = claimed(call)["lease"]
    call.text("cancel", task, "--reason", "not needed")
    assert call.json("tasks", "renew", lease)["cancel_reason"] == "not needed"
    assert "cancellation was requested: not needed" in call.text("tasks", "renew", lease)
    assert "is cancelled" in call.text("tasks", "cancel", lease, "done with it")


def test_a_task_is_reclaimed(call, task):
    lease = call.json("tasks", "claim", "--lane", "gpu", "--capability", "cuda", "--ttl", "1h")[0][
        "lease"
    ]
    assert "another holder has the lease" in call.error(
        "tasks", "reclaim", task, "--capability", "cuda"
    )
    call.text("tasks", "revoke", task)
    assert "lacks cuda" in call.error("tasks", "reclaim", task)
    again = call.json("tasks", "reclaim", task, "--capability", "cuda")["lease"]
    assert again != lease
    assert "is completed" in call.text("tasks", "complete", again)


def test_whoever_has_claimed_at_a_prompt_is_no_worker_to_count_on(call, task):
    for more in ((), ("--wait", "1m")):
        other = call.text("tasks", "submit", "render", "--lane", "gpu").strip()
        call.text("tasks", "claim", "--lane", "gpu", "--capability", "cuda", *more)
        assert "no worker is alive" in call.json("why", other)["reason"]
        assert [worker["claims"] for worker in call.items("workers")] == [False] * (1 + bool(more))
    listed = call.text("workers")
    assert "only the runs that it has leased" in listed
    assert (
        "1 run needs a worker, and no live one serves listener version 1 in lane default" in listed
    )


def test_operators_take_back_change_priorities_and_override(call, task):
    lease = claimed(call)["lease"]
    assert "was revoked" in call.text("tasks", "revoke", task)
    assert "has no holder" in call.text("tasks", "revoke", task)
    assert "does not hold the lease of this run" in call.error("tasks", "complete", lease)
    assert "is 5 (was 0)" in call.text("tasks", "priority", task, "5")
    assert (
        call.json("tasks", "override", task, "done by hand", "--result", "7")["status"]
        == "completed"
    )
    assert call.json("show", task)["result"] == 7


def test_a_lease_is_shown_in_lines_for_people(call, task):
    line = call.text("tasks", "claim", "--workflow", "render", "--capability", "cuda")

    assert task in line
    assert '{"size":3}' in line


def test_wrong_words_are_one_clear_line(call, task):
    assert "the workflows or the lanes" in call.error("tasks", "claim", code=2)
    assert "missing" in call.error("tasks", "complete", "nonsense")
    assert "no such lease" in call.error("tasks", "complete", "nobody.1.s")
    assert "is not one of" in call.error("tasks", "fail", "a.1.b", "sad", "x", code=2)
    lease = claimed(call)["lease"]
    assert "horizon" in call.error("tasks", "delay", lease, "500d")
    assert "in the past" in call.error("tasks", "suspend", lease, "go", "--timeout", "2020-01-01")
    assert "one line" in call.error("tasks", "suspend", lease, "--by", "", code=2)
    assert "-1000 to 1000" in call.error("tasks", "priority", task, "5000", code=2)


def test_a_task_is_submitted_with_all_that_is_agreed(call, task):
    made = call.text(
        "tasks",
        "submit",
        "scan",
        "--retries",
        "1",
        "--retry-delay",
        "2h",
        "--reclaims",
        "3",
        "--deadline",
        "1d",
        "--delay",
        "1h",
        "--tag",
        "team=7",
    ).strip()
    assert [run["id"] for run in call.json("runs", "--tag", "team=7")["items"]] == [made]
    assert call.json("why", made)["remedy"] == f"holdfast waits release {made}"
    call.text("waits", "release", made)
    assert call.json("why", made)["remedy"] == "holdfast tasks claim --workflow scan"
    (lease,) = call.json("tasks", "claim", "--workflow", "scan")
    call.text("tasks", "fail", lease["lease"], "transient", "no disk", "--details", '{"code": 28}')
    why = call.json("why", made)
    assert "failed with transient: no disk; it is tried again at" in why["reason"]
    assert "(in 1h" in why["reason"] or "(in 2h" in why["reason"]


def test_the_last_task_is_that_of_the_namespace(call, task):
    other = call.text("--namespace", "b", "tasks", "submit", "render").strip()
    assert "is 3 (was" in call.text("tasks", "priority", "last", "3")
    assert f"the priority of run {other} is 4" in call.text(
        "--namespace", "b", "tasks", "priority", "last", "4"
    )
    assert "no such run" in call.error("tasks", "revoke", other)
    assert "no such run" in call.error("--namespace", "b", "cancel", task)
    assert (
        call.json("why", other)["remedy"] == "holdfast --namespace b tasks claim --workflow render"
    )
    assert other in call.text("--namespace", "b", "cancel", "last")


def test_a_submission_says_whether_it_created_the_run(call, task):
    first, again = (
        call.json("tasks", "submit", "render", "1", "--key", "order-7") for _ in range(2)
    )

    assert (first["created"], again["created"]) == (True, False)
    assert again["id"] == first["id"]


@pytest.mark.parametrize(
    ("given", "seen"),
    [((), ([], None)), (('{"a": 1}',), ([{"a": 1}], {"a": 1})), (("[1]",), ([[1]], [1]))],
)
def test_a_claim_shows_the_input_as_it_was_given(call, task, given, seen):
    call.text("tasks", "submit", "plain", *given)

    (lease,) = call.json("tasks", "claim", "--workflow", "plain")

    assert (lease["args"], lease["input"]) == seen
    assert lease["kwargs"] == {}


def test_a_worker_is_declared_dead(call, task):
    lease = claimed(call)

    session = lease["lease"].rsplit(".", 1)[1]
    assert "--yes" in call.error("workers", "remove", session, code=2)
    (removed,) = call.json("workers", "remove", session, "--yes")

    assert removed["runs"] == [task]
    assert "no worker" in call.error("workers", "remove", "nothing", "--yes")
    assert claimed(call)["run"] == task


def test_a_task_spends_from_its_budget(call, task):
    call.text("budgets", "set", "team", "tokens=10")
    lease = claimed(call)["lease"]

    first, again = (
        call.json("tasks", "spend", lease, "tokens=3", "--key", "call-1") for _ in range(2)
    )

    assert (first["counted"], again["counted"]) == (True, False)
    assert call.json("budgets", "usage", task)["run"] == {"tokens": 3}


def test_a_task_waits_for_its_children(call, task):
    lease = claimed(call)["lease"]
    child = call.text("tasks", "start", lease, "page", "1").strip()
    assert call.items("tasks", "children", lease)[0]["id"] == child

    assert call.json("tasks", "wait-children", lease)["status"] == "waiting"

    assert f"such as {child}" in call.text("why", task)
    (page,) = call.json("tasks", "claim", "--workflow", "page")
    call.text("tasks", "complete", page["lease"], '"done"')
    (seen,) = claimed(call)["children"]
    assert (seen["status"], seen["result"]) == ("completed", "done")


def test_the_attempts_at_a_task_are_listed(call, task):
    call.text("tasks", "fail", claimed(call)["lease"], "infrastructure", "no power")
    call.text("tasks", "complete", claimed(call)["lease"], "7")

    first, second = call.items("tasks", "attempts", task)

    assert (first["kind"], first["outcome"]) == ("initial", "infrastructure")
    assert (second["kind"], second["outcome"]) == ("reclaim", "completed")
    assert second["worker"] is not None
    assert first["ended_at"] <= second["started_at"] <= second["ended_at"]
    assert len(call.json("show", task)["attempts"]) == 2
    assert "reclaim" in call.text("tasks", "attempts", task)
