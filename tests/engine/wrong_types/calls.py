"""Everything that users can call, with the arguments with which it makes sense."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import holdfast
from holdfast import Engine, Graph
from tests.engine.wrong_types.model_calls import calls_of_models
from tests.engine.wrong_types.probing import Awaited, Call
from tests.engine.wrong_types.values import plain

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
    "live",
    "workflow",
    "version",
    "lane",
    "share",
    "tags",
    "key",
    "id_prefix",
    "since",
    "until",
    "worker",
    "namespace",
    "parent_id",
    "roots",
    "ids",
)

BULK = ("dry_run", "wait", "by")

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
    nothing = engine.runs(workflow="nothing")
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
        Call("runs cancel", nothing.cancel, {"reason": "r"}, ("force", *BULK)),
        Call("runs replay", nothing.replay, {}, ("from_step", *BULK)),
        Call("runs resume", nothing.resume, {}, BULK),
        Call("runs signal", nothing.signal, {"name": "go", "payload": 1}, ("key", "source", *BULK)),
        Call("runs release", nothing.release, {"payload": 1}, BULK),
        Call("runs prioritise", nothing.prioritise, {"priority": 1}, BULK),
        Call("runs migrate", nothing.migrate, {"to": 2, "mapping": {"a": "b"}}, ("reason", *BULK)),
        Call("runs delete", nothing.delete, {}, BULK),
        Call(
            "audit.list",
            engine.audit.list,
            {},
            ("person", "action", "subject", "before", "limit"),
        ),
        Call("operations.list", engine.operations.list, {}, ("status", "after", "limit")),
        Call("operations.get", engine.operations.get, {"operation_id": "nothing"}),
        Call("operations.stop", engine.operations.stop, {"operation_id": "nothing"}),
        Call("operations.wait", engine.operations.wait, {"operation_id": "nothing"}),
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
            "database.backup",
            lambda **given: told(
                partial(
                    engine.database.backup,
                    "/nowhere/at/all.db",
                    overwrite=given.get("overwrite", False),
                )
            )(given.get("progress")),
            {"overwrite": False, "progress": None},
        ),
        Call(
            "runs group",
            engine.runs(status="failed").group,
            {"by": "error", "after": None, "limit": 5},
        ),
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
        Call("budgets.list", engine.budgets.list, {}, ("after", "limit")),
        Call("budgets.remove", engine.budgets.remove, {"name": "b", "force": False}),
        Call("budgets.refund", engine.budgets.refund, run),
        Call("lanes.list", engine.lanes.list, {}, ("after", "limit")),
        Call("lanes.remove", engine.lanes.remove, {"name": "lane", "force": False}),
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
            {"name": "s", "since": "2d", "until": "1d", "dry_run": True},
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
            ("workflow", "run", "tags", "kind", "source"),
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
                "target": "runs",
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
        Call("workers.remove", engine.workers.remove, {"worker": "nothing"}),
        Call(
            "tasks.submit",
            lambda **given: engine.tasks.submit("unserved", **given),
            {"id": "i", "key": "k", "lane": "l", "priority": 1, "delay": "1s", "deadline": "1d"},
        ),
        Call(
            "tasks.claim",
            engine.tasks.claim,
            {"limit": 1, "worker": "w", "wait": 0.001, "workflows": ["x"], "horizon": "1d"},
            ("lanes", "capabilities", "ttl"),
        ),
        Call("tasks.lease", engine.tasks.lease, {"proof": "p", "ttl": "30s", "horizon": "1d"}),
        Call("tasks.attempts", engine.tasks.attempts, run),
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
        Call("graphs.edges", engine.graphs.edges, {**graph, "member": "a"}, ("upstream",)),
        Call("flows.resume", engine.flows.resume, {**flow, "owner": "o", "revision": 1}),
        Call(
            "flows.cancel", engine.flows.cancel, {"flow_id": "nothing", "owner": "o", "revision": 1}
        ),
        Call("flows.steps", engine.flows.steps, {**flow, "owner": "o"}, ("run_id",)),
        Call("flows.step", engine.flows.step, {**flow, "run_id": "r", "owner": "o"}),
        Call(
            "flows.set",
            engine.flows.set,
            {**flow, "goal": "g", "owner": "o", "revision": 1},
            ("new_owner", "requester", "controller"),
        ),
        Call(
            "flows.append_event",
            engine.flows.append_event,
            {**flow, "kind": "asked", "data": 1, "owner": "o"},
        ),
        Call(
            "flows.deliver_all",
            engine.flows.deliver_all,
            {"topic": "t", "correlation": "c", "payload": 1},
        ),
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
        Call("graphs.join", engine.graphs.join, {**graph, "run_id": "r", "name": "n"}),
        Call("graphs.replay", engine.graphs.replay, {**graph, "member": "a", "from_step": "s"}),
        Call("graphs.result", engine.graphs.result, {**graph, "timeout": 0.001}),
        Call("graphs.prune", engine.graphs.prune, {"older_than": "400d", "batch": 5}),
        *calls_of_models(engine),
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
