"""Values of wrong types, given to everything that users can call: each is refused by name, or it
works.

Every call is made again and again with sound arguments, of which one is replaced by something odd.
A Python error may only say that a call does not fit its signature, and none of these is of that
kind.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from typing import Any, NamedTuple

import pytest

import holdfast
from holdfast import AsyncEngine, Engine, Graph, workflow
from holdfast.codecs import Compressed, Encrypted
from holdfast.errors import HoldfastError
from holdfast.errors.base import shown


class Odd:
    """Nothing that could be stored."""

    def __repr__(self) -> str:
        return "Odd()"


class Vague:
    """Answers neither what it is, nor whether it is true or the same as something else: as arrays
    of numpy do."""

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        raise ValueError("no repr")

    def __bool__(self) -> bool:
        raise ValueError("ambiguous")

    def __eq__(self, other: object) -> bool:
        raise ValueError("ambiguous")


class Word(str):
    """A text of a class of its own, as that of numpy."""


EAST, WEST = timezone(timedelta(hours=23)), timezone(timedelta(hours=-23))

ODD: tuple[Any, ...] = (
    None,
    b"bytes",
    float("nan"),
    float("inf"),
    1.5,
    2**70,
    -(2**70),
    -1,
    0,
    True,
    [1],
    {"a": 1},
    {1: 2},
    (),
    {7},
    Odd(),
    "\ud800",
    "a\0b",
    "",
    "x" * 100_000,
    datetime(2030, 1, 1),
    len,
    [None],
    ["\ud800"],
    {"a": Odd()},
    Vague(),
    [Vague()],
    Word("word"),
    [[]],
    10**5000,
    {"a": 10**5000},
    datetime.max.replace(tzinfo=WEST),
    datetime.min.replace(tzinfo=EAST),
    datetime.max,
    datetime.min,
    [datetime.max.replace(tzinfo=WEST)],
    Decimal("sNaN"),
    timedelta.max,
)


@workflow(name="odd_plain")
async def plain(n: Any = 1) -> Any:
    return n


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path, monkeypatch):
    """A text is the path of a database, which an engine creates."""
    monkeypatch.chdir(tmp_path)


class Call(NamedTuple):
    """Something that can be called, and the arguments with which it makes sense, one of which is
    replaced."""

    name: str
    function: Callable[..., Any]
    sound: dict[str, Any]
    also: tuple[str, ...] = ()
    """Options that are replaced, too, and have no place among the sound ones."""

    def tries(self) -> Iterator[tuple[str, Any]]:
        for option in (*self.sound, *self.also):
            for value in ODD:
                says_that_it_waits = value is None or isinstance(value, bool | float)
                if option not in ("timeout", "wait") or not says_that_it_waits:
                    yield option, value


START = (
    "id",
    "key",
    "lane",
    "priority",
    "delay",
    "deadline",
    "tags",
    "capabilities",
    "namespace",
    "version",
    "policy",
    "budget",
    "share",
    "debounce",
    "max_wait",
    "batch",
    "within",
)
START_MANY = tuple(
    option
    for option in START
    if option not in ("id", "key", "debounce", "max_wait", "batch", "within")
)
RUNS = (
    "status",
    "workflow",
    "tags",
    "since",
    "until",
    "worker",
    "namespace",
    "parent_id",
    "roots",
)
SCHEDULES = (
    "cron",
    "dates",
    "repeat",
    "zone",
    "overlap",
    "queue_limit",
    "misfire",
    "catch_up",
    "grace",
    "jitter",
    "paused",
    "args",
    "kwargs",
    "lane",
    "priority",
    "deadline",
    "tags",
    "capabilities",
    "version",
)


def graph_of(**options: Any) -> Graph:
    graph = Graph("odd")
    graph.add(plain, 1, name="a")
    graph.add(plain, 1, name="b", **options).after("a")
    return graph


def calls_of(engine: Engine) -> list[Call]:
    """Everything that an engine can be asked."""
    run = {"run_id": "run"}
    flow = {"flow_id": "flow"}
    graph = {"graph_id": "graph"}
    return [
        Call("start", lambda **given: engine.start(plain, **given), {"n": 1}, START),
        Call("start workflow", lambda what: engine.start(what), {"what": plain}),
        Call(
            "start_many",
            lambda items, **given: engine.start_many(plain, items, **given),
            {"items": [1]},
            START_MANY,
        ),
        Call("run", engine.run, run),
        Call("runs", lambda **given: engine.runs(**given).page(limit=10), {}, RUNS),
        Call(
            "runs page",
            lambda **given: engine.runs().page(**given),
            {"after": "x", "limit": 2},
        ),
        Call(
            "result", lambda timeout: engine.run("run").result(timeout=timeout), {"timeout": 0.001}
        ),
        Call(
            "signal",
            engine.signal,
            {**run, "name": "x", "payload": 1, "key": "k", "source": "s"},
            ("wait",),
        ),
        Call("cancel", engine.cancel, {**run, "reason": "no"}),
        Call("resume", engine.resume, run),
        Call("replay", engine.replay, {**run, "from_step": "x"}),
        Call("fork", engine.fork, {**run, "from_step": "x"}),
        Call("why", engine.why, run),
        Call(
            "retention.prune",
            engine.retention.prune,
            {"older_than": "400d", "status": ["failed"], "workflow": "x", "batch": 5},
        ),
        Call("retention.prune progress", told(engine.retention.prune, "400d"), {"progress": None}),
        Call("retention.apply", told(engine.retention.apply), {"progress": None}),
        Call("keys.rekey", told(engine.keys.rekey), {"progress": None}),
        Call("database.check_payloads", told(engine.database.check_payloads), {"progress": None}),
        Call(
            "database.export",
            told(engine.database.export, "nothing", "nowhere.db"),
            {"progress": None},
        ),
        Call(
            "graphs.export", told(engine.graphs.export, "nothing", "nowhere.db"), {"progress": None}
        ),
        Call(
            "streams.read",
            engine.streams.read,
            {**run, "after": 0, "until": 5, "limit": 5, "step": "s", "best_effort": True},
        ),
        Call("streams.summary", engine.streams.summary, {**run, "step": "s"}),
        Call("handle", lambda run_id: handle_of(engine, run_id), run),
        Call("webhooks.dead_letters", engine.webhooks.dead_letters, {"name": "nothing"}),
        Call(
            "lanes.set",
            engine.lanes.set,
            {
                "name": "lane",
                "concurrency": 1,
                "rate": "1/s",
                "paused": False,
                "per_share": 1,
                "rate_per_share": "1/s",
                "weights": {"a": 1},
                "draining": False,
            },
        ),
        Call(
            "budgets.set",
            engine.budgets.set,
            {
                "name": "b",
                "limits": {"money": 1},
                "soft": {"money": 1},
                "on_breach": "wait",
                "reset": "1d",
                "zone": "UTC",
            },
        ),
        Call(
            "budgets.raise_limits",
            engine.budgets.raise_limits,
            {"name": "b", "amounts": {"money": 1}, "key": "k"},
        ),
        Call("budgets.reset", engine.budgets.reset, {"name": "b"}),
        Call(
            "budgets.spend",
            engine.budgets.spend,
            {"name": "b", "amounts": {"money": 1}, "key": "k"},
        ),
        Call("budgets.usage", engine.budgets.usage, run),
        Call(
            "gates.list",
            engine.gates.list,
            {},
            ("run", "workflow", "status", "mine", "role", "overdue", "after", "limit", "namespace"),
        ),
        Call("gates.get", engine.gates.get, {"gate": "g"}),
        Call("gates.entries", engine.gates.entries, {"gate": "g"}),
        Call(
            "gates.decide",
            engine.gates.decide,
            {
                "gate": "g",
                "choice": "yes",
                "by": "ann",
                "roles": ["r"],
                "feedback": "f",
                "selections": ["s"],
                "form": {},
                "expect": "h",
            },
        ),
        Call("gates.approve", engine.gates.approve, {"gate": "g", "by": "ann"}),
        Call("gates.reject", engine.gates.reject, {"gate": "g", "by": "ann"}),
        Call(
            "gates.delegate",
            engine.gates.delegate,
            {"gate": "g", "to": "bob", "by": "ann", "roles": ["r"], "reason": "x"},
        ),
        Call(
            "gates.reassign",
            engine.gates.reassign,
            {"gate": "g", "assignees": ["a"], "roles": ["r"], "by": "a", "reason": "x"},
        ),
        Call(
            "gates.update", engine.gates.update, {"gate": "g", "data": 1, "by": "a", "reason": "x"}
        ),
        Call("gates.withdraw", engine.gates.withdraw, {"gate": "g", "by": "a", "reason": "x"}),
        Call(
            "gates.link",
            engine.gates.link,
            {"gate": "g", "choice": "yes", "by": "a", "roles": ["r"], "expires": "1d"},
        ),
        Call("gates.answer", engine.gates.answer, {"token": "t", "feedback": "f"}),
        Call(
            "waits.deliver",
            engine.waits.deliver,
            {"wait_id": "w", "token": "t", "name": "n", "payload": 1, "source": "s", "key": "k"},
        ),
        Call("waits.release", engine.waits.release, {**run, "step": "s", "payload": 1, "by": "a"}),
        Call("waits.list", engine.waits.list, {**run, "escalated": False, "limit": 5}),
        Call("waits.token", engine.waits.token, {"wait_id": "w"}),
        Call(
            "schedules.set",
            lambda name, workflow, **given: engine.schedules.set(name, workflow, **given),
            {"name": "s", "workflow": plain, "interval": "1h"},
            SCHEDULES,
        ),
        Call("schedules.remove", engine.schedules.remove, {"name": "nothing"}),
        Call("schedules.get", engine.schedules.get, {"name": "s"}),
        Call("schedules.pause", engine.schedules.pause, {"name": "s", "reason": "r"}),
        Call("schedules.resume", engine.schedules.resume, {"name": "s"}),
        Call("schedules.trigger", engine.schedules.trigger, {"name": "nothing"}),
        Call(
            "schedules.backfill",
            engine.schedules.backfill,
            {"name": "s", "since": "2d", "until": "1d", "preview": True},
        ),
        Call("schedules.next", engine.schedules.next, {"name": "s", "count": 2}),
        Call("schedules.why", engine.schedules.why, {"name": "s"}),
        Call(
            "events.read",
            lambda **given: list(engine.events.read(**given)),
            {"after": "now", "name": "n"},
            ("workflow", "namespace", "run", "tags", "kind"),
        ),
        Call(
            "events.follow",
            lambda **given: list(engine.events.follow(**given)),
            {"after": "now", "name": "n", "timeout": 0.001},
            ("workflow", "namespace", "run", "tags", "kind"),
        ),
        Call(
            "events.consume",
            lambda **given: engine.events.consume(callback=lambda *_: None, **given),
            {"name": "c", "after": "now", "batch": 1, "timeout": 0.001, "follow": False},
            ("workflow", "namespace", "run", "tags", "kind"),
        ),
        Call(
            "webhooks.set",
            engine.webhooks.set,
            {
                "name": "h",
                "url": "https://example.org/",
                "secret": "s" * 30,
                "after": "now",
                "attempts": 2,
            },
            ("workflow", "run", "tags", "kind"),
        ),
        Call("webhooks.get", engine.webhooks.get, {"name": "nothing"}),
        Call("webhooks.remove", engine.webhooks.remove, {"name": "nothing"}),
        Call("retention.get", engine.retention.get, {"name": "nothing"}),
        Call("budgets.get", engine.budgets.get, {"name": "nothing"}),
        Call("lanes.get", engine.lanes.get, {"name": "lane"}),
        Call("waits.get", engine.waits.get, {"wait_id": "nothing"}),
        Call("events.unsubscribe", engine.events.unsubscribe, {"name": "nothing"}),
        Call("webhooks.redeliver", engine.webhooks.redeliver, {"name": "n"}),
        Call(
            "retention.set",
            engine.retention.set,
            {
                "name": "r",
                "what": "runs",
                "workflow": "w",
                "status": ["failed"],
                "older_than": "90d",
                "keep_last": 1,
                "max_bytes": 10**9,
            },
        ),
        Call("retention.remove", engine.retention.remove, {"name": "nothing"}),
        Call("keys.rotate", engine.keys.rotate, {"grace": "1d", "kid": "k", "secret": b"s" * 32}),
        Call(
            "streams.tail",
            lambda **given: list(engine.streams.tail(**given)),
            {**run, "after": 0, "step": "s", "best_effort": True, "timeout": 0.001},
        ),
        Call(
            "tasks.worker",
            lambda **given: engine.tasks.worker(**given).close(),
            {"worker": "w", "horizon": "1d", "workflows": ["x"]},
            ("lanes", "capabilities", "ttl"),
        ),
        Call("claim", lambda **given: claimed(engine, **given), {"limit": 1, "wait": 0.001}),
        Call("tasks.lease", engine.tasks.lease, {"proof": "p", "ttl": "30s", "horizon": "1d"}),
        Call("tasks.revoke", engine.tasks.revoke, {**run, "reason": "r", "session_id": "s"}),
        Call("tasks.prioritise", engine.tasks.prioritise, {**run, "priority": 1}),
        Call(
            "tasks.override",
            engine.tasks.override,
            {"run_id": "nothing", "reason": "r", "result": 1, "failed": False},
        ),
        Call(
            "flows.create",
            engine.flows.create,
            {"controller": "c", "goal": "g", "owner": "o"},
            ("requester", "state", "current_step", "id", "start"),
        ),
        Call("flows.get", engine.flows.get, {**flow, "owner": "o"}),
        Call(
            "flows.list",
            engine.flows.list,
            {"owner": "o", "status": "running", "before": "x", "limit": 2},
        ),
        Call("flows.events", engine.flows.events, {**flow, "owner": "o", "limit": 2}),
        Call("flows.start", engine.flows.start, {**flow, "owner": "o", "revision": 1}),
        Call(
            "flows.advance",
            engine.flows.advance,
            {**flow, "patch": {"a": 1}, "current_step": "s", "owner": "o", "revision": 1},
        ),
        Call(
            "flows.wait",
            engine.flows.wait,
            {**flow, "until": "1h", "owner": "o", "revision": 1},
            ("topic", "correlation", "horizon"),
        ),
        Call(
            "flows.deliver",
            engine.flows.deliver,
            {**flow, "topic": "t", "correlation": "c", "payload": 1},
        ),
        Call(
            "flows.observe",
            engine.flows.observe,
            {**flow, "run_id": "r", "task": "t", "status": "succeeded"},
            ("owner", "runtime", "child_session", "result"),
        ),
        Call("flows.fail", engine.flows.fail, {**flow, "reason": "r"}),
        Call("flows.prune", engine.flows.prune, {"older_than": "400d", "batch": 5}),
        Call(
            "graphs.start",
            lambda graph, id: engine.graphs.start(graph, id=id),
            {"graph": graph_of(), "id": "odd"},
        ),
        Call("graphs.start_many", engine.graphs.start_many, {"graphs": []}),
        Call("graphs.why", engine.graphs.why, {**graph, "member": "a"}),
        Call("flows.resume", engine.flows.resume, {**flow, "owner": "o", "revision": 1}),
        Call(
            "flows.cancel", engine.flows.cancel, {"flow_id": "nothing", "owner": "o", "revision": 1}
        ),
        Call("flows.steps", engine.flows.steps, {**flow, "owner": "o"}),
        Call(
            "graph member",
            lambda **given: engine.graphs.start(graph_of(**given)),
            {},
            (
                "lane",
                "priority",
                "delay",
                "deadline",
                "tags",
                "capabilities",
                "version",
                "budget",
                "share",
                "policy",
            ),
        ),
        Call(
            "graph add",
            lambda what, name: Graph("odd").add(what, name=name),
            {"what": plain, "name": "a"},
        ),
        Call("graph after", after, {"other": "a", "need": "all", "rest": "run", "into": "n"}),
        Call("graphs.get", engine.graphs.get, graph),
        Call("graphs.list", engine.graphs.list, {"status": "running", "before": "x", "limit": 2}),
        Call("graphs.events", engine.graphs.events, {**graph, "after": 0, "limit": 2}),
        Call("graphs.cancel", engine.graphs.cancel, {**graph, "policy": "all", "reason": "r"}),
        Call("graphs.replay", engine.graphs.replay, {**graph, "member": "a", "from_step": "s"}),
        Call("graphs.result", engine.graphs.result, {**graph, "timeout": 0.001}),
        Call("graphs.prune", engine.graphs.prune, {"older_than": "400d", "batch": 5}),
    ]


def handle_of(engine: Any, run_id: Any) -> Any:
    """Wait for a run as those do who make the handle themselves."""
    if not isinstance(engine, Awaited):
        return holdfast.Run(engine._calls, run_id).result(timeout=0.001)
    return engine._wait(holdfast.AsyncRun(engine._target._calls, run_id).result(timeout=0.001))


def told(call: Callable[..., Any], *args: Any) -> Callable[..., Any]:
    """Return a call that is given something to tell its progress to; what can be called may be
    wrong in other ways."""

    def made(progress: Any) -> Any:
        return call(*args, progress=None if callable(progress) else progress)

    return made


def claimed(engine: Engine, **given: Any) -> None:
    with engine.tasks.worker(workflows=["nobody_starts_this"]) as leases:
        leases.claim(**given)


def after(other: Any, **given: Any) -> None:
    graph = Graph("odd")
    graph.add(plain, 1, name="a")
    graph.add(plain, name="b").after(other, **given)


async def nothing() -> None:
    """Do nothing."""


def declared(**given: Any) -> None:
    """Declare a schedule, and forget it: engines of other tests would write it."""
    try:
        holdfast.schedule(**given)(plain)
    finally:
        plain.schedules.clear()


DECORATORS = [
    Call(
        "workflow",
        lambda **given: holdfast.workflow(**given)(nothing),
        {},
        ("name", "version", "lane", "capabilities", "serves", "stop_undoing_on_failure"),
    ),
    Call(
        "step",
        lambda **given: holdfast.step(**given)(nothing),
        {},
        (
            "name",
            "retries",
            "delay",
            "factor",
            "cap",
            "jitter",
            "when",
            "timeout",
            "transactional",
            "capture",
        ),
    ),
    Call(
        "task",
        lambda **given: holdfast.task(**given)(nothing),
        {},
        (
            "name",
            "version",
            "lane",
            "capabilities",
            "serves",
            "retries",
            "delay",
            "factor",
            "cap",
            "jitter",
            "when",
            "timeout",
            "transactional",
        ),
    ),
    Call("schedules.set", declared, {"interval": "1h"}, (*SCHEDULES, "name")),
]


def raw(call: Callable[..., Any], **given: Any) -> str | None:
    """Return what a call raises that has no name of ours."""
    try:
        call(**given)
    except HoldfastError:
        return None
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:120]}"
    return None


def faults(calls: list[Call]) -> list[str]:
    found = []
    for call in calls:
        accepted = inspect.signature(call.function).parameters
        takes_all = any(one.kind is inspect.Parameter.VAR_KEYWORD for one in accepted.values())
        for option, value in call.tries():
            assert takes_all or option in accepted, f"{call.name} has no {option}"
            error = raw(call.function, **{**call.sound, option: value})
            if error is not None:
                found.append(f"{call.name}({option}={shown(value)[:20]}): {error}")
    return found


class Awaited:
    """Something asynchronous whose calls are awaited on a loop, so that any thread can make
    them."""

    def __init__(self, target: Any, loop: asyncio.AbstractEventLoop) -> None:
        self._target, self._loop = target, loop

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._target, name)
        if not callable(value):
            return self._told(value)

        @functools.wraps(value)
        def call(*args: Any, **given: Any) -> Any:
            return self._wait(self._made(value, args, given))

        return call

    def __enter__(self) -> Any:
        return self._wait(self._target.__aenter__())

    def __exit__(self, *error: object) -> None:
        self._wait(self._target.__aexit__(*error))

    def _wait(self, made: Any) -> Any:
        return self._told(asyncio.run_coroutine_threadsafe(made, self._loop).result())

    async def _made(self, call: Callable[..., Any], args: Any, given: Any) -> Any:
        made = call(*_bare(args), **_bare(given))
        if hasattr(made, "__aiter__") and not hasattr(made, "page"):
            return [one async for one in made]
        return await made if inspect.isawaitable(made) else made

    def _told(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self._told(one) for one in value]
        return Awaited(value, self._loop) if type(value).__name__.startswith("Async") else value


def _bare(value: Any) -> Any:
    """Return a value without what awaits its calls."""
    if isinstance(value, Awaited):
        return value._target
    if type(value) in (list, tuple):
        return type(value)(map(_bare, value))
    return {name: _bare(one) for name, one in value.items()} if type(value) is dict else value


@contextmanager
def blocking_engine(database: str) -> Iterator[Any]:
    with closing(Engine(database, workflows=[plain])) as engine:
        yield engine


@contextmanager
def async_engine(database: str) -> Iterator[Any]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        with closing(Awaited(AsyncEngine(database, workflows=[plain]), loop)) as engine:
            yield engine
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


@pytest.mark.parametrize("opened", [blocking_engine, async_engine])
def test_an_engine_refuses_odd_values_by_name(database, opened):
    with opened(database) as engine:
        engine.start(plain, id="run")
        engine.flows.create("c", "g", owner="o", id="flow")
        engine.graphs.start(graph_of(), id="graph")
        engine.budgets.set("b", {"money": 1})

        assert faults(calls_of(engine)) == []
        assert engine.database.check() == []


@pytest.mark.parametrize("opened", [blocking_engine, async_engine])
def test_a_lease_refuses_odd_values_by_name(database, opened):
    with (
        opened(database) as engine,
        engine.tasks.worker("holder", workflows=["odd_leased"], ttl="1d") as leases,
    ):

        def lease() -> Any:
            engine.start("odd_leased", 1)
            (claimed,) = leases.claim()
            return claimed

        assert faults(calls_of_leases(lease, leases)) == []
        assert engine.database.check() == []


def calls_of_leases(lease: Callable[[], Any], leases: Any) -> list[Call]:
    """Everything that the holder of a lease can say."""

    def say(verb: str, *before: Any) -> Callable[..., Any]:
        return lambda **given: getattr(lease(), verb)(*before, **given)

    return [
        Call("streams.progress", say("progress"), {"percent": 1, "message": "m"}),
        Call("emit", lambda value: lease().emit(value), {"value": 1}),
        Call("emit options", say("emit", 1), {}, ("kind", "name", "mode", "keep", "ttl", "place")),
        Call("complete", say("complete"), {"result": 1}),
        Call("fail", say("fail"), {"kind": "permanent", "message": "m", "details": {}}),
        Call("delay", say("delay"), {"until": "1h"}),
        Call("create_wait", say("create_wait"), {"name": "w", "expires": "1h"}),
        Call("suspend", lambda what: lease().suspend(what), {"what": "x"}),
        Call("suspend options", say("suspend", "x"), {"timeout": "1h", "on_timeout": "continue"}),
        Call("cancel lease", say("cancel"), {"reason": "r"}),
        Call("reclaim", leases.reclaim, {"run_id": "run"}),
        Call("complete_all", leases.complete_all, {"done": []}),
        Call("complete_all item", lambda item: leases.complete_all([item]), {"item": (lease(), 1)}),
        Call("complete_all lease", lambda one: leases.complete_all([(one, 1)]), {"one": lease()}),
        Call(
            "complete_all result",
            lambda result: leases.complete_all([(lease(), result)]),
            {"result": 1},
        ),
    ]


NO_OPTIONS = {
    "budgets.list",
    "close",
    "database.check",
    "events.subscriptions",
    "flows.finish",
    "flows.request_cancel",
    "flows.wake",
    "flows.why",
    "graphs.export",
    "graphs.extend",
    "graphs.open",
    "graphs.status",
    "keys.list",
    "lanes.drain",
    "lanes.list",
    "lanes.pause",
    "lanes.resume",
    "retention.list",
    "retention.preview",
    "schedules.list",
    "streams.list",
    "streams.progress",
    "webhooks.list",
    "work",
    "workers.list",
    "workers.unserved",
}
"""Calls of an engine that take no options, or the options of another one, or an id only."""


def test_every_call_of_an_engine_is_walked(tmp_path):
    with closing(Engine(tmp_path / "odd.db")) as engine:
        walked = {call.name.split()[0] for call in calls_of(engine)}
        named = public_methods(engine) | {
            f"{name}.{verb}"
            for name, namespace in vars(engine).items()
            if not name.startswith("_")
            for verb in public_methods(namespace)
        }

    assert named - walked - NO_OPTIONS == set()


def public_methods(handle: Any) -> set[str]:
    return {
        name
        for name, value in inspect.getmembers(type(handle))
        if callable(value) and not name.startswith("_")
    }


def test_codecs_and_errors_refuse_odd_values_by_name():
    keys = {"k1": b"1" * 32}

    assert (
        faults(
            [
                Call("Compressed", Compressed, {"over": 1, "level": 1, "codec": None}),
                Call("Encrypted", Encrypted, {"keys": keys, "current": "k1", "codec": None}),
                Call(
                    "Encrypted key",
                    lambda value: Encrypted({"k1": value}, "k1"),
                    {"value": b"1" * 32},
                ),
                Call(
                    "Retry", lambda after: repr(holdfast.Retry("again", after=after)), {"after": 1}
                ),
                Call("Fail", lambda message: repr(holdfast.Fail(message)), {"message": "no"}),
            ]
        )
        == []
    )


def test_decorators_refuse_odd_values_by_name():
    assert faults(DECORATORS) == []


ENGINE = (
    "workflows",
    "namespace",
    "codec",
    "max_signals",
    "inline_limit",
    "concurrency",
    "threads",
    "lanes",
    "capabilities",
    "name",
    "session_ttl",
    "shutdown_timeout",
    "poll",
    "retention_interval",
    "crash_limit",
    "idle_timeout",
    "stream_window",
    "poll_interval",
    "idle_poll_interval",
    "schedules",
    "capture",
    "webhook_hosts",
    "clock",
    "driver",
)


def opened(path: Any, **given: Any) -> None:
    engine = Engine(path, **given)
    try:
        engine.work()
    finally:
        engine.close(shutdown_timeout=0)


def test_an_engine_is_not_opened_with_odd_values(tmp_path):
    call = Call("Engine", opened, {"path": str(tmp_path / "odd.db")}, ENGINE)

    assert faults([Call(call.name, call.function, call.sound, ENGINE)]) == []
