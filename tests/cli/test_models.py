"""``holdfast models``, and ``holdfast run`` of a model."""

from __future__ import annotations

import json

import pytest

from holdfast import Engine
from tests.bpmn.models import flows, process_of
from tests.store.helpers import wait_until

APPROVE = (
    '<startEvent id="s"/><userTask id="look" name="Look"/><userTask id="sign" name="Sign"/>'
    '<endEvent id="e"/>'
) + flows("s look", "look sign", "sign e")
PAY = '<startEvent id="s"/><serviceTask id="cli-pay"/>' + flows("s cli-pay")
HEAR = (
    '<startEvent id="s"/><receiveTask id="wait" messageRef="m"/>' + flows("s wait"),
    '<message id="m" name="paid"/>',
)
HANDLERS = """
from holdfast import bpmn

@bpmn.handler("cli-pay", retries=0)
def pay(amount: int = 0, fixed: bool = False) -> dict:
    if amount > 100 and not fixed:
        raise ValueError("no route to bank")
    return {"paid": amount}
"""


@pytest.fixture
def file(tmp_path):
    """Write a file and return its path."""

    def write(name, content):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return str(path)

    return write


@pytest.fixture
def approval(call, file, database):
    """A run that waits for a person, with a worker."""
    call("models", "deploy", file("approve.bpmn", process_of(APPROVE, id="approve")))
    with Engine(database, shutdown_timeout=1) as engine:
        run = engine.start("approve", {"x": 1})
        run.wait_until("waiting", timeout=60)
        yield run


def test_models_are_deployed_listed_and_shown(call, file):
    first = file("approve.bpmn", process_of(APPROVE, id="approve"))
    second = file("more.bpmn", process_of(APPROVE.replace("Look", "Read"), id="approve"))

    assert call.text("models", "deploy", first) == "process approve: version 1\n"
    deployed = call.json("models", "deploy", second, "--by", "ann")
    assert (deployed["processes"], deployed["created"]) == ({"approve": 2}, ["approve"])
    assert "version 1, deployed before" in call.text("models", "deploy", first)

    listed = call.items("models")
    assert [(each["name"], each["version"], each["state"]) for each in listed] == [
        ("approve", 1, "active"),
        ("approve", 2, "active"),
    ]
    assert call.json("models", "--limit", "1")["next"] == "bpmn:approve:1"
    assert "approve" in call.text("models", "--limit", "1", "--after", "bpmn:approve:1")
    assert 'name="Read"' in call.text("models", "show", "approve", "--version", "2", "--xml")
    assert call.json("models", "show", "approve", "--version", "2")["by"] == "ann"
    by = ("--by", "ann", "--reason", "a fault")
    assert "deprecated" in call.text("models", "deprecate", "approve", "1", *by)
    assert "a fault" in call.text("audit")
    assert call.json("models", "activate", "approve", "1")["state"] == "active"
    assert "gone" in call.error("models", "show", "gone")


def test_the_problems_of_a_file_are_listed_and_nothing_is_deployed(call, file, database):
    bad = file("bad.bpmn", process_of(PAY, id="cli_payment"))
    good = file("good.bpmn", process_of(APPROVE, id="approve"))

    for option in (["--check"], []):
        done = call("models", "deploy", good, bad, *option, code=1)
        assert f"{bad}:2: error cli-pay: the task names nothing to do" in done.stdout
    assert not database.exists()
    report = json.loads(call("models", "deploy", bad, "--check", "--json", code=1).stdout)
    assert (report["ok"], report["files"][0]["problems"][0]["element"]) == (False, "cli-pay")
    assert call.text("models", "deploy", good, "--check") == f"{good}: ok\n"
    assert "there is no file" in call.error("models", "deploy", "gone.bpmn")
    assert "not a process in JSON" in call.error("models", "deploy", file("x.json", "[1]"))


def test_a_file_and_a_deployed_process_are_run(call, file, folder):
    (folder / "pay_handlers.py").write_text(HANDLERS)
    model = file("pay.bpmn", process_of(PAY, id="cli_payment"))

    assert call.run(model, '{"amount": 7}', "--using", "pay_handlers.py") == {
        "amount": 7,
        "paid": 7,
    }
    assert call.run("cli_payment", '{"amount": 8}') == {"amount": 8, "paid": 8}
    assert call.run("cli_payment") == {"paid": 0}
    assert call.json("show", "last")["workflow"] == "cli_payment"
    assert "one JSON object" in call.error("run", "cli_payment", "7", code=2)
    assert "--input is for text workflows" in call.error(
        "run", "cli_payment", "--input", "a=1", code=2
    )
    assert "use MODULE:NAME" in call.error("run", "gone", code=2)


def test_a_file_with_several_processes_is_not_run(call, file, database):
    two = process_of(APPROVE, id="a").replace(
        b"</definitions>",
        b'<process id="b" isExecutable="true"><startEvent id="s2"/></process></definitions>',
    )

    assert "has the processes a, b" in call.error("run", file("two.bpmn", two), "--detach")


def at_task(call, run):
    """Return the elements of the open tasks of a run."""
    return [task["element"] for task in call.items("models", "tasks", "--run", run.id)]


def test_people_complete_tasks(call, approval):
    (task,) = call.items("models", "tasks", "--run", approval.id)
    assert (task["kind"], task["element"], task["variables"]) == ("user", "look", {"x": 1})
    assert task["id"] in call.text("models", "tasks", "--process", "approve")
    assert call.items("models", "tasks", "--element", "gone") == []

    assert "is completed" in call.text("models", "complete", task["id"], '{"y": 2}', "--by", "ann")
    assert task["id"] in call.error("models", "complete", task["id"])
    assert "not a JSON object" in call.error("models", "complete", task["id"], "7", code=2)
    wait_until(lambda: at_task(call, approval) == ["sign"])  # the worker has taken the variables
    assert call.json("models", "variables", "last") == {"x": 1, "y": 2}


def test_the_path_of_a_run_is_shown_and_its_tokens_are_moved(call, approval):
    (token,) = call.items("models", "tokens", "last")
    assert (token["element"], token["waits_for"]) == ("look", "user")
    assert call.json("models", "trace", "last")["elements"]["look"]["active"] == 1
    assert "flows: f1" in call.text("models", "trace", "last")

    move = ["models", "modify", "last", "--move", f"{token['id']}=sign"]
    assert [each["element"] for each in call.items(*move, "--dry-run")] == ["sign"]
    assert [each["element"] for each in call.items("models", "tokens", "last")] == ["look"]
    assert [each["element"] for each in call.items(*move, "--by", "ann")] == ["sign"]
    assert "no such token" in call.error(*move)
    assert "use --move" in call.error("models", "modify", "last", code=2)
    assert "such as 3=approve" in call.error("models", "modify", "last", "--move", "x", code=2)


def test_tokens_are_read_page_by_page(call, file, database):
    tasks = '<userTask id="look"/><userTask id="sign"/><userTask id="file"/>'
    forked = f'<startEvent id="s"/>{tasks}' + flows("s look", "s sign", "s file")
    call("models", "deploy", file("forked.bpmn", process_of(forked, id="forked")))
    with Engine(database, shutdown_timeout=1) as engine:
        engine.start("forked").wait_until("waiting", timeout=60)
    words = ["models", "tokens", "last"]
    everything = call.items(*words)
    assert [token["element"] for token in everything] == ["look", "sign", "file"]

    first = call.json(*words, "--limit", "2")
    last = call.json(*words, "--limit", "2", "--after", first["next"])

    assert [*first["items"], *last["items"]] == everything
    assert last["next"] is None
    assert f"--limit 2 --after {first['next']}" in call.text(*words, "--limit", "2")
    assert "begin again without --after" in call.error(*words, "--after", "none", code=2)


def test_a_run_is_migrated_to_another_version(call, approval, file):
    renamed = APPROVE.replace("look", "inspect")
    call("models", "deploy", file("renamed.bpmn", process_of(renamed, id="approve")))
    words = ["models", "migrate", "last", "--to", "2"]

    assert "map look to another element" in call.text(*words, "--dry-run", code=1)
    mapped = [*words, "--map", "look=inspect"]
    assert "would move to version 2" in call.text(*mapped, "--dry-run")
    several = ["models", "migrate", "--workflow", "approve", "--live", "--to", "2"]
    assert call.json(*several, "--dry-run", code=1)["refusals"] == 1
    assert call.json(*mapped, "--reason", "better")["refused"] == {}
    assert [each["element"] for each in call.items("models", "tokens", "last")] == ["inspect"]
    assert "has this version" in call.error(*mapped, code=2)
    assert "Missing option '--to'" in call.error("models", "migrate", "last", code=2)


OPEN = (
    '<startEvent id="s"/><userTask id="u"/><receiveTask id="r"/>'
    '<adHocSubProcess id="care"><task id="call"/><userTask id="visit"/></adHocSubProcess>'
    '<boundaryEvent id="no" attachedToRef="u"><errorEventDefinition errorRef="E1"/></boundaryEvent>'
    '<task id="sorry"/>'
) + flows("s u", "s r", "s care", "no sorry")


def test_errors_are_thrown_and_elements_are_triggered_and_started(call, file, database):
    call("models", "deploy", file("open.bpmn", process_of(OPEN, id="open")))
    with Engine(database, shutdown_timeout=1) as engine:
        run = engine.start("open", {})
        run.wait_until("waiting", timeout=60)
        (task,) = call.items("models", "tasks", "--element", "u")

        throw = ["models", "throw", task["id"], "E1", '{"why": 3}', "--message", "no"]
        assert call.json(*throw) == {"thrown": "E1", "task": task["id"]}
        assert "is released" in call.text("models", "trigger", "last", "r", "--by", "ann")
        started = call.json("models", "start-activity", "last", "care", "visit")
        assert started == {"run": run.id, "started": "visit"}

        elements = call.json("models", "trace", "last")["elements"]
        assert [elements[each]["completed"] for each in ("sorry", "r")] == [1, 1]
        assert elements["visit"]["active"] == 1
        assert call.json("models", "variables", "last") == {"why": 3}
        assert "not open any more" in call.error(*throw)
        assert "no receive task" in call.error("models", "trigger", "last", "r")
        assert "no activity" in call.error("models", "start-activity", "last", "care", "u")
        path = call.text("show", "last").partition("\npath\n")[2].splitlines()
        assert [line.strip("├─└ ") for line in path if "token" not in line][:3] == [
            "✓ s",
            "· u  cancelled 1",
            "✓ r",
        ]
        (waits,) = [line for line in path if "waits for user" in line]
        assert path[path.index(waits) - 1].endswith("… visit")


def test_variables_are_set_and_a_run_is_suspended(call, approval):
    assert call.json("models", "set", "last", '{"x": 5}')["set"] == {"x": 5}
    assert call.json("models", "variables", "last") == {"x": 5}
    assert "suspended" in call.text("models", "suspend", "last", "--reason", "a recall")
    assert "a recall" in str(call.json("show", "last")["history"])
    assert call.items("models", "tokens", "last")[0]["status"] == "suspended"
    assert "resumed" in call.text("models", "resume", "last", "--by", "ann")
    assert call.items("models", "tokens", "last")[0]["status"] == "waiting"


def test_incidents_are_retried_and_skipped(call, file, folder, database):
    (folder / "pay_handlers.py").write_text(HANDLERS)
    model = file("pay.bpmn", process_of(PAY, id="cli_payment"))
    call("models", "deploy", model, "--using", "pay_handlers.py")
    with Engine(database, shutdown_timeout=1) as engine:
        runs = [engine.start("cli_payment", {"amount": 500}) for _ in range(2)]
        for run in runs:
            run.wait_until("waiting", timeout=60)

        (incident,) = call.items("models", "incidents", "--run", runs[0].id)
        assert incident["element"] == "cli-pay"
        assert "no route to bank" in call.text("models", "incidents")
        assert len(call.json("models", "incidents", "--limit", "1")["items"]) == 1
        call("models", "retry", incident["id"], '{"fixed": true}', "--by", "ann")
        assert runs[0].result(timeout=60)["paid"] == 500

        (other,) = call.items("models", "incidents")
        assert call.json("models", "skip", other["id"]) == {"skipped": other["id"]}
        assert runs[1].result(timeout=60) == {"amount": 500}
    assert "not open" in call.error("models", "retry", incident["id"])


def test_messages_and_broadcasts_are_sent(call, file, database):
    call("models", "deploy", file("hear.bpmn", process_of(*HEAR[:1], id="hear", more=HEAR[1])))
    assert "NAME" not in call.error("models", "message", "paid")
    assert call.json("models", "message", "other", "--ttl", "1h")["effect"] == "kept"
    with Engine(database, shutdown_timeout=1) as engine:
        run = engine.start("hear", {})
        run.wait_until("waiting", timeout=60)

        sent = call.text("models", "message", "paid", '{"sum": 3}', "--run", run.id)
        assert sent == f"received: run {run.id}, element wait\n"
        assert run.result(timeout=60) == {"sum": 3}
    assert call.json("models", "broadcast", "prices") == {"reached": [], "started": []}
    assert "0 runs reached" in call.text("models", "broadcast", "prices", "{}")


def test_a_worker_needs_no_module_for_models_without_handlers(process, call, file, database):
    body = (
        '<startEvent id="s"/><scriptTask id="t" scriptFormat="feel" camunda:resultVariable="y">'
        "<script>x + 1</script></scriptTask>" + flows("s t")
    )
    call("models", "deploy", file("plain.bpmn", process_of(body, id="cli_plain")))
    worker = process("worker")
    with Engine(database, work=False) as engine:
        assert engine.start("cli_plain", {"x": 1}).result(timeout=30) == {"x": 1, "y": 2}
    worker.send()
    assert worker.ended() == 0


def test_a_worker_needs_no_workflow_if_it_has_handlers(process, call, file, folder, database):
    (folder / "pay_handlers.py").write_text(HANDLERS)
    call(
        "models",
        "deploy",
        file("pay.bpmn", process_of(PAY, id="cli_payment")),
        "--using",
        "pay_handlers.py",
    )
    worker = process("worker", "pay_handlers.py")
    engine = Engine(database, work=False)
    assert engine.start("cli_payment", {"amount": 1}).result(timeout=30) == {"amount": 1, "paid": 1}
    engine.close()
    worker.send()
    assert worker.ended() == 0


SEVERAL = (
    '<startEvent id="s"/><serviceTask id="pack" camunda:topic="pack">'
    "<multiInstanceLoopCharacteristics><loopCardinality>3</loopCardinality>"
    "</multiInstanceLoopCharacteristics></serviceTask>"
) + flows("s pack")


def test_blockers_that_read_the_same_are_counted_not_repeated(call, file, database):
    call("models", "deploy", file("several.bpmn", process_of(SEVERAL, id="several")))
    with Engine(database, shutdown_timeout=1) as engine:
        engine.start("several", {}).wait_until("waiting", timeout="30s")

    text = call.text("why", "last")

    assert text.count("waits for a worker of the topic 'pack'") == 1
    assert "no live worker offers it (3 times)\n    $ holdfast tasks claim" in text
