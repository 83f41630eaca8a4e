"""Nodes and options of the text language at work."""

from contextlib import closing
from itertools import pairwise

import pytest

from holdfast import wf
from holdfast.core.status import Status
from holdfast.errors import BadOption, BadWorkflow, RunFailed
from holdfast.testing import Lab
from tests.wf.flows import Flows, steps_of


@pytest.fixture
def run_text(tmp_path):
    """Run the workflow ``w`` of a text to its end."""
    labs = []

    def run(*texts, inputs=None, flows=None, **options):
        flows = flows or Flows(*texts, root=tmp_path)
        lab = Lab(tmp_path / "runs.db", workflows=[flows.library])
        labs.append(lab)
        run = lab.start(flows["w"], inputs or {}, cwd=str(tmp_path), **options)
        lab.settle()
        return lab, run, flows

    yield run
    for lab in labs:
        lab.close()


def error_of(lab, run):
    return lab.engine.run(run.id).record.error.message


def test_a_step_of_a_nested_loop_has_an_identity_of_its_own(run_text):
    text = """workflow w {
      call a
      while a.more {
        max_iterations = 2  on_max_iter = continue
        do { max_iterations = 2  call b  if b.x { call b } } while b.again
      }
    }"""
    flows = Flows(text, a=[{"markers": ["more"]}], b=[{"markers": ["x", "again"]}, None] * 4)
    lab, run, _ = run_text(flows=flows)

    ids = [step.id for step in lab.engine.run(run.id).steps()]
    assert lab.finish(run)["markers"] == []
    assert len(set(ids)) == len(ids)
    assert "a.more[1]/b.again[0]/b#2" in ids


def test_a_stuck_loop_fails_after_its_condition_was_asked(run_text):
    text = "workflow w { call a while a.x { max_iterations = 9 stuck_after = 2 call a } }"
    flows = Flows(text, a=[{"markers": ["x"]}] * 9)
    lab, run, flows = run_text(flows=flows)

    assert lab.engine.run(run.id).status is Status.FAILED
    assert "stuck_after" in error_of(lab, run)
    assert flows.calls == ["a"] * 3


def test_a_run_that_keeps_going_ends_as_failed(run_text):
    flows = Flows("workflow w { call a call b call c }", a=[ValueError("x")], b=[ValueError("y")])
    lab, run, flows = run_text(flows=flows, keep_going=True)

    assert flows.calls == ["a", "b", "c"]
    assert steps_of(lab, run) == ["a failed", "b failed", "c completed"]
    with pytest.raises(RunFailed, match="ValueError: x"):
        lab.finish(run)


def test_a_handler_learns_of_the_failure_and_the_run_fails_all_the_same(run_text):
    text = 'workflow w { call a { retries = 1 on_fail = "agents/rescue.md" } }'
    flows = Flows(text, a=[ValueError("no")] * 2)
    lab, run, flows = run_text(flows=flows)

    inputs = flows.inputs("rescue")
    assert (inputs["failed_step"], inputs["retry_count"]) == ("a", "1")
    assert "no" in inputs["failure_reason"]
    assert lab.engine.run(run.id).status is Status.FAILED


def test_a_replay_repeats_handlers_and_the_always_block_but_no_completed_step(run_text):
    text = """workflow w {
      call a
      call b { on_fail = rescue }
      always { call tell }
    }"""
    flows = Flows(text, b=[ValueError("1"), ValueError("2"), None])
    lab, run, flows = run_text(flows=flows)
    lab.engine.replay(run.id)
    lab.settle()
    lab.engine.replay(run.id)
    lab.finish(run)

    assert flows.calls == ["a", "b", "rescue", "tell", "b", "rescue", "tell", "b", "tell"]
    assert steps_of(lab, run) == ["a completed", "b completed", "tell completed"]


def test_a_replay_continues_the_last_attempt_at_a_sub_workflow(run_text):
    flows = Flows(
        "workflow w { call workflow sub { retries = 1 } call after }",
        "workflow sub { call first call second }",
        second=[ValueError("1"), ValueError("2"), None],
    )
    lab, run, flows = run_text(flows=flows)
    assert steps_of(lab, run) == ["sub failed"]
    lab.engine.replay(run.id)
    lab.finish(run)

    assert flows.calls == ["first", "second", "first", "second", "second", "after"]
    (sub, _) = lab.engine.run(run.id).steps()
    assert (sub.attempts, sub.status) == (2, "completed")


def test_a_replay_from_a_step_is_given_by_its_key(run_text):
    flows = Flows("workflow w { call a do { max_iterations = 2 call b } while b.x call c }")
    lab, run, flows = run_text(flows=flows)
    lab.finish(run)
    lab.engine.replay(run.id, from_step="b")
    lab.finish(run)

    assert flows.calls == ["a", "b", "c", "b", "c"]


def test_a_fork_restarts_with_the_same_inputs(run_text):
    flows = Flows("workflow w { inputs { x required } call a }")
    lab, run, flows = run_text(flows=flows, inputs={"x": "1"})
    lab.finish(run)
    again = lab.engine.fork(run.id)
    lab.finish(again)

    assert flows.calls == ["a", "a"]
    assert flows.inputs("a", 1)["x"] == "1"


def test_the_always_block_sees_that_the_run_was_cancelled(run_text):
    text = "workflow w { call a wait signal never call b always { call tell } }"
    lab, run, flows = run_text(text)
    lab.engine.cancel(run.id, "enough")
    lab.settle()

    assert lab.engine.run(run.id).status is Status.CANCELLED
    assert flows.calls == ["a", "tell"]
    assert flows.inputs("tell")["workflow_status"] == "cancelled"


def test_compensations_run_after_the_always_block_in_reverse_order(run_text):
    text = """workflow w {
      call a { undo = unmake }
      call b { undo = unmake }
      call c
      always { call tell }
    }"""
    flows = Flows(text, a=[{"output": {"paid": "5"}}], c=[ValueError("no")])
    lab, run, flows = run_text(flows=flows)

    assert flows.calls == ["a", "b", "c", "tell", "unmake", "unmake"]
    assert [call.inputs["undone_step"] for call in flows.seen["unmake"]] == ["b", "a"]
    assert flows.inputs("unmake", 1)["paid"] == "5"
    kinds = [step.kind for step in lab.engine.run(run.id).steps()]
    assert kinds[-2:] == ["undo", "undo"]


def test_a_run_sleeps_waits_for_a_signal_and_emits(run_text):
    text = """workflow w {
      sleep "2h"
      wait signal paid { timeout = "3d" }
      if paid.received { emit "paid {{amount}}" }
    }"""
    lab, run, _ = run_text(text)
    lab.signal(run, "paid", {"amount": "7"})
    lab.finish(run)

    assert steps_of(lab, run) == ["sleep completed", "paid completed", "emit completed"]
    frames = [frame.value for frame in lab.engine.streams.read(run.id)]
    assert frames == ["paid 7"]


def test_a_signal_that_does_not_come_in_time_is_tolerated(run_text):
    text = """workflow w {
      wait signal paid { timeout = "1h" on_timeout = continue }
      if paid.timed_out { call remind }
    }"""
    lab, run, _ = run_text(text)
    lab.finish(run)

    assert steps_of(lab, run) == ["paid timed_out", "remind completed"]


def test_any_node_may_be_a_branch_of_a_parallel_block(run_text):
    text = """workflow w {
      call first
      parallel {
        call a
        do { call b call c }
        if first.never { call d }
        sleep "1h"
      }
      call end
    }"""
    flows = Flows(text, b=[{"context": "from b"}], c=[{"context": "from c"}])
    lab, run, flows = run_text(flows=flows)
    lab.finish(run)

    assert sorted(flows.calls[1:4]) == ["a", "b", "c"] and flows.calls[4] == "end"
    assert flows.inputs("end")["prior_context"] == "from c"
    assert flows.inputs("c")["prior_context"] == "from b"
    assert steps_of(lab, run)[1:5] == [
        "a completed",
        "b completed",
        "c completed",
        "sleep completed",
    ]


def test_a_failed_branch_stops_branches_that_wait(run_text):
    text = 'workflow w { parallel { call a gate human_review { prompt = "?" } } }'
    flows = Flows(text, a=[ValueError("no")])
    lab, run, _ = run_text(flows=flows)

    assert steps_of(lab, run) == ["a failed", "human_review cancelled"]
    assert lab.engine.run(run.id).status is Status.FAILED
    assert lab.engine.gates.list() == []


def test_typed_inputs_are_checked_and_seen_by_expressions(run_text):
    text = """workflow w {
      inputs {
        count type = number default = 3
        level choices = ["low", "high"] default = "low"
        tags type = list default = "[]"
      }
      if (count > 3 and level == "high" and "x" in tags) { call a }
      unless (inputs.count > 3) { call b }
    }"""
    flows = Flows(text)
    lab, run, flows = run_text(flows=flows, inputs={"count": "4", "level": "high", "tags": ["x"]})
    lab.finish(run)
    assert flows.calls == ["a"]
    assert (flows.inputs("a")["count"], flows.inputs("a")["tags"]) == ("4", '["x"]')

    for inputs, name in [
        ({"count": "many"}, "count"),
        ({"level": "mid"}, "level"),
        ({"tags": "x"}, "tags"),
        ({"cuont": 1}, "cuont"),
    ]:
        with pytest.raises(BadOption, match=name):
            lab.start(flows["w"], inputs)
    assert lab.engine.runs().count() == 1


def test_an_expression_over_different_types_fails_the_run_with_its_line(run_text):
    text = "workflow w {\n  call a\n  if (a.output.score < 75) { call b }\n}"
    lab, run, _ = run_text(text)

    assert lab.engine.run(run.id).status is Status.FAILED
    assert "a.output.score" in error_of(lab, run) and ":3" in error_of(lab, run)


def test_declared_outputs_are_the_output_of_the_result(run_text):
    text = """workflow w {
      outputs { verdict = judge.verdict  note = "said {{prior_context}}"  other = late.x }
      call judge
      if judge.never { call late }
    }"""
    flows = Flows(text, judge=[{"output": {"verdict": "good", "n": 1}, "context": "yes"}])
    lab, run, _ = run_text(flows=flows)

    assert lab.finish(run)["output"] == {"verdict": "good", "note": "said yes", "other": None}


def test_an_inline_body_sees_the_variables_and_the_item(run_text):
    text = """workflow w {
      inputs { color default = "red" }
      call before
      foreach each {
        over = things  max_parallel = 2  inputs = { label = "{{item.id}}-{{color}}" }
        do { call paint  if paint.wet { call dry } }
      }
      if each.has_failures { call sweep }
    }"""
    flows = Flows(
        text, before=[{"context": "ready"}], paint=[{"markers": ["wet"]}, ValueError("spilled")]
    )

    @flows.library.provider("things")
    def things(ask):
        return [wf.Item("x", context={"size": "9"}), wf.Item("y"), wf.Item("x")]

    lab, run, flows = run_text(flows=flows)
    lab.finish(run)

    assert sorted(flows.calls) == ["before", "dry", "paint", "paint", "sweep"]
    first = flows.inputs("paint")
    assert (first["color"], first["prior_context"]) == ("red", "ready")
    assert first["label"] in ("x-red", "y-red")
    each = next(step for step in lab.engine.run(run.id).steps() if step.kind == "foreach")
    assert each.status == "completed" and len(each.items) == 2
    assert each.context == "foreach each: 1 completed, 1 failed, 0 skipped of 2 things"
    child = lab.engine.run(each.items[0]["run"])
    assert child.steps()[0].step == "paint"


def test_items_that_fail_are_replayed_alone(run_text):
    flows = Flows(
        "workflow w { foreach each { over = things max_parallel = 1 workflow = one"
        " on_child_fail = halt } }",
        "workflow one { call work }",
        work=[None, ValueError("no"), None, None],
    )

    @flows.library.provider("things")
    def things(ask):
        flows.calls.append("things")
        return [{"id": name} for name in "abc"]

    lab, run, flows = run_text(flows=flows)
    assert lab.engine.run(run.id).status is Status.FAILED
    assert lab.engine.run(run.id).steps()[0].error == "no"
    lab.engine.replay(run.id)
    lab.finish(run)

    assert flows.calls == ["things", "work", "work", "work", "work"]


def test_a_halted_foreach_shows_the_items_that_completed_before(run_text):
    flows = Flows(
        "workflow w { foreach each { over = things max_parallel = 1 workflow = one"
        " on_child_fail = halt } }",
        "workflow one { call work }",
        work=[wf.Output(output={"n": 1}), ValueError("no")],
    )

    @flows.library.provider("things")
    def things(ask):
        return [{"id": name} for name in "abc"]

    lab, run, flows = run_text(flows=flows)
    (each,) = lab.engine.run(run.id).steps()

    assert each.status == "failed"
    assert each.context == "foreach each: 1 completed, 1 failed, 0 skipped of 3 things"
    assert each.output["items"] == [
        {"item_id": "a", "status": "completed", "output": {"n": 1}},
        {"item_id": "b", "status": "failed", "output": None},
    ]


@pytest.mark.parametrize("answer", [{"markers": "more"}, {"markers": {"m": 1}}, {"context": 5}])
def test_an_answer_with_fields_of_another_kind_is_a_failed_attempt(run_text, answer):
    flows = Flows("workflow w { call a { retries = 1 } if a.m { call b } }", a=[answer, answer])

    lab, run, flows = run_text(flows=flows)

    assert flows.calls == ["a", "a"]
    field = next(iter(answer))
    assert f"field='{field}'" in error_of(lab, run)


def test_a_resolver_is_asked_at_its_interval_while_time_passes(run_text):
    flows = Flows("workflow w { gate pr_checks { } call after }")
    asked = []

    @flows.library.resolver("pr_checks", every="30s")
    def pr_checks(ask):
        asked.append(lab.clock.now())
        return wf.approved("green") if len(asked) == 4 else None

    lab, _, flows = run_text(flows=flows)
    lab.advance("5m")

    assert flows.calls == ["after"]
    assert [later - first for first, later in pairwise(asked)] == [30_000_000] * 3


@pytest.mark.parametrize("policy, status", [("fail", "failed"), ("warn", "completed")])
def test_items_that_wait_for_each_other(run_text, policy, status):
    flows = Flows(
        "workflow w { foreach each { over = tickets ordered = true max_parallel = 3"
        f" workflow = one on_cycle = {policy} }} }}",
        "workflow one { call work }",
    )

    @flows.library.provider("tickets", ordered=True)
    def tickets(ask):
        return [wf.Item("a", after=["b"]), wf.Item("b", after=["a"]), wf.Item("c", after=["zz"])]

    lab, run, flows = run_text(flows=flows)

    assert lab.engine.run(run.id).status.value == status
    assert len(flows.calls) == (0 if status == "failed" else 3)
    if status == "failed":
        assert "a -> b -> a" in error_of(lab, run)
    each = lab.engine.run(run.id).steps()[0]
    assert each.status == status
    if status == "failed":
        assert (each.error, each.items) == ("the items wait for each other: a -> b -> a", [])


def test_options_of_a_gate_come_from_a_step_and_none_may_be_selected(run_text):
    gate = 'gate human_approval { prompt = "{{x}}?" options = a.choices }'
    text = f"workflow w {{ call a {gate} call b }}"
    flows = Flows(text, a=[{"output": {"choices": {"k": "Key"}, "x": "which"}}])
    lab, run, flows = run_text(flows=flows)
    (gate,) = lab.engine.gates.list()
    assert (gate.prompt, gate.options[0].label) == ("which?", "Key")
    lab.engine.gates.approve(gate.id, by="ann", feedback="fine")
    lab.finish(run)

    assert flows.inputs("b")["gate_feedback"] == "fine"


def test_a_rejected_gate_fails_the_run_with_its_feedback(run_text):
    lab, run, flows = run_text('workflow w { gate human_review { prompt = "?" } call b }')
    (gate,) = lab.engine.gates.list()
    lab.engine.gates.reject(gate.id, by="ann", feedback="too long")
    lab.settle()

    assert "too long" in error_of(lab, run) and "human_review" in error_of(lab, run)
    assert lab.engine.run(run.id).steps()[0].error == "it was rejected: too long"
    assert flows.calls == []


def test_a_gate_hides_no_step_with_the_name_of_its_type(run_text):
    text = "workflow w { call human_review gate human_review { } if human_review.x { call b } }"
    flows = Flows(text, human_review=[{"markers": ["x"]}])
    lab, run, flows = run_text(flows=flows)
    (gate,) = lab.engine.gates.list()
    lab.engine.gates.approve(gate.id, by="ann")
    lab.finish(run)

    assert flows.calls == ["human_review", "b"]


@pytest.mark.parametrize("policy, status", [("continue", "completed"), ("fail", "failed")])
def test_a_quality_gate_whose_source_has_failed_does_as_its_option_says(run_text, policy, status):
    text = f"""workflow w {{
      call a {{ on_fail = continue }}
      gate quality_gate {{ source = a threshold = 5 on_fail = {policy} }}
    }}"""
    lab, run, _ = run_text(flows=Flows(text, a=[ValueError("no")]))

    assert steps_of(lab, run) == ["a failed", f"quality_gate {status}"]
    assert lab.engine.run(run.id).status.value == status


def test_a_workflow_with_errors_is_refused_before_anything_is_written(run_text, tmp_path):
    flows = Flows("workflow w { call a }", "workflow v { call workflow gone }", root=tmp_path)
    lab, _, _ = run_text(flows=flows)

    with pytest.raises(BadWorkflow, match="gone"):
        lab.start(flows["v"])
    with pytest.raises(BadOption, match="x"):
        lab.start(flows["w"], {"x": "1"})
    assert lab.engine.runs().count() == 1


def test_a_retry_rule_names_the_failures_that_are_retried(run_text):
    text = 'workflow w { call a { retry = { max = 3 backoff = "10s" on = ["KeyError"] } } }'
    flows = Flows(text, a=[KeyError("1"), KeyError("2"), ValueError("3")])
    lab, run, flows = run_text(flows=flows)
    with pytest.raises(RunFailed):
        lab.finish(run)

    assert flows.calls == ["a", "a", "a"]
    calls = flows.seen["a"]
    assert [call.attempt for call in calls] == [1, 2, 3]
    assert calls[2].last_error == "'2'"


def test_a_retry_keeps_its_error_over_a_restart(run_text):
    text = 'workflow w { call a { retry = { max = 1 backoff = "1h" } } }'
    flows = Flows(text, a=[ValueError("first")])
    lab, run, flows = run_text(flows=flows)
    lab.restart()
    lab.finish(run)

    assert flows.seen["a"][1].last_error == "first"


def test_expressions_in_a_body_see_the_facts_of_the_item(tmp_path):
    text = """workflow w {
      foreach each { over = things max_parallel = 1 do {
        if (item.id == "p" or item.size == "big") { call picked }
        if (item.nothing == null) { call each_time }
      } }
    }"""
    flows = Flows(text)
    items = [wf.Item("p"), wf.Item("q"), wf.Item("r", context={"size": "big"})]
    flows.library.provider("things")(lambda ask: items)
    with closing(Lab(tmp_path / "x.db", workflows=[flows.library])) as lab:
        lab.run_to_end(flows["w"])

    assert flows.calls.count("picked") == 2 and flows.calls.count("each_time") == 3
