"""A workflow of the process and a deployed model of one name: refused where it is noticed."""

from __future__ import annotations

import pytest

from holdfast import Engine, workflow
from holdfast.errors import WorkflowExists
from tests.engine.models.toy_models import toy


@workflow(name="twice_named")
async def twice_named() -> str:
    return "python"


MODEL = toy("twice_named", ("call", "note"))
HANDLERS = {"note": lambda variables: "model"}


def test_a_process_with_the_workflow_does_not_deploy_the_model(database):
    with Engine(database, workflows=[twice_named], handlers=HANDLERS) as engine:
        with pytest.raises(WorkflowExists, match=r"twice_named.*test_shared_names.*deployed"):
            engine.models.deploy(MODEL)

        assert engine.models.list() == []
        assert engine.start("twice_named").result(timeout=60) == "python"


def test_a_process_with_the_workflow_does_not_work_beside_the_model(database):
    with Engine(database, workflows=[], handlers=HANDLERS, shutdown_timeout=1) as first:
        first.models.deploy(MODEL)
        assert first.start("twice_named").result(timeout=60) == {"note": "model"}

    with Engine(database, workflows=[twice_named], work=False) as client:
        with pytest.raises(WorkflowExists):
            client.start("twice_named")
        worker = Engine(database, workflows=[twice_named])
        with pytest.raises(WorkflowExists), worker:
            pass
        worker.close()

        client.models.deprecate("twice_named", 1)
        with pytest.raises(WorkflowExists):
            client.models.activate("twice_named", 1)
    with Engine(database, workflows=[twice_named]) as replaced:
        assert replaced.start("twice_named").result(timeout=60) == "python"
