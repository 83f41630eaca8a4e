"""The timeline and the diagram of real runs, on both databases."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import holdfast
from holdfast import Engine, gather, step, workflow
from holdfast.connect.outlines import HistoryOutlines

TRIES: list[int] = []


@step(retries=2)
async def flaky_part(number: int) -> int:
    TRIES.append(number)
    if len(TRIES) == 1:
        raise ValueError("the first try fails")
    return number


@step
async def plain_part(number: int) -> int:
    return number


@workflow
async def drawn_child(number: int) -> int:
    return number


@workflow
async def drawn(count: int) -> int:
    await flaky_part(1)
    await gather(plain_part(1), plain_part(2))
    for number in range(count):
        await plain_part(number)
    await holdfast.map(drawn_child, list(range(count)))
    return count


def test_a_run_is_drawn_from_its_history(engine):
    TRIES.clear()
    run = engine.start(drawn, 7)
    run.result(timeout="30s")

    timeline = run.timeline()
    diagram = run.diagram()

    rows = {row.id: row for row in timeline.rows}
    assert list(rows) == ["flaky_part", "plain_part#*", "map drawn_child", "event 14"]
    assert [attempt.state for attempt in rows["flaky_part"].attempts] == ["failed"]
    assert rows["plain_part#*"].count == 9
    assert rows["map drawn_child"].count == 7
    assert [(node.label, node.count, node.state.value) for node in diagram.nodes] == [
        ("start", 1, "completed"),
        ("flaky_part", 1, "retried"),
        ("plain_part", 9, "completed"),
        ("drawn_child", 7, "completed"),
        ("end", 1, "completed"),
    ]


def test_a_map_is_unfolded_by_page(engine):
    TRIES[:] = [0]
    run = engine.start(drawn, 5)
    run.result(timeout="30s")

    first = run.timeline(open="map drawn_child", limit=3)
    second = run.timeline(open="map drawn_child", limit=3, after=first.next)

    children = [engine.run(row.run).record for row in (*first.rows, *second.rows)]
    assert [child.parent_index for child in children] == [0, 1, 2, 3, 4]
    assert second.next is None


def test_a_graph_is_drawn_with_its_groups(engine):
    graph = holdfast.Graph()
    first = graph.add(drawn_child, 1, name="first")
    second = graph.add(drawn_child, 2, name="second")
    graph.add(drawn_child, 3, name="third").after(first, second, need="any")
    started = engine.graphs.start(graph)
    started.result(timeout="30s")

    diagram = engine.graphs.diagram(started.id)

    assert diagram.kind == "graph"
    assert {(edge.source, edge.target, edge.label) for edge in diagram.edges} == {
        ("first", "third", "1 of 2"),
        ("second", "third", "1 of 2"),
    }
    assert {node.state.value for node in diagram.nodes} == {"completed"}


class StatementLog:
    """The statements of a store, as its driver executes them."""

    def __init__(self, store):
        self._fetch = store.runs._reader.fetch
        self.rows: list[int] = []
        self.hold: threading.Event | None = None
        """The first statement waits for it, if there is one."""
        self.is_held = threading.Event()
        store.runs._reader.fetch = self

    def __call__(self, sql, *values):
        rows = self._fetch(sql, *values)
        if "holdfast_event" in sql or "holdfast.event" in sql:
            self.rows.append(len(rows))
            self.is_held.set()
            if self.hold is not None:
                assert self.hold.wait(60)
        return rows


def test_a_timeline_reads_the_values_of_its_page_and_then_only_new_events(engine, database):
    TRIES[:] = [0]
    run = engine.start(drawn, 40)
    run.result(timeout="30s")
    with Engine(database, work=False) as reader:
        log = StatementLog(reader._calls.opened().store)
        watched = reader.run(run.id)

        first = watched.timeline()
        again = watched.timeline()

    assert again.rows == first.rows
    whole, page, last, same_page = log.rows
    assert (whole, last) == (first.events, 1)
    assert page == same_page < 8


def test_readers_at_the_same_time_read_a_history_once(engine, database):
    TRIES[:] = [0]
    run = engine.start(drawn, 40)
    run.result(timeout="30s")
    with Engine(database, work=False) as reader:
        store = reader._calls.opened().store
        log = StatementLog(store)
        log.hold = threading.Event()
        outlines = HistoryOutlines(store)
        record = store.runs.get(run.id)
        second_begins = threading.Event()

        def read_second():
            assert log.is_held.wait(60)
            second_begins.set()
            return outlines.of(record)

        with ThreadPoolExecutor(2) as pool:
            first = pool.submit(outlines.of, record)
            second = pool.submit(read_second)
            assert second_begins.wait(60)
            log.hold.set()
            events = first.result(60)

            assert second.result(60) == events
    assert log.rows == [len(events), 1]


def test_an_outline_notices_that_its_history_was_deleted(engine):
    TRIES[:] = [0]
    run = engine.start(drawn, 5)
    run.result(timeout="30s")
    store = engine._calls.opened().store
    outlines = HistoryOutlines(store)
    record = store.runs.get(run.id)
    assert len(outlines.of(record)) == run.timeline().events

    engine.retention.set("histories", older_than="0s", target="events")
    engine.retention.apply()

    assert [event.kind for event in outlines.of(record)] == ["history_deleted"]
