"""Everything that users can ask about models and API keys, with the arguments with which it makes
sense."""

from __future__ import annotations

from typing import Any

from holdfast import Engine, bpmn, dmn
from tests.engine.every_model import decision_model, waiting_model
from tests.engine.waiting import wait_until
from tests.engine.wrong_types.probing import Call


def populate_models(database: str) -> None:
    """Deploy models, and let one run of them wait, and another one end."""
    with Engine(database, workflows=[], shutdown_timeout=1) as engine:
        engine.models.deploy(waiting_model("odd"), decision_model("odd"))
        engine.start("odd-model", {}, id="model-run")
        wait_until(engine, lambda: len(engine.models.tasks()) == 2 and engine.models.incidents())
        engine.start("odd-model", {}, id="ended").cancel()
        wait_until(engine, lambda: engine.run("ended").status == "cancelled")


def calls_of_models(engine: Any) -> list[Call]:
    """Everything that an engine can be asked about models."""
    # An instruction to a run that has ended is refused after its arguments have been checked.
    ended = {"run": "ended", "by": "ann"}
    run = {"run": "model-run"}
    tasks = {task.kind: task.id for task in engine.models.tasks()}
    incident = {incident.element: incident.id for incident in engine.models.incidents()}
    decided = {"incident": incident.get("odd-broken", "none"), "variables": {"a": 1}, "by": "ann"}
    return [
        Call(
            "models.deploy",
            lambda source, **given: engine.models.deploy(source, **given),
            {"source": waiting_model("odd"), "saga": "scope", "by": "ann"},
        ),
        Call("models.get", engine.models.get, {"process": "odd-model", "version": 1}),
        Call(
            "models.decide",
            engine.models.decide,
            {"decision": "odd-decision", "variables": {"a": 1}, "version": 1},
        ),
        Call("models.activate", engine.models.activate, {"process": "odd-model", "version": 1}),
        Call("models.deprecate", engine.models.deprecate, {"process": "odd-model", "version": 1}),
        Call(
            "models.message",
            engine.models.message,
            {"name": "odd", "variables": {}, "key": "k", "id": "i", "ttl": "1h"},
        ),
        Call(
            "models.message to a run",
            engine.models.message,
            {"name": "odd", **run, "element": "odd-heard"},
        ),
        Call("models.broadcast", engine.models.broadcast, {"name": "odd", "variables": {"a": 1}}),
        Call(
            "models.tasks", engine.models.tasks, {}, ("run", "process", "element", "mine", "role")
        ),
        Call("models.variables", engine.models.variables, {**run, "element": "odd-person"}),
        Call("models.tokens", engine.models.tokens, {**run, "at": 1}),
        Call("models.trace", engine.models.trace, {**run, "at": 1}),
        Call("models.diagram", engine.models.diagram, {**run, "at": 1}),
        Call("models.incidents", engine.models.incidents, run),
        Call("models.trigger", engine.models.trigger, {**ended, "element": "e"}),
        Call(
            "models.start_activity",
            engine.models.start_activity,
            {**ended, "scope": "s", "activity": "a"},
        ),
        Call(
            "models.set_variables",
            engine.models.set_variables,
            {**ended, "variables": {"a": 1}, "element": "e"},
        ),
        Call(
            "models.modify",
            lambda move, **given: engine.models.modify("ended", move, **given),
            {"move": bpmn.add("odd-person"), "by": "ann"},
            ("reason", "expect", "dry_run"),
        ),
        Call(
            "models.modify dry_run",
            lambda move, **given: engine.models.modify("model-run", move, dry_run=True, **given),
            {"move": bpmn.add("odd-person"), "reason": "r"},
            ("expect",),
        ),
        Call(
            "models.modify facts",
            lambda **facts: engine.models.modify("model-run", facts, dry_run=True),
            {"kind": "move", "token": "3", "element": "odd-person"},
        ),
        Call(
            "models.migrate",
            engine.models.migrate,
            {**run, "to": 2, "mapping": {"a": "b"}, "by": "ann", "reason": "r"},
            ("dry_run",),
        ),
        Call("models.suspend", engine.models.suspend, {**ended, "reason": "r"}),
        Call("models.resume", engine.models.resume, {**ended, "reason": "r"}),
        Call(
            "models.throw",
            engine.models.throw,
            {"task": "none", "code": "c", "message": "m", "variables": {}, "by": "ann"},
        ),
        Call("models.retry", engine.models.retry, decided),
        Call("models.skip", engine.models.skip, decided),
        Call(
            "models.complete",
            engine.models.complete,
            {"task": tasks.get("user", "none"), "variables": {"a": 1}, "by": "ann"},
        ),
        Call(
            "models.complete external",
            engine.models.complete,
            {"task": tasks.get("external", "none"), "variables": {"a": 1}, "by": "ann"},
        ),
        Call(
            "api_keys.add",
            engine.api_keys.add,
            {"name": "odd", "roles": "viewer", "by": "ann"},
            ("namespace", "gate_roles", "values", "expires"),
        ),
        Call("api_keys.revoke", engine.api_keys.revoke, {"name": "none"}),
        Call("graphs.diagram", engine.graphs.diagram, {"graph_id": "graph"}),
    ]


CALLS_OF_FILES = [
    Call("bpmn.load", bpmn.load, {"source": waiting_model("odd")}),
    Call("bpmn.move", bpmn.move, {"token": "3", "to": "a"}),
    Call("bpmn.add", bpmn.add, {"element": "a"}),
    Call("bpmn.cancel", bpmn.cancel, {"token": "3"}),
    Call("dmn.load", dmn.load, {"source": decision_model("odd"), "imports": ()}),
    Call("dmn.feel", dmn.feel, {"text": "1 + 1", "variables": {"a": 1}}, ("now", "limits")),
]
"""What reads a file, or prepares data for a call."""
