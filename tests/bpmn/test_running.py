"""Runs of models in an engine: handlers, retries, incidents, calls, external tasks, accidents."""

from contextlib import contextmanager

import pytest

from holdfast import bpmn, workflow
from holdfast.errors import LeaseLost, ModelRefused, TaskClosed, WrongAnswer
from holdfast.testing.lab import Lab
from tests.bpmn.models import boundary, error, flows, model_of, process_of, timer


@contextmanager
def lab_with(*sources, handlers=None, **deployment):
    with Lab(handlers=handlers or {}) as lab:
        lab.engine.models.deploy(*sources, **deployment)
        yield lab


def one_task(**attributes):
    text = " ".join(f'{name}="{value}"' for name, value in attributes.items())
    return f'<startEvent id="s"/><serviceTask id="t" {text}/>'.replace("topic=", "camunda:topic=")


def test_a_handler_gets_variables_by_name_and_the_task_itself():
    seen = {}

    def work(amount: int, task: bpmn.Task, missing: int = 7):
        seen.update(amount=amount, missing=missing, element=task.element, run=task.run_id)
        seen["key"] = task.idempotency_key
        return {"done": True}

    with lab_with(process_of(one_task() + flows("s t")), handlers={"t": work}) as lab:
        run = lab.start("p", {"amount": 3})

        assert lab.finish(run) == {"amount": 3, "done": True}
    assert seen == {
        "amount": 3,
        "missing": 7,
        "element": "t",
        "run": run.id,
        "key": f"{run.id}:t",
    }


def test_a_failed_task_is_retried_and_then_an_incident_that_can_be_retried():
    attempts = []

    def work(**variables):
        attempts.append(variables)
        if "fixed" not in variables:
            raise ValueError("no route to bank")
        return {"paid": True}

    retries = (
        '<startEvent id="s"/><serviceTask id="t"><extensionElements>'
        "<camunda:failedJobRetryTimeCycle>R3/PT1M</camunda:failedJobRetryTimeCycle>"
        '</extensionElements></serviceTask><userTask id="other"/>' + flows("s t", "s other")
    )
    with lab_with(process_of(retries), handlers={"t": work}) as lab:
        run = lab.start("p", {})
        lab.settle()
        lab.advance("PT1M")
        lab.advance("PT1M")

        (incident,) = lab.engine.models.incidents()
        assert len(attempts) == 3 and incident.element == "t"
        assert "no route to bank" in incident.error["message"]
        (task,) = lab.engine.models.tasks(run=run.id)
        lab.engine.models.complete(task.id)  # the other token continues
        lab.engine.models.retry(incident.id, {"fixed": True}, by="ann")
        assert lab.finish(run) == {"fixed": True, "paid": True}


def test_a_bpmn_error_is_caught_by_code_and_never_retried():
    calls = []

    def work(**variables):
        calls.append(1)
        raise bpmn.BpmnError("too-much", "over the limit", limit=1000)

    body = (
        one_task()
        + '<userTask id="review"/>'
        + boundary("b", "t", error("too-much"))
        + flows("s t", "b review")
    )
    with lab_with(process_of(body), handlers={"t": work}) as lab:
        run = lab.start("p", {})
        lab.settle()

        (task,) = lab.engine.models.tasks(run=run.id)
        assert (task.element, task.variables, len(calls)) == ("review", {"limit": 1000}, 1)


def test_a_form_that_does_not_fit_names_its_field_and_changes_nothing():
    body = (
        '<startEvent id="s"/><userTask id="u"><extensionElements><camunda:formData>'
        '<camunda:formField id="amount" type="long"><camunda:validation>'
        '<camunda:constraint name="required"/></camunda:validation></camunda:formField>'
        '<camunda:formField id="note" type="string"/></camunda:formData></extensionElements>'
        "</userTask>" + flows("s u")
    )
    with lab_with(process_of(body)) as lab:
        run = lab.start("p", {})
        lab.settle()
        (task,) = lab.engine.models.tasks()

        with pytest.raises(WrongAnswer, match="amount"):
            lab.engine.models.complete(task.id, {"note": "x"}, by="ann")
        with pytest.raises(WrongAnswer) as refused:
            lab.engine.models.complete(task.id, {"note": 3, "other": 1}, by="ann")
        assert refused.value.facts["fields"] == "$.amount, $.note"
        lab.engine.models.complete(task.id, {"amount": 3}, by="ann")
        assert lab.finish(run) == {"amount": 3}
        with pytest.raises(TaskClosed):
            lab.engine.models.complete(task.id, {"amount": 4}, by="ann")


CHILD = process_of(
    '<startEvent id="s"/><intermediateThrowEvent id="warn"><escalationEventDefinition'
    ' escalationRef="W"/></intermediateThrowEvent><exclusiveGateway id="g" default="f4"/>'
    '<endEvent id="bad">'
    + error("E9")
    + '</endEvent><endEvent id="good"/>'
    + flows("s warn", "warn g", "g bad ${x > 5}", "g good"),
    "child",
)
PARENT = process_of(
    '<startEvent id="s"/><callActivity id="c" calledElement="child"><extensionElements>'
    '<camunda:in source="n" target="x"/><camunda:out source="x" target="y"/>'
    '</extensionElements></callActivity><userTask id="caught"/><userTask id="warned"/>'
    + boundary("b", "c", error("E9"))
    + boundary("w", "c", '<escalationEventDefinition escalationRef="W"/>', interrupting=False)
    + flows("s c", "b caught", "w warned"),
    "parent",
)


@pytest.mark.parametrize(("n", "elements"), [(9, ["caught", "warned"]), (1, ["warned"])])
def test_errors_and_escalations_cross_the_border_of_a_call(n, elements):
    with lab_with(PARENT, CHILD) as lab:
        run = lab.start("parent", {"n": n})
        lab.settle()

        tasks = lab.engine.models.tasks(run=run.id)
        assert sorted(task.element for task in tasks) == elements
        for task in tasks:
            lab.engine.models.complete(task.id)
        assert lab.finish(run) == ({"n": n, "y": n} if n == 1 else {"n": n})


@workflow(name="test_running.add")
async def add(a: int, b: int) -> dict:
    return {"sum": a + b}


def test_a_call_runs_a_python_workflow_with_its_parameters():
    body = (
        '<startEvent id="s"/><callActivity id="c" calledElement="test_running.add">'
        '<extensionElements><camunda:in variables="all"/><camunda:out variables="all"/>'
        "</extensionElements></callActivity>" + flows("s c")
    )
    with lab_with(process_of(body)) as lab:
        run = lab.start("p", {"a": 1, "b": 2, "c": 3})

        assert lab.finish(run) == {"a": 1, "b": 2, "c": 3, "sum": 3}


def test_a_call_of_nothing_is_an_incident_until_it_is_deployed():
    body = '<startEvent id="s"/><callActivity id="c" calledElement="later"/>' + flows("s c")
    with lab_with(process_of(body)) as lab:
        run = lab.start("p", {})
        lab.settle()
        (incident,) = lab.engine.models.incidents()

        lab.engine.models.deploy(process_of('<startEvent id="s"/>', "later"))
        lab.engine.models.retry(incident.id)
        assert lab.finish(run) == {}


def test_a_running_instance_keeps_its_version():
    first = process_of('<startEvent id="s"/><userTask id="old"/>' + flows("s old"))
    second = process_of('<startEvent id="s"/><userTask id="new"/>' + flows("s new"))
    with lab_with(first) as lab:
        lab.start("p", {})
        lab.settle()
        assert lab.engine.models.deploy(second).processes == {"p": 2}
        lab.start("p", {})
        lab.crash()
        lab.settle()

        assert sorted(task.element for task in lab.engine.models.tasks()) == ["new", "old"]


EXTERNAL = process_of(
    one_task(topic="ship")
    + '<userTask id="missing"/>'
    + boundary("b", "t", error("gone"))
    + flows("s t", "b missing")
)


def locker(lab, name):
    return lab.engine.tasks.worker(name, topics=["ship"], ttl="1m", renew=False)


def test_an_external_worker_throws_a_bpmn_error():
    with lab_with(EXTERNAL) as lab:
        lab.start("p", {})
        lab.settle()
        (lease,) = locker(lab, "a").claim()

        lease.throw("gone", "no such order", {"seen": True})
        lab.settle()

        (task,) = lab.engine.models.tasks()
        assert (task.element, task.variables) == ("missing", {"seen": True})


def test_a_lock_that_expires_passes_the_task_on_and_only_the_last_owner_completes_it():
    with lab_with(EXTERNAL) as lab:
        run = lab.start("p", {"order": 7})
        lab.settle()
        (first,) = locker(lab, "a").claim()
        assert (first.element, first.input) == ("t", {"order": 7})

        lab.advance("PT2M")
        (second,) = locker(lab, "b").claim()
        second.complete({"parcel": 9})
        lab.settle()

        with pytest.raises(LeaseLost):
            first.complete({"parcel": 8})
        assert run.result(timeout=60) == {"order": 7, "parcel": 9}
        kinds = [event.kind for event in lab.history(run)]
        assert kinds.count("child_ended") == 1


def test_an_external_task_fails_twice_and_then_completes():
    with lab_with(EXTERNAL) as lab:
        run = lab.start("p", {})
        for _ in range(2):
            lab.settle()
            (lease,) = locker(lab, "a").claim()
            lease.fail("transient", "no truck")
            lab.advance("PT5M")
        (lease,) = locker(lab, "a").claim()
        lease.complete({"ok": True})

        assert lab.finish(run) == {"ok": True}


def test_a_branch_that_has_failed_keeps_the_join_waiting():
    def fails(**variables):
        raise ValueError("no")

    body = (
        '<startEvent id="s"/><serviceTask id="t"/><task id="u"/><parallelGateway id="j"/>'
        + flows("s t", "s u", "t j", "u j")
    )
    with lab_with(process_of(body), handlers={"t": fails}) as lab:
        run = lab.start("p", {})
        lab.settle()

        tokens = {token.element: token.waits_for for token in lab.engine.models.tokens(run.id)}
        assert tokens == {"t": "incident", "j": "join"}
        trace = lab.engine.models.trace(run.id)
        assert trace.elements["t"].incidents == 1 and trace.elements["u"].completed == 1


def test_tokens_and_variables_as_of_an_earlier_event():
    body = '<startEvent id="s"/><userTask id="a"/><userTask id="b"/>' + flows("s a", "a b")
    with lab_with(process_of(body)) as lab:
        run = lab.start("p", {})
        lab.settle()
        (task,) = lab.engine.models.tasks()
        lab.engine.models.complete(task.id, {"x": 1})
        lab.settle()

        now = lab.engine.models.tokens(run.id)
        before = lab.engine.models.tokens(run.id, at=1)
        assert [token.element for token in now] == ["b"]
        assert [token.element for token in before] == ["a"]
        assert lab.engine.models.variables(run.id) == {"x": 1}


def test_a_refused_deployment_lists_all_problems_and_stores_nothing():
    bad = process_of('<startEvent id="s"/><serviceTask id="t"/><callActivity id="c"/>', "bad")
    good = process_of('<startEvent id="s"/>', "good")
    with Lab() as lab:
        with pytest.raises(ModelRefused) as refusal:
            lab.engine.models.deploy(good, bad)

        errors = [problem.element for problem in refusal.value.problems]
        assert {"t", "c"} <= set(errors)
        assert lab.engine.models.list() == []


def test_a_checkpoint_shortens_the_replay_of_a_long_run():
    body = (
        '<startEvent id="s"/><serviceTask id="t"><multiInstanceLoopCharacteristics>'
        "<loopCardinality>600</loopCardinality></multiInstanceLoopCharacteristics></serviceTask>"
        '<userTask id="u"/><endEvent id="e"/>' + flows("s t", "t u", "u e")
    )
    with lab_with(process_of(body), handlers={"t": lambda: {}}) as lab:
        run = lab.start("p", {"x": 1})
        lab.settle()
        assert "checkpoint_written" in [event.kind for event in lab.history(run)]
        lab.crash()
        lab.settle()

        (task,) = lab.engine.models.tasks()
        lab.engine.models.complete(task.id, {"y": 2})
        assert lab.finish(run) == {"x": 1, "y": 2}


def test_two_processes_of_one_file_are_deployed_together():
    both = model_of(
        '<process id="one" isExecutable="true"><startEvent id="s"/></process>'
        '<process id="two" isExecutable="true"><startEvent id="s2"/></process>'
    )
    with Lab() as lab:
        assert lab.engine.models.deploy(both).processes == {"one": 1, "two": 1}
        assert lab.run_to_end("two", {"x": 1}) == {"x": 1}


def test_a_cycle_fires_each_time_that_it_falls_due():
    body = (
        '<startEvent id="s"/><userTask id="t"/><userTask id="remind"/>'
        + boundary("b", "t", timer("timeCycle", "R3/PT1H"), interrupting=False)
        + flows("s t", "b remind")
    )
    with lab_with(process_of(body)) as lab:
        lab.start("p", {})
        lab.advance("PT150M")
        assert len(lab.engine.models.tasks(element="remind")) == 2
        lab.advance("PT10H")
        assert len(lab.engine.models.tasks(element="remind")) == 3


def test_a_suspended_run_stays_where_it_is_until_it_is_resumed():
    body = '<startEvent id="s"/><userTask id="a"/><userTask id="b"/>' + flows("s a", "a b")
    with lab_with(process_of(body)) as lab:
        run = lab.start("p", {})
        lab.settle()
        (task,) = lab.engine.models.tasks()
        lab.engine.models.suspend(run.id)
        lab.engine.models.complete(task.id)
        lab.crash()
        lab.settle()
        (token,) = lab.engine.models.tokens(run.id)
        assert (token.element, token.status) == ("a", "suspended")

        lab.engine.models.resume(run.id)
        lab.settle()
        assert [task.element for task in lab.engine.models.tasks()] == ["b"]


def test_an_operator_moves_a_token():
    body = '<startEvent id="s"/><userTask id="a"/><userTask id="b"/>' + flows("s a", "a b")
    with lab_with(process_of(body)) as lab:
        run = lab.start("p", {})
        lab.settle()
        (token,) = lab.engine.models.tokens(run.id)

        lab.engine.models.modify(run.id, bpmn.move(token.id, "b"), by="ann")
        lab.settle()

        assert [task.element for task in lab.engine.models.tasks()] == ["b"]


def test_a_task_of_a_group_can_be_completed_without_a_name():
    body = '<startEvent id="s"/><userTask id="u" camunda:candidateGroups="sales"/>' + flows("s u")
    with lab_with(process_of(body)) as lab:
        run = lab.start("p", {})
        lab.settle()
        (task,) = lab.engine.models.tasks(role="sales")

        lab.engine.models.complete(task.id, {"ok": True})

        assert lab.finish(run) == {"ok": True}


@pytest.mark.parametrize(
    ("text", "after"),
    [("PT2H", 7200), ("${when}", 7200), ("2026-01-01T02:00:00Z", 7200), ("soon", None)],
)
def test_people_are_reminded_when_a_user_task_is_due(text, after):
    task = f'<startEvent id="s"/><userTask id="u" camunda:dueDate="{text}"/>' + flows("s u")
    with lab_with(process_of(task)) as lab:
        run = lab.start("p", {"when": "PT2H"})
        lab.settle()
        (shown,) = lab.engine.models.tasks(run=run.id)
        (token,) = lab.engine.models.tokens(run.id)
        due = None if shown.due is None else round((shown.due - shown.since).total_seconds())
        assert due == after
        assert token.until == shown.due

        lab.advance("1h")
        assert lab.engine.gates.list(overdue=True) == []
        lab.advance("90m")
        late = lab.engine.gates.list(overdue=True)
        assert [gate.id for gate in late] == ([] if after is None else [shown.id])
        lab.engine.models.complete(shown.id, by="ann")
        assert lab.finish(run) == {"when": "PT2H"}


KEYED = (
    '<message id="m" name="paid"><extensionElements>'
    '<zeebe:subscription correlationKey="=number"/></extensionElements></message>'
)


def test_receive_and_send_tasks_have_the_key_of_their_message():
    receives = process_of(
        '<startEvent id="s"/><receiveTask id="r" messageRef="m"/>' + flows("s r"), more=KEYED
    )
    sends = process_of(
        '<startEvent id="s"/><sendTask id="t" messageRef="m"/>' + flows("s t"), "q", more=KEYED
    )
    with lab_with(receives, sends) as lab:
        first, second = (lab.start("p", {"number": number}) for number in (1, 2))
        lab.settle()

        lab.finish(lab.start("q", {"number": 2}))

        assert lab.finish(second) == {"number": 2}
        assert first.status == "waiting"
        assert lab.engine.models.message("paid", {"x": 5}, key="1").effect == "received"
        assert lab.finish(first) == {"number": 1, "x": 5}


def test_a_parameter_can_be_a_list_or_a_map():
    mapping = (
        '<camunda:inputOutput><camunda:inputParameter name="request"><camunda:map>'
        '<camunda:entry key="to">${who}</camunda:entry><camunda:entry key="tags"><camunda:list>'
        "<camunda:value>new</camunda:value><camunda:value>${amount + 1}</camunda:value>"
        "</camunda:list></camunda:entry></camunda:map></camunda:inputParameter></camunda:inputOutput>"
    )
    task = f'<serviceTask id="t"><extensionElements>{mapping}</extensionElements></serviceTask>'
    body = '<startEvent id="s"/>' + task + flows("s t")
    requests = []
    with lab_with(
        process_of(body), handlers={"t": lambda request: requests.append(request)}
    ) as lab:
        lab.finish(lab.start("p", {"who": "ann", "amount": 1}))

    assert requests == [{"to": "ann", "tags": ["new", 2]}]
