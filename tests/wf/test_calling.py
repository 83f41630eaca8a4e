"""Texts, Python workflows and tasks call each other; lanes, budgets and providers."""

from contextlib import closing

import pytest

import holdfast
from holdfast import Engine, wf
from holdfast.core.status import Status
from holdfast.testing import Lab
from tests.engine.waiting import until
from tests.wf.flows import Flows, steps_of


@holdfast.step
async def add_one(number: int) -> int:
    return number + 1


@holdfast.workflow
async def count_in_python(number: str) -> dict:
    return {"output": {"count": await add_one(int(number))}, "markers": ["counted"]}


@holdfast.task(name="render_by_task")
def render_by_task(call: dict) -> dict:
    return {"markers": ["rendered"], "context": call["inputs"]["what"]}


def test_a_text_calls_a_python_workflow(tmp_path):
    flows = Flows(
        """workflow w {
          call workflow count_in_python { inputs { number = "{{n}}" } }
          if count_in_python.counted { call a }
        }"""
    )
    with closing(Lab(tmp_path / "x.db", workflows=[flows.library, count_in_python])) as lab:
        run = lab.start(flows["w"], {}, variables={"n": "4"})
        lab.finish(run)
        assert steps_of(lab, run) == ["count_in_python completed", "a completed"]
        assert lab.engine.run(run.id).steps()[0].output == {"count": 5}


def test_a_python_workflow_calls_a_text(tmp_path):
    flows = Flows("workflow w { inputs { x required } call a }", a=[{"context": "done"}])

    @holdfast.workflow(name="python_calls_text")
    async def caller() -> str:
        result = await flows["w"]({"x": "1"})
        return result["context"]

    @holdfast.workflow(name="def_calls_text")
    def plain_caller() -> list:
        return sorted(flows["w"]({"x": "2"}))

    library = flows.library
    with closing(Lab(tmp_path / "x.db", workflows=[library, caller, plain_caller])) as lab:
        assert lab.run_to_end(caller) == "done"
        assert lab.run_to_end(plain_caller) == ["context", "markers", "output"]
        assert flows.inputs("a")["x"] == "1"


def test_a_task_is_an_executor(tmp_path):
    library = wf.Library(root=tmp_path)
    library.add("workflow w { call render { lane = gpu } call render }", path="w.wf")
    library.executor("render")(render_by_task)
    with closing(Lab(tmp_path / "x.db", workflows=[library, render_by_task])) as lab:
        run = lab.start(library["w"], {}, variables={"what": "cube"})
        assert lab.finish(run) == {"markers": ["rendered"], "context": "cube", "output": None}
        (first, second) = lab.engine.run(run.id).steps()
        assert lab.engine.run(first.run).record.lane == "gpu"
        assert lab.engine.run(second.run).record.lane == "default"


def test_a_call_on_a_lane_is_a_run_of_its_own(tmp_path):
    text = "workflow w { inputs { x required } do { with = [s] call a { lane = gpu } call b } }"
    flows = Flows(text, a=[{"markers": ["m"], "output": {"y": "2"}}])
    with closing(Lab(tmp_path / "x.db", workflows=[flows.library])) as lab:
        run = lab.start(flows["w"], {"x": "1"})
        lab.finish(run)
        step = lab.engine.run(run.id).steps()[0]
        assert (step.step, step.markers) == ("a", ["m"])
        assert lab.engine.run(step.run).record.lane == "gpu"
        assert flows.seen["a"][0].snippets == ["s"]
        assert (flows.inputs("a")["x"], flows.inputs("b")["y"]) == ("1", "2")


def test_a_call_on_a_lane_counts_its_attempts(tmp_path):
    text = """workflow w {
      call a { lane = gpu retries = 2 }
      call b { lane = gpu retries = 1 on_fail = continue }
    }"""
    flows = Flows(text, a=[ValueError("1"), None], b=[ValueError("1"), ValueError("2")])
    with closing(Lab(tmp_path / "x.db", workflows=[flows.library])) as lab:
        run = lab.start(flows["w"])
        lab.finish(run)
        steps = lab.engine.run(run.id).steps()

    assert [(step.status, step.attempts) for step in steps] == [("completed", 2), ("failed", 2)]


def test_a_call_on_a_lane_in_a_loop_has_its_steps(tmp_path):
    text = """workflow w {
      do { max_iterations = 2 on_max_iter = continue call a { lane = gpu } } while a.more
    }"""
    flows = Flows(text, a=[{"markers": ["more"]}] * 2)
    with closing(Lab(tmp_path / "x.db", workflows=[flows.library])) as lab:
        run = lab.start(flows["w"])
        lab.finish(run)
        steps = lab.engine.run(run.id).steps()
        own = [lab.engine.run(step.run).steps() for step in steps]

    assert [(step.step, step.iteration, step.status) for (step,) in own] == [
        ("a", [0], "completed"),
        ("a", [1], "completed"),
    ]
    assert [call.iteration for call in flows.seen["a"]] == [[0], [1]]


def test_a_budget_blocks_the_run_until_its_limit_is_raised(tmp_path):
    flows = Flows(
        'workflow w { budget { cost_usd = "5.00" } call a call b call c }',
        a=[{"metrics": {"cost_usd": 3, "num_turns": 2}}],
        b=[{"metrics": {"cost_usd": "2.5"}}],
    )
    with closing(Lab(tmp_path / "x.db", workflows=[flows.library])) as lab:
        run = lab.start(flows["w"])
        lab.settle()
        assert flows.calls == ["a", "b"]
        assert lab.engine.run(run.id).status is Status.BLOCKED
        (budget,) = lab.engine.run(run.id).record.budgets
        lab.engine.budgets.raise_limits(budget, {"cost_usd": 10})
        lab.finish(run)
        assert flows.calls == ["a", "b", "c"]
        assert lab.engine.run(run.id).steps()[0].metrics == {"cost_usd": 3, "num_turns": 2}


@pytest.mark.parametrize(
    "scope, files, ids",
    [
        (
            'over = files scope = { glob = "*.txt" }',
            {"b.txt": "", "a.txt": "", "c.md": ""},
            ["a.txt", "b.txt"],
        ),
        ('over = lines scope = { path = "list" }', {"list": "one\n\ntwo\n"}, ["one", "two"]),
        (
            'over = rows scope = { path = "r.json" }',
            {"r.json": '[{"id": "x"}, {"n": 2}]'},
            ["x", "2"],
        ),
        (
            'over = rows scope = { path = "r.csv" id = "name" }',
            {"r.csv": "name,n\nann,1\nbob,2\n"},
            ["ann", "bob"],
        ),
    ],
)
def test_items_come_from_files(tmp_path, scope, files, ids):
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    flows = Flows(
        f"workflow w {{ foreach each {{ {scope} max_parallel = 1 do {{ call a }} }} }}",
        root=tmp_path,
    )
    with closing(Lab(tmp_path / "x.db", workflows=[flows.library])) as lab:
        run = lab.start(flows["w"], {}, cwd=str(tmp_path))
        lab.finish(run)

    assert [call.inputs["item.id"] for call in flows.seen["a"]] == ids


def test_items_are_runs_of_the_engine(tmp_path):
    flows = Flows(
        "workflow w { foreach each { over = runs filter = { workflow = part status = failed }"
        " max_parallel = 1 do { call a } } }",
        "workflow part { call b }",
        b=[ValueError("no"), None],
    )
    with closing(Lab(tmp_path / "x.db", workflows=[flows.library])) as lab:
        failed = lab.start(flows["part"])
        lab.settle()
        lab.run_to_end(flows["part"])
        lab.run_to_end(flows["w"])

    assert [call.inputs["item.id"] for call in flows.seen["a"]] == [failed.id]


@pytest.mark.parametrize("path", ["../secret", "/etc/passwd", "missing"])
def test_a_provider_stays_inside_its_folder(tmp_path, path):
    flows = Flows(
        f'workflow w {{ foreach each {{ over = lines scope = {{ path = "{path}" }}'
        " max_parallel = 1 do { call a } } }",
        root=tmp_path,
    )
    with closing(Lab(tmp_path / "x.db", workflows=[flows.library])) as lab:
        run = lab.start(flows["w"], {}, cwd=str(tmp_path))
        lab.settle()
        assert lab.engine.run(run.id).status is Status.FAILED
        assert path in lab.engine.run(run.id).record.error.message


def test_a_used_file_comes_before_the_library(tmp_path):
    (tmp_path / "common").mkdir()
    (tmp_path / "common" / "publish.wf").write_text("workflow publish { call used }")
    (tmp_path / "w.wf").write_text('workflow w { use "common/publish.wf" call workflow publish }')
    (tmp_path / "publish.wf").write_text("workflow publish { call other }")
    calls = []
    library = wf.Library(tmp_path, root=tmp_path)
    library.executor()(lambda call: calls.append(call.name))
    with closing(Lab(tmp_path / "x.db", workflows=[library])) as lab:
        lab.run_to_end(library["w"])

    assert calls == ["used"]


def test_twenty_workers_share_a_run(database):
    """The run leaves memory whenever it waits, and any of the workers takes it up again."""
    text = """workflow w {
      do { max_iterations = 20 call a wait signal go } while a.more call b
    }"""
    calls = []

    def library_of(number):
        library = wf.Library()
        library.add(text, path="w.wf")

        @library.executor()
        async def note(call):
            calls.append((number, call.step, tuple(call.iteration)))
            return {"markers": ["more"] if len(calls) < 20 else []}

        return library

    libraries = [library_of(number) for number in range(20)]
    engines = [Engine(database, workflows=[each], idle_timeout=0) for each in libraries]
    try:
        for engine in engines:
            engine.work()
        run = engines[0].start(libraries[0]["w"])
        for number in range(20):
            until(lambda number=number: len(calls) > number and run.status == "waiting")
            engines[number].signal(run.id, "go")
        run.result(timeout="60s")
    finally:
        for engine in engines:
            engine.close(shutdown_timeout=1)

    done = [(step, iteration) for _, step, iteration in calls]
    assert done == [("a", (number,)) for number in range(20)] + [("b", ())]
    assert len({number for number, _, _ in calls}) > 1
