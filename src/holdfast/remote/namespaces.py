"""The calls of one namespace of a client."""

from __future__ import annotations

from functools import partial
from typing import Any

from holdfast.errors import BadOption, NotRemote
from holdfast.remote.calls import OPERATIONS, HttpCalls
from holdfast.remote.sources import sent_source

NAMESPACES = frozenset(name.partition(".")[0] for name in OPERATIONS) - {
    "engine",
    "lease",
    "run",
    "runs",
}


OF_RUNS = {"tasks.attempts": "run.attempts", "waits.release": "run.release"}
"""Calls that are verbs of a run, which is their first argument."""


DEPLOY = "models.deploy"
"""The call whose arguments may be files, which the server has not."""


class RemoteNamespace:
    """The calls of one namespace, as ``engine.gates`` has them."""

    def __init__(self, calls: HttpCalls, name: str, **bound: Any) -> None:
        self._calls: HttpCalls = calls
        self._name: str = name
        self._bound: dict[str, Any] = bound

    def __getattr__(self, verb: str) -> Any:
        name = f"{self._name}.{verb}"
        if verb.startswith("_"):
            raise AttributeError(verb)
        if name in OF_RUNS:
            return partial(call_of_run, self._calls, OF_RUNS[name])
        if name not in OPERATIONS:
            raise NotRemote(call=name)
        return partial(call, self._calls, name, self._bound)


def call_of_run(calls: HttpCalls, name: str, run_id: str, /, *args: Any, **options: Any) -> Any:
    """Call a verb of a run."""
    return call(calls, name, {"id": run_id}, *args, **options)


def call(calls: HttpCalls, name: str, bound: dict[str, Any], /, *args: Any, **options: Any) -> Any:
    """Call an operation with the arguments of the method that it stands for. Raises BadOption."""
    operation = OPERATIONS[name]
    open_names = [item for item in operation.parameters if item not in bound]
    arguments = {**bound, **options}
    if operation.rest:
        first = open_names.index(operation.rest)
        rest = list(args[first:])
        arguments[operation.rest] = [sent_source(item) for item in rest] if name == DEPLOY else rest
        args = args[:first]
    if len(args) > len(open_names):
        raise BadOption(option=name, why=f"it takes at most {len(open_names)} arguments")
    arguments |= dict(zip(open_names, args, strict=False))
    if operation.kind == "page" and operation.method == "GET":
        for begin in ("after", "before"):
            if begin in arguments and "cursor" in operation.parameters:
                arguments["cursor"] = arguments.pop(begin)
    arguments.pop("progress", None)
    return calls.call(operation, arguments)
