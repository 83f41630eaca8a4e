"""Figures that the screens of the web UI read, on both databases."""

from __future__ import annotations

from holdfast import Engine
from holdfast.server import app
from tests.server.clients import ApiClient
from tests.server.conftest import WORKFLOWS
from tests.ui.models import MODEL


def test_lanes_models_versions_and_storage_are_counted(both):
    with Engine(both, workflows=WORKFLOWS, shutdown_timeout=1) as engine:
        admin = ApiClient.maker(engine, app(engine))("admin")
        engine.lanes.set("closed", paused=True)
        engine.start("server.double", 1, id="ready-1", lane="closed", share="gold")
        engine.start("elsewhere", id="ready-2", lane="closed", version="7")
        engine.start("server.ask", id="asks").wait_until("waiting", timeout="20s")
        engine.models.deploy(MODEL.replace("releasing", "counting"))
        for number in range(2):
            engine.start("counting", id=f"token-{number}").wait_until("waiting", timeout="20s")

        lane = next(x for x in admin.json("GET", "/lanes")["items"] if x["name"] == "closed")
        nodes = admin.json("GET", "/workflows/counting/diagram")["nodes"]
        sizes = {x["workflow"]: x for x in admin.json("GET", "/storage/workflows")["items"]}
        kinds = {x["name"]: x["kind"] for x in admin.json("GET", "/workflows")["items"]}
        verdicts = {x["workflow"]: x for x in admin.json("POST", "/versions/check", {})["items"]}

        assert (lane["ready"], lane["running"], lane["shares"]) == (2, 0, {})
        assert lane["oldest_ready"] is not None
        assert {node["id"]: node["tokens"] for node in nodes if "tokens" in node} == {"decide": 2}
        assert (kinds["counting"], kinds["server.ask"]) == ("bpmn", "python")
        assert kinds["elsewhere"] is None
        assert (sizes["counting"]["runs"], sizes["elsewhere"]["events"]) == (2, 0)
        assert sizes["server.ask"]["bytes"] == sizes["server.ask"]["last_day"] > 200
        assert (verdicts["server.ask"]["verdict"], verdicts["server.ask"]["judged"]) == ("fits", 1)
        assert (verdicts["elsewhere"]["verdict"], verdicts["elsewhere"]["judged"]) == ("unknown", 0)


def test_a_namespace_sees_its_own_storage(engine, connect):
    engine.start("server.double", 21, id="sized").result(timeout="20s")

    stranger = connect("viewer", namespace="other")

    assert stranger.json("GET", "/storage/workflows")["items"] == []
