"""Workflows that go by the same name."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import holdfast
from holdfast import Engine, workflow
from holdfast.authoring import registry
from holdfast.errors import WorkflowExists


def define(place: str, answer: str) -> holdfast.authoring.code.workflow.Workflow:
    """Define a workflow `twice` as if in a module of its own."""
    source = (
        "from holdfast import workflow\n@workflow\nasync def twice(n: int) -> str:\n    return"
        f" {answer!r}\n"
    )
    names: dict = {}
    exec(compile(source, place, "exec"), names)
    return names["twice"]


def test_two_of_one_name_are_told_apart_by_who_has_the_function(database):
    one, other = define("one.py", "one"), define("other.py", "other")

    @workflow
    async def parent() -> str:
        return await one(1)

    with Engine(database) as engine:
        with pytest.raises(WorkflowExists, match=r"one\.py:2.*other\.py:2"):
            engine.start("twice", 1)
        assert engine.start(other, 1).result(timeout=20) == "other"
    with Engine(database) as engine:
        assert engine.start(parent).result(timeout=20) == "one"


def test_a_local_workflow_does_not_come_before_one_that_a_module_defines(database):
    source = (
        "from holdfast import workflow\n@workflow\nasync def lonely(n: int) -> str:\n    return"
        " 'module'\n"
    )
    exec(compile(source, "lonely.py", "exec"), {})

    @workflow
    async def lonely(n: int) -> str:
        return "local"

    with Engine(database) as engine:
        assert engine.start("lonely", 1).result(timeout=20) == "module"
        assert engine.start(lonely, 1, id="x").result(timeout=20) == "local"


@pytest.fixture
def production(monkeypatch):
    """A process that is no test process, and that defines nothing yet."""
    monkeypatch.delitem(sys.modules, registry.PYTEST_PLUGIN)
    monkeypatch.setattr(registry, "_registered", {})


@pytest.mark.usefixtures("production")
def test_an_engine_does_not_start_with_two_workflows_of_one_name(database):
    define("one.py", "one"), define("other.py", "other")
    engine = Engine(database)

    with pytest.raises(WorkflowExists, match=r"one\.py:2.*other\.py:2"):
        engine.work()

    engine.close()


@pytest.mark.usefixtures("production")
def test_a_name_that_a_later_import_defines_again_is_refused(database):
    one = define("one.py", "one")
    with Engine(database) as engine:
        assert engine.start(one, 1).result(timeout=20) == "one"
        other = define("other.py", "other")
        with pytest.raises(WorkflowExists):
            engine.start(other, 1)


@pytest.mark.usefixtures("production")
def test_a_module_that_is_loaded_again_replaces_its_workflows(database):
    define("one.py", "old")
    new = define("one.py", "new")

    with Engine(database) as engine:
        assert engine.start("twice", 1).result(timeout=20) == "new"
        assert engine.start(new, 2).result(timeout=20) == "new"


def test_workflows_of_one_name_cannot_be_passed_together(database):
    one, other = define("one.py", "one"), define("other.py", "other")

    with pytest.raises(WorkflowExists, match="twice"):
        Engine(database, workflows=[one, other])

    Engine(database, workflows=[one, one.options(lane="slow")]).close()


PROGRAM = """
import sys
from holdfast import Engine, workflow

@workflow
async def twice() -> str:
    return "done"

if __name__ == "__main__":
    import program
    assert program.twice is not twice
    with Engine(sys.argv[1]) as engine:
        print(engine.start("twice").result(timeout=20))
"""


@pytest.mark.parametrize("arguments", [["program.py"], ["-m", "program"]])
@pytest.mark.sqlite_only
def test_a_program_may_import_itself(database, tmp_path, arguments):
    (tmp_path / "program.py").write_text(PROGRAM)
    environment = {"PYTHONPATH": str(Path(holdfast.__file__).parents[1])}

    finished = subprocess.run(
        [sys.executable, *arguments, database],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
    )

    assert (finished.stdout, finished.stderr) == ("done\n", "")
