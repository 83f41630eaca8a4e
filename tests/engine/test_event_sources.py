"""The events of graphs and flows for subscribers, on both databases."""

from __future__ import annotations

import json
from contextlib import closing

import pytest

from holdfast import Engine, Graph, workflow
from holdfast.errors import BadCursor, BadOption, SubscriptionExists
from tests.engine.databases import connect, execute
from tests.engine.receiver import Receiver
from tests.engine.waiting import wait_until


@workflow(name="sources_add")
async def add(x: int) -> int:
    return x + 1


def start_graph(engine, name: str = "sum"):
    graph = Graph(name)
    first = graph.add(add, 1, name="first")
    graph.add(add, first.result, name="second")
    run = engine.graphs.start(graph, id=f"graph-{name}")
    run.result(timeout=20)
    return run


def create_flow(engine, controller: str = "research"):
    return engine.flows.create(controller, "find it", owner="anna", start=True)


def lines(events) -> list[tuple[str, int, str]]:
    return [(event.run_id, event.seq, event.kind) for event in events]


def test_the_events_of_graphs_are_read_in_order_from_any_cursor(engine):
    run = start_graph(engine)
    start_graph(engine, "other")

    events = list(engine.events.read(source="graphs", workflow="sum"))

    trail = engine.graphs.events(run.id)
    assert lines(events) == [(run.id, line.seq, line.kind) for line in trail]
    assert [event.step for event in events] == [line.member for line in trail]
    assert {(event.source, event.namespace, event.workflow) for event in events} == {
        ("graphs", "default", "sum")
    }
    rest = list(engine.events.read(source="graphs", run=run.id, after=events[1].cursor))
    assert lines(rest) == lines(events[2:])
    ends = list(engine.events.read(source="graphs", kind=["graph_completed", "graph_failed"]))
    assert [event.run_id for event in ends] == [run.id, "graph-other"]
    assert list(engine.events.read(source="graphs", after="now")) == []


def test_the_events_of_flows_are_read_followed_and_consumed(engine):
    flow = create_flow(engine)
    engine.flows.advance(flow.id, {"found": 1}, current_step="compare")
    engine.flows.append_event(flow.id, "note", {"text": "mine"})

    events = list(engine.events.read(source="flows"))

    assert [event.seq for event in events] == [1, 2, 3, 4]
    assert events[-1].kind == "note"
    assert events[-1].data == {"text": "mine"}
    assert {event.workflow for event in events} == {"research"}
    assert lines(engine.events.read(source="flows", kind="note")) == [(flow.id, 4, "note")]
    assert len(list(engine.events.read(name="mirror", source="flows"))) == 4
    assert list(engine.events.read(name="mirror", source="flows")) == []
    engine.flows.finish(flow.id)
    (last,) = engine.events.follow(name="mirror", source="flows", timeout="50ms")
    assert (last.seq, last.kind) == (5, "finished")
    taken: list[int] = []
    engine.events.consume(
        "bill", lambda found, _: taken.extend(event.seq for event in found), source="flows"
    )
    assert taken == [1, 2, 3, 4, 5]


def test_a_cursor_belongs_to_one_source(engine):
    start_graph(engine)
    of_graphs = next(engine.events.read(source="graphs")).cursor
    of_runs = next(engine.events.read()).cursor

    with pytest.raises(BadCursor, match="events of graphs"):
        list(engine.events.read(after=of_graphs))
    with pytest.raises(BadCursor, match="events of runs"):
        list(engine.events.read(source="flows", after=of_runs))
    for odd in ({"source": "gates"}, {"source": "graphs", "tags": {"a": "b"}}, {"source": 7}):
        with pytest.raises(BadOption):
            list(engine.events.read(**odd))
    with pytest.raises(BadOption, match="graph_completed"):
        list(engine.events.read(source="graphs", kind="completions"))
    list(engine.events.read(name="mine", source="graphs"))
    with pytest.raises(SubscriptionExists):
        list(engine.events.read(name="mine"))


def test_no_event_is_skipped_after_the_newest_were_deleted(engine, database):
    flow = create_flow(engine)
    engine.flows.finish(flow.id)
    last = list(engine.events.read(source="flows"))[-1].cursor
    execute(database, "DELETE FROM holdfast.flow_event")
    execute(database, "DELETE FROM holdfast.flow")

    again = create_flow(engine)

    assert [event.run_id for event in engine.events.read(source="flows", after=last)] == [
        again.id,
        again.id,
    ]


def test_a_webhook_delivers_the_events_of_graphs(database):
    with (
        closing(Receiver()) as receiver,
        Engine(database, shutdown_timeout=1, webhook_hosts=["127.0.0.1"]) as engine,
    ):
        engine.webhooks.set("hook", receiver.url, source="graphs", kind="graph_completed")
        with pytest.raises(SubscriptionExists):
            engine.webhooks.set("hook", source="flows")

        run = start_graph(engine)

        wait_until(engine, lambda: len(receiver.heard) == 1)
        body = json.loads(receiver.heard[0][1])
        assert (body["source"], body["run_id"], body["kind"]) == (
            "graphs",
            run.id,
            "graph_completed",
        )
        assert engine.webhooks.get("hook").which["source"] == "graphs"


def test_the_lines_of_a_flow_keep_their_order_if_an_older_transaction_writes_last(database):
    with (
        Engine(database, shutdown_timeout=1, work=False) as engine,
        closing(connect(database)) as db,
    ):
        flow = create_flow(engine)
        if database.startswith("postgresql:"):
            db.execute("SELECT pg_current_xact_id()")  # older than the next transaction
            engine.flows.advance(flow.id, {"by": "another"})
            assert len(list(engine.events.read(source="flows"))) == 2
        engine.flows.advance(flow.id, {"by": "the older one"}, connection=db)
        db.commit()

        seqs = [event.seq for event in engine.events.read(source="flows")]

        assert seqs == list(range(1, len(seqs) + 1))
        assert len(seqs) == len(engine.flows.events(flow.id))


def test_a_damaged_event_does_not_keep_others_from_their_readers(database):
    damage = "UPDATE holdfast.event SET at = {} WHERE run_id = 'r2' AND seq = 1"
    with (
        closing(Receiver()) as receiver,
        Engine(database, shutdown_timeout=1, webhook_hosts=["127.0.0.1"]) as engine,
    ):
        for run_id in ("r1", "r2", "r3"):
            engine.start(add, 1, id=run_id).result(timeout=20)
        execute(database, damage.format(-1))
        consumed = []

        read = [event.run_id for event in engine.events.read()]
        engine.events.consume("c", lambda events, _: consumed.extend(e.run_id for e in events))
        engine.webhooks.set("hook", receiver.url, after="beginning")
        wait_until(engine, lambda: len(receiver.heard) == 2)

        delivered = [json.loads(heard[1])["run_id"] for heard in receiver.heard]
        assert read == consumed == delivered == ["r1", "r3"]
        assert any("in event" in line and "column at" in line for line in engine.database.check())
        execute(database, damage.format("1"))
