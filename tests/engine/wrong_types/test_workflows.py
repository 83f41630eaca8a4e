"""Values of wrong types, given to every verb of workflow code and of steps: each is refused by
name, or it works."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest

import holdfast
from holdfast import Engine, Fail, Retry, errors, step, sync, workflow
from holdfast.authoring.python import api_async, api_shared, api_sync
from holdfast.errors import HoldfastError
from holdfast.errors.base import safe_repr
from tests.engine.waiting import wait_until
from tests.engine.wrong_types.values import ODD, plain

CHILD = (
    "id",
    "lane",
    "priority",
    "delay",
    "deadline",
    "tags",
    "capabilities",
    "budget",
    "share",
    "on_parent_end",
)
GATE = (
    "options",
    "assignees",
    "roles",
    "quorum",
    "exclude",
    "timeout",
    "on_timeout",
    "remind",
    "escalate",
    "form",
    "data",
)
AMOUNTS = ("money", "key")
NAMED = frozenset(dir(errors)) | {"TimeoutError", "CancelledError"}
"""The types of errors that a run may end with."""

Verb = Callable[[Any, Any], Any]
"""Says something to the verbs of one colour, with one odd value."""


@step(name="odd_step")
async def odd_step(n: Any = 1) -> Any:
    return n


@step(name="odd_blocking_step")
def odd_blocking_step(n: Any = 1) -> Any:
    return n


@step(name="odd_retry", retries=1)
async def ask_again(after: Any) -> None:
    raise Retry("again", after=after)


@step(name="odd_blocking_retry", retries=1)
def ask_again_blocking(after: Any) -> None:
    raise Retry("again", after=after)


@step(name="odd_failure")
async def give_up(fact: Any) -> None:
    raise Fail("no", fact=fact)


def options(verb: Callable[..., Any], names: tuple[str, ...]) -> dict[str, Verb]:
    """Return a verb with one option at a time."""
    return {name: lambda api, odd, name=name: verb(api, **{name: odd}) for name in names}  # type: ignore[misc]


def a_step(api: Any) -> Any:
    return odd_blocking_step if api is sync else odd_step


def handle(api: Any, verb: str, odd: Any) -> Any:
    """Call a verb of a child's handle."""
    if api is sync:
        return getattr(sync.start(plain, 1), verb)(*odd)
    return _handle(verb, odd)


async def _handle(verb: str, odd: Any) -> Any:
    return await getattr(await holdfast.start(plain, 1), verb)(*odd)


def block(api: Any, made: Any) -> Any:
    """Enter and leave a block."""
    if api is sync:
        with made:
            return None
    return _block(made)


async def _block(made: Any) -> None:
    async with made:
        return None


VERBS: dict[str, dict[str, Verb]] = {
    "any_signal": {},
    "generate_key": {},
    "sleep": {"length": lambda api, odd: api.sleep(odd)},
    "wait_signal": {
        "name": lambda api, odd: api.wait_signal(odd),
        "timeout": lambda api, odd: api.wait_signal("x", timeout=odd),
        "type": lambda api, odd: api.wait_signal("kept", type=odd),
    },
    "wait_for": {
        "condition": lambda api, odd: api.waits.wait_for(odd, timeout="1ms"),
        "timeout": lambda api, odd: api.waits.wait_for("x", timeout=odd),
        "on_timeout": lambda api, odd: api.waits.wait_for("x", timeout="1ms", on_timeout=odd),
        "type": lambda api, odd: api.waits.wait_for("kept", type=odd),
    },
    "create_wait": {
        "name": lambda api, odd: api.waits.create_wait(odd),
        "expires": lambda api, odd: api.waits.create_wait("x", expires=odd),
    },
    "gate": {
        "prompt": lambda api, odd: api.gate(odd),
        **options(lambda api, **given: api.gate("ok?", **given), GATE),
    },
    "map": {
        "call": lambda api, odd: api.map(odd, [1]),
        "items": lambda api, odd: api.map(plain, odd),
        "items of a step": lambda api, odd: api.map(a_step(api), odd),
        **options(
            lambda api, **given: api.map(plain, [1], **given),
            ("max_parallel", "on_error", "min_success", *CHILD),
        ),
        **{
            f"{name} of a step": lambda api, odd, name=name: api.map(
                a_step(api), [1], **{name: odd}
            )  # type: ignore[misc]
            for name in ("max_parallel", "on_error", "min_success", "lane")
        },
    },
    "start": {
        "workflow": lambda api, odd: api.start(odd),
        "args": lambda api, odd: api.start(plain, odd),
        **options(lambda api, **given: api.start(plain, 1, **given), CHILD),
    },
    "Handle.signal": {
        "name": lambda api, odd: handle(api, "signal", (odd,)),
        "payload": lambda api, odd: handle(api, "signal", ("x", odd)),
    },
    "Handle.cancel": {"reason": lambda api, odd: handle(api, "cancel", (odd,))},
    "gather": {"calls": lambda api, odd: api.gather(odd)},
    "first": {"calls": lambda api, odd: api.first(odd)},
    "timeout": {"length": lambda api, odd: block(api, api.timeout(odd))},
    "extend": {"graph": lambda api, odd: api.graphs.extend(odd)},
    "patched": {"name": lambda api, odd: api.versions.patched(odd)},
    "version": {
        "name": lambda api, odd: api.versions.version(odd, 1),
        "current": lambda api, odd: api.versions.version("v", odd),
        "oldest": lambda api, odd: api.versions.version("v", 1, oldest=odd),
    },
    "compensate": {
        "undo": lambda api, odd: api.compensate(odd),
        "args": lambda api, odd: api.compensate(a_step(api), odd),
    },
    "spend": {
        name: lambda api, odd, name=name: api.budgets.spend(**{"money": 1, name: odd})
        for name in AMOUNTS
    },  # type: ignore[misc]
    "record": {
        name: lambda api, odd, name=name: api.budgets.record(**{"money": 1, name: odd})
        for name in AMOUNTS
    },  # type: ignore[misc]
    "reserve": {"money": lambda api, odd: block(api, api.budgets.reserve(money=odd))},
    "all_of": {"members": lambda api, odd: api.waits.all_of(odd)},
    "any_of": {"members": lambda api, odd: api.waits.any_of(odd)},
    "count": {
        "n": lambda api, odd: api.waits.count(odd, "x"),
        "members": lambda api, odd: api.waits.count(1, odd),
        "distinct": lambda api, odd: api.waits.count(1, "x", distinct=odd),
    },
    "matching": {
        "signal": lambda api, odd: api.waits.matching(odd),
        "payload": lambda api, odd: api.waits.matching("x", odd),
        "name": lambda api, odd: api.waits.matching("x", name=odd),
    },
    "emit": {
        "value": lambda api, odd: api.streams.emit(odd),
        "name": lambda api, odd: api.streams.emit(1, name=odd),
    },
    "progress": {
        "percent": lambda api, odd: api.streams.progress(odd),
        "message": lambda api, odd: api.streams.progress(1, odd),
    },
    "stream": options(lambda api, **given: api.streams.stream(**given), ("mode", "keep", "ttl")),
    "Stream.write": {"data": lambda api, odd: api.streams.stream().write(odd)},
    "Stream.error": {"text": lambda api, odd: api.streams.stream().error(odd)},
    "Stream.patch": {"changes": lambda api, odd: api.streams.stream("summary").patch(odd)},
    "Stream.emit": {
        "value": lambda api, odd: api.streams.stream().emit(odd),
        "name": lambda api, odd: api.streams.stream().emit(1, name=odd),
    },
    "a step": {
        "args": lambda api, odd: a_step(api)(odd),
        "Retry(after)": lambda api, odd: (ask_again_blocking if api is sync else ask_again)(odd),
        "Fail(fact)": lambda api, odd: give_up.sync(odd) if api is sync else give_up(odd),
    },
    "Step.options": {
        name: lambda api, odd, name=name: a_step(api).options(**{name: odd})(1)  # type: ignore[misc]
        for name in ("id", "retries", "timeout", "delay", "factor", "cap", "jitter", "when")
    },
    "a child": {"args": lambda api, odd: plain(odd)},
}
"""What workflow code can say, by verb and option."""

IN_STEPS = (
    "spend",
    "record",
    "emit",
    "progress",
    "stream",
    "Stream.write",
    "Stream.error",
    "Stream.patch",
    "Stream.emit",
)
NO_VERBS = {
    "Answer",
    "AsyncEngine",
    "AsyncRun",
    "Compressed",
    "Encrypted",
    "Engine",
    "Fail",
    "Graph",
    "HoldfastError",
    "JsonFormatter",
    "Received",
    "Retry",
    "Run",
    "RunFields",
    "Stream",
    "Wait",
    "Waited",
    "connection",
    "info",
    "now",
    "null",
    "random",
    "schedule",
    "scheduled_time",
    "sqlalchemy_connection",
    "step",
    "sync",
    "task",
    "uuid",
    "workflow",
}
"""What is no verb of a workflow, or takes nothing; decorators and engines are walked elsewhere."""

OF_FILES = {"bpmn", "dmn"}
"""The namespaces that read files of models. They have no verbs of workflow code, and `model_calls`
walks them."""

CALLED = {("map", "call"), ("gather", "calls"), ("first", "calls")}
"""Where a function is called: what it raises is its own."""


def is_meant(verb: str, option: str, odd: Any) -> bool:
    """Return whether a value is odd for an option: a long text is a map of as many items, which is
    sound and slow."""
    if (verb, option) in CALLED:
        return not callable(odd)
    return (verb, option[:5]) != ("map", "items") or not isinstance(odd, str) or len(odd) < 1000


def cases() -> list[tuple[str, str, int]]:
    """Return every verb and option with every odd value, by its place."""
    spoken = [(verb, option) for verb, by_option in VERBS.items() for option in by_option]
    return [
        (*case, place) for case in spoken for place, odd in enumerate(ODD) if is_meant(*case, odd)
    ]


def refused(error: BaseException) -> str:
    return (
        "refused"
        if isinstance(error, HoldfastError | TimeoutError)
        else f"{type(error).__name__}: {error}"[:200]
    )


@workflow(name="odd_async_verbs")
async def speak(case: tuple[str, str, int]) -> str:
    verb, option, place = case
    try:
        said = VERBS[verb][option](holdfast, ODD[place])
        if inspect.isawaitable(said):
            await said
    except Exception as error:
        return refused(error)
    return "done"


@workflow(name="odd_blocking_verbs")
def speak_blocking(case: tuple[str, str, int]) -> str:
    verb, option, place = case
    try:
        VERBS[verb][option](sync, ODD[place])
    except Exception as error:
        return refused(error)
    return "done"


@step(name="odd_speaking")
async def speaking(verb: str, option: str, place: int) -> str:
    try:
        said = VERBS[verb][option](holdfast, ODD[place])
        if inspect.isawaitable(said):
            await said
    except Exception as error:
        return refused(error)
    return "done"


@workflow(name="odd_verbs_in_steps")
async def speak_in_a_step(case: tuple[str, str, int]) -> str:
    return await speaking(*case)


def unnamed(record: Any) -> str | None:
    """Return what went wrong with a run, if it has no name of ours."""
    if record.status == "completed":
        return None if record.result in ("refused", "done") else str(record.result)
    if record.status not in ("failed", "stuck", "cancelled"):
        return None
    if record.error.type in NAMED and record.status != "stuck":
        return None
    return f"{record.status}: {str(record.error)[:300]}"


@pytest.mark.parametrize(
    "spoken", [speak, speak_blocking, speak_in_a_step], ids=["async", "blocking", "in a step"]
)
def test_a_verb_refuses_odd_values_by_name(database, spoken):
    tries = [case for case in cases() if spoken is not speak_in_a_step or case[0] in IN_STEPS]
    with Engine(database, shutdown_timeout=0, threads=4000, concurrency=4000) as engine:
        runs = engine.start_many(spoken, tries)
        ids = {run.id: one for run, one in zip(runs, tries, strict=True)}
        wait_until(engine, lambda: is_settled(engine, spoken))

        faults = []
        for run_id, (verb, option, place) in ids.items():
            wrong = unnamed(engine.run(run_id).record)
            if wrong is not None:
                faults.append(f"{verb}({option}={safe_repr(ODD[place])[:20]}): {wrong}")
        assert engine.database.check() == []

    assert faults == []


def is_settled(engine: Any, spoken: Any) -> bool:
    return not any(
        engine.runs(workflow=spoken.name, status=status).page(limit=1)
        for status in ("pending", "running", "cancelling")
    )


def functions(api: Any) -> dict[str, Any]:
    """All public names of one door, those of its namespaces included."""
    namespaces = [
        getattr(api, name)
        for name, names in holdfast._NAMESPACES.items()
        if names and name not in OF_FILES
    ]
    return {
        name: value
        for module in (*namespaces, api_async if api is holdfast else api_sync, api_shared)
        for name, value in vars(module).items()
        if not name.startswith("_") and name in getattr(module, "__all__", vars(module))
    }


def test_every_verb_and_option_is_walked():
    verbs = set(functions(holdfast)) - NO_VERBS
    assert verbs == set(functions(sync)) - NO_VERBS
    assert verbs == {verb for verb in VERBS if "." not in verb and not verb.startswith("a ")}
    for verb in sorted(verbs):
        for api in (holdfast, sync):
            function = functions(api)[verb]
            parameters = inspect.signature(function).parameters.values()
            known = {
                one.name for one in parameters if one.kind is not inspect.Parameter.VAR_KEYWORD
            }
            assert known - {"return_exceptions", "kwargs", "args"} <= set(VERBS[verb]), verb
