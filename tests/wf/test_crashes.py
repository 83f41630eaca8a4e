"""A crash before, after and instead of each commit, for each kind of node."""

from functools import partial

import pytest

from holdfast import wf
from holdfast.testing import crash_everywhere
from holdfast.testing.postgres import _WIPE
from tests.wf.flows import Flows

PROGRAMS = {
    "calls": """workflow w {
      call a { retries = 1 } if a.x { call b } call c { on_fail = continue }
    }""",
    "loops": """workflow w {
      call a while a.x { max_iterations = 2 on_max_iter = continue call a }
    }""",
    "script": 'workflow w { script s { run = "echo hi" } call a }',
    "parallel": """workflow w {
      parallel { min_success = 1 fail_fast = false call a call c } call b
    }""",
    "sub-workflow": "workflow w { call workflow sub call b }",
    "foreach": """workflow w {
      foreach each { over = things max_parallel = 1 workflow = sub } call b
    }""",
    "ordered": """workflow w {
      foreach each { over = things ordered = true max_parallel = 2 do { call a } } call b
    }""",
    "waits": """workflow w {
      sleep "1h" emit "x" wait signal go { timeout = "1h" on_timeout = continue } call a
    }""",
    "always": "workflow w { call a { undo = b } call c always { call d } }",
}
MIXED = {
    "work": """workflow w {
      do { max_iterations = 1 on_max_iter = continue call a { undo = b } } while a.x
      script s { run = "echo hi" }
      parallel { call b sleep "1h" }
      if a.x { emit "x" }
      call c
      always { call d }
    }""",
    "children": """workflow w {
      wait signal go { timeout = "1h" on_timeout = continue }
      gate human_review { prompt = "?" }
      call workflow sub
      foreach each { over = thing max_parallel = 1 workflow = sub }
      foreach all { over = thing ordered = true max_parallel = 1 do { call a } }
    }""",
}
"""Each kind of node once, in few commits: a database server takes its time for each run."""


def flows_for(name):
    text = PROGRAMS.get(name) or MIXED[name]
    flows = Flows(text, f"workflow sub {{ call a {'' if name in MIXED else 'call b'} }}")

    @flows.library.provider("things", ordered=True)
    def things(ask):
        return [wf.Item("p", after=["q"]), wf.Item("q")]

    @flows.library.provider("thing", ordered=True)
    def thing(ask):
        return [wf.Item("p")]

    @flows.library.executor("a")
    def first(call):
        return {"markers": ["x"]}

    @flows.library.executor("c")
    def failing(call):
        raise ValueError("always fails")

    return flows


@pytest.mark.parametrize("name", list(PROGRAMS))
def test_a_program_comes_to_the_same_end_whenever_its_worker_dies(name, tmp_path):
    flows = flows_for(name)
    exact = name not in ("parallel", "ordered")

    report = crash_everywhere(
        flows["w"],
        {},
        exact=exact,
        doubles=1,
        zombies=name == "calls",
        kwargs={"cwd": str(tmp_path)},
    )

    assert report.boundaries >= 2


@pytest.mark.parametrize("name, commits", [("work", 8), ("children", 10)])
def test_each_kind_of_node_comes_to_the_same_end_in_postgres(
    name, commits, tmp_path, postgres_server
):
    flows = flows_for(name)
    with postgres_server.lend() as url:
        report = crash_everywhere(
            flows["w"],
            {},
            doubles=0,
            zombies=False,
            people=[approve],
            kwargs={"cwd": str(tmp_path)},
            database=url,
            clear=partial(postgres_server.execute, _WIPE, url),
        )

    assert report.boundaries >= commits


def approve(lab, gate):
    lab.engine.gates.approve(gate.id, by="ann", feedback="ok")


def test_a_gate_is_asked_once_whenever_its_worker_dies(tmp_path):
    flows = Flows('workflow w { call a gate human_review { prompt = "?" } call b }')

    report = crash_everywhere(
        flows["w"],
        {},
        people=[approve],
        doubles=1,
        zombies=False,
    )

    assert report.boundaries >= 3
