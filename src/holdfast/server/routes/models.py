"""Operations on deployed definitions. A request sends their texts: the engine would read a text as
the path of a file, and no request may name a file of the server."""

from __future__ import annotations

from typing import Any

from holdfast.connect import model_runs
from holdfast.connect.definition_checks import check_text
from holdfast.core.api_keys import Right
from holdfast.server.calls import HttpCall
from holdfast.server.operation import HttpParameter, operation
from holdfast.views.definition_checks import CheckedDefinitionView
from holdfast.views.model_runs import BroadcastView

VIEW = Right.VIEW
OPERATE = Right.OPERATE


async def deploy(call: HttpCall) -> Any:
    """Deploy models, all or none: the texts of ``.bpmn``, ``.dmn`` and ``.wf`` files, or processes
    and bundles of texts as objects. Raises ModelUnreadable, ModelRefused, ModelKindUnknown,
    BadOption."""
    arguments = dict(call.arguments)
    sources = [
        source.encode() if isinstance(source, str) else source
        for source in arguments.pop("sources")
    ]
    return await call.engine.models.deploy(*sources, **arguments)


async def modify(call: HttpCall) -> Any:
    """Move, add and cancel tokens of a run. Raises NotThere, RunChanged, RunFinished."""
    arguments = dict(call.arguments)
    moves = arguments.pop("moves")
    return await call.engine.models.modify(call.path["run"], *moves, **arguments)


async def broadcast(call: HttpCall) -> BroadcastView:
    """Deliver a BPMN signal to all that wait for it, and start the processes that begin with it.
    With an Idempotency-Key, a repeated call reaches only receivers that waited before the first
    one and that it did not reach. Raises NotEncodable, BadOption."""
    name = call.arguments["name"]
    variables = call.arguments.get("variables")
    first = call.derived_id()
    return await call.engine._calls.call(
        lambda parts: model_runs.broadcast(parts, name, variables, id=first, at=call.first_at)
    )


async def check(call: HttpCall) -> CheckedDefinitionView:
    """Return the problems of the text of a definition: *kind* is "wf", "bpmn" or "dmn". *path* is
    its name in problems, *files* are the texts that it uses, by path. Nothing is stored. Raises
    BadOption."""
    options = {"kind": "wf", "path": "<text>", "files": {}, **call.arguments}
    return await call.engine._calls.call(lambda parts: check_text(parts, **options))


OPERATIONS = (
    operation(
        "server.check",
        "POST /check",
        VIEW,
        handler=check,
        extra=(
            HttpParameter("text", str, True),
            HttpParameter("kind", str, False),
            HttpParameter("path", str, False),
            HttpParameter("files", dict[str, str], False),
        ),
        answer=CheckedDefinitionView,
    ),
    operation("models.list", "GET /models", VIEW),
    operation("models.get", "GET /models/{process}", VIEW),
    operation(
        "models.deploy",
        "POST /models",
        OPERATE,
        handler=deploy,
        status=201,
        extra=(HttpParameter("sources", list[str | dict[str, Any]], True),),
    ),
    operation("models.decide", "POST /decisions/{decision}", VIEW),
    operation("models.activate", "POST /models/{process}/activate", OPERATE, status=204),
    operation("models.deprecate", "POST /models/{process}/deprecate", OPERATE, status=204),
    operation("models.message", "POST /messages", Right.START, idempotent_by="id"),
    operation("models.broadcast", "POST /broadcasts", Right.START, handler=broadcast),
    operation("models.tasks", "GET /model-tasks", VIEW),
    operation("models.complete", "POST /model-tasks/{task}/complete", Right.DECIDE, status=204),
    operation("models.throw", "POST /model-tasks/{task}/throw", Right.DECIDE, status=204),
    operation("models.incidents", "GET /incidents", VIEW),
    operation("models.retry", "POST /incidents/{incident}/retry", OPERATE, status=204),
    operation("models.skip", "POST /incidents/{incident}/skip", OPERATE, status=204),
    operation("models.tokens", "GET /runs/{run}/tokens", VIEW),
    operation("models.trace", "GET /runs/{run}/trace", VIEW),
    operation("models.diagram", "GET /runs/{run}/model-diagram", VIEW),
    operation("models.variables", "GET /runs/{run}/variables", VIEW),
    operation("models.set_variables", "POST /runs/{run}/variables", OPERATE, status=204),
    operation("models.trigger", "POST /runs/{run}/trigger", OPERATE, status=204),
    operation("models.start_activity", "POST /runs/{run}/activities", OPERATE, status=204),
    operation("models.suspend", "POST /runs/{run}/tokens/suspend", OPERATE, status=204),
    operation("models.resume", "POST /runs/{run}/tokens/resume", OPERATE, status=204),
    operation("models.migrate", "POST /runs/{run}/migrate", OPERATE),
    operation(
        "models.modify",
        "POST /runs/{run}/tokens/modify",
        OPERATE,
        handler=modify,
        extra=(HttpParameter("moves", list[dict[str, Any]], True),),
    ),
)
