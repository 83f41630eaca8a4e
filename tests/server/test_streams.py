"""Streams of events and output: filters, resume without loss, slow clients, the end."""

import asyncio
import json

import pytest

from holdfast import Engine, Graph, streams, workflow
from holdfast.core.subscriptions import EventFilter
from holdfast.server import app, sse
from holdfast.server.auth import Gatekeeper
from holdfast.server.sse import MOST_WAITING, StreamClient, live_messages
from tests.engine.waiting import PATIENCE
from tests.server.clients import ApiClient, problem
from tests.server.conftest import WORKFLOWS


@workflow(name="server.talk")
async def talk(count: int) -> None:
    for number in range(count):
        streams.emit({"number": number})


class Stream:
    """An open stream of an app, read message by message."""

    def __init__(self, asgi, client, path, headers=None):
        self.messages = asyncio.Queue()
        self.gone = asyncio.Event()
        self.status = asyncio.get_running_loop().create_future()
        self.reads = asyncio.Event()
        self.reads.set()
        self._text = ""
        path, _, query = path.partition("?")
        sent = {**client.headers, **(headers or {}), "host": "localhost"}
        scope = {
            "type": "http",
            "method": "GET",
            "path": f"/api/v1{path}",
            "root_path": "",
            "query_string": query.encode(),
            "headers": [(name.lower().encode(), value.encode()) for name, value in sent.items()],
        }
        self.task = asyncio.create_task(asgi(scope, self._receive, self._send))

    async def _receive(self):
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message):
        await self.reads.wait()
        if message["type"] == "http.response.start":
            self.status.set_result(message["status"])
            return
        self._text += message["body"].decode()
        *whole, self._text = self._text.split("\n\n")
        for text in whole:
            self.messages.put_nowait(dict(line.split(": ", 1) for line in text.splitlines()))
        if not message.get("more_body"):
            self.messages.put_nowait(None)

    async def next(self):
        """Return the next message; None at the end of the stream. Comments are skipped."""
        while True:
            message = await asyncio.wait_for(self.messages.get(), PATIENCE)
            if message is None or "" not in message:
                return message

    async def close(self):
        self.gone.set()
        await asyncio.wait_for(self.task, PATIENCE)


def test_events_arrive_and_resume_without_loss_or_duplicates(both):
    with Engine(both, workflows=WORKFLOWS, shutdown_timeout=1) as engine:
        asgi = app(engine)
        client = ApiClient.maker(engine, asgi)("viewer")

        async def follow():
            stream = Stream(asgi, client, "/events/stream?kind=completions")
            assert await stream.status == 200
            runs = [await asyncio.to_thread(engine.start, "server.double", n) for n in range(3)]
            first = await stream.next()
            await stream.close()
            await asyncio.to_thread(runs[-1].result, "20s")
            more = await asyncio.to_thread(engine.start, "server.double", 9)
            await asyncio.to_thread(more.result, "20s")
            resumed = Stream(
                asgi,
                client,
                "/events/stream?kind=completions",
                {"Last-Event-ID": first["id"]},
            )
            rest = [await resumed.next() for _ in range(3)]
            late = await asyncio.to_thread(engine.start, "server.double", 10)
            rest.append(await resumed.next())
            await resumed.close()
            return [run.id for run in (*runs, more, late)], [first, *rest]

        ids, messages = asyncio.run(follow())

    assert sorted(json.loads(message["data"])["run_id"] for message in messages) == sorted(ids)
    assert {json.loads(message["data"])["kind"] for message in messages} == {"run_completed"}


def graph_of(number):
    graph = Graph(f"graph-{number}")
    graph.add("server.double", number)
    return graph


def start_graph(engine, number):
    return engine.graphs.start(graph_of(number)).id


def start_flow(engine, number):
    return engine.flows.create("driver", f"goal {number}", owner="ann").id


@pytest.mark.parametrize(
    ("source", "start", "kind"),
    [("graphs", start_graph, "graph_started"), ("flows", start_flow, "created")],
)
def test_events_of_graphs_and_flows_arrive_and_resume(both, source, start, kind):
    with Engine(both, workflows=WORKFLOWS, shutdown_timeout=1) as engine:
        asgi = app(engine)
        connect = ApiClient.maker(engine, asgi)
        client = connect("viewer")
        path = f"/events/stream?source={source}&kind={kind}"
        earlier = start(engine, 0)

        async def follow():
            stream = Stream(asgi, client, path)
            other = Stream(asgi, connect("viewer", namespace="acme"), path)
            assert (await stream.status, await other.status) == (200, 200)
            begun = [await asyncio.to_thread(start, engine, number) for number in (1, 2)]
            first = await stream.next()
            await stream.close()
            begun.append(await asyncio.to_thread(start, engine, 3))
            resumed = Stream(asgi, client, path, {"Last-Event-ID": first["id"]})
            rest = [await resumed.next() for _ in range(2)]
            begun.append(await asyncio.to_thread(start, engine, 4))
            rest.append(await resumed.next())
            await resumed.close()
            await other.close()
            messages = [first, *rest]
            others = [other.messages.get_nowait() for _ in range(other.messages.qsize())]
            return begun, messages, others

        begun, messages, elsewhere = asyncio.run(follow())
        page = client.json("GET", f"/events?source={source}&kind={kind}")["items"]

    events = [json.loads(message["data"]) for message in messages]
    assert [event["run_id"] for event in events] == begun
    assert [event["run_id"] for event in page] == [earlier, *begun]
    assert {event["kind"] for event in events} == {kind}
    comments = [message for message in elsewhere if message is not None]
    assert comments[0] == {"": "connected"}
    assert {*map(tuple, comments)} == {("",)}  # a stream without events has pings after a while


def test_a_cursor_of_another_source_is_refused(engine, admin):
    start_flow(engine, 1)
    cursor = admin.json("GET", "/events?source=flows")["next"]

    for path in ("/events", "/events/stream", "/events/stream?source=graphs"):
        sign = "&" if "?" in path else "?"
        assert problem(admin("GET", f"{path}{sign}after={cursor}")) == "BadCursor"


def test_a_stream_of_a_namespace_has_no_other_events(engine, connect):
    asgi = app(engine)
    acme = connect("viewer", namespace="acme")

    async def follow():
        stream = Stream(asgi, acme, "/events/stream")
        await stream.status
        await asyncio.to_thread(engine.start, "server.double", 1)
        await asyncio.to_thread(engine.start, "server.double", 2, namespace="acme")
        message = await stream.next()
        await stream.close()
        return json.loads(message["data"])

    assert asyncio.run(follow())["namespace"] == "acme"


def test_a_client_that_does_not_read_is_cut_off_and_resumes(engine, connect):
    class Sent:
        def __init__(self, number):
            self.view = type(
                "View", (), {"workflow": "w", "namespace": "n", "run_id": "r", "kind": "k"}
            )
            self.place = number

        def encoded(self, *, with_values):
            return b"%d\n" % self.place

    async def read():
        client = StreamClient(EventFilter())
        for number in range(MOST_WAITING + 5):
            client.offer(Sent(number))
        return [chunk async for chunk in live_messages(client, None, with_values=True)]

    sent, last = asyncio.run(read())

    assert sent.count(b"\n") == MOST_WAITING
    assert last.startswith(b"event: behind")


def test_a_client_far_behind_neither_fills_the_memory_nor_holds_up_others(engine):
    class Sent:
        place = 1
        view = type("View", (), {"workflow": "w", "namespace": "n", "run_id": "r", "kind": "k"})

        def encoded(self, *, with_values):
            return b"x" * 10_000

    async def read():
        turns = 0

        def count():
            nonlocal turns
            turns += 1
            asyncio.get_running_loop().call_soon(count)

        client = StreamClient(EventFilter())
        for _ in range(MOST_WAITING + 1):
            client.offer(Sent())
        count()
        chunks = [chunk async for chunk in live_messages(client, None, with_values=True)]
        return chunks, turns

    chunks, turns = asyncio.run(read())

    assert sum(map(len, chunks[:-1])) == MOST_WAITING * 10_000
    assert max(map(len, chunks)) < sse.CHUNK + 10_000
    assert turns >= len(chunks) - 2


def test_a_client_that_takes_no_message_for_too_long_is_cut_off(engine, connect, monkeypatch):
    monkeypatch.setattr(sse, "PING_EVERY", 0)
    monkeypatch.setattr(sse, "READ_WITHIN", 0.01)
    asgi = app(engine)
    client = connect("viewer")

    async def stall():
        stream = Stream(asgi, client, "/events/stream")
        await stream.status
        stream.reads.clear()
        await asyncio.wait_for(stream.task, PATIENCE)
        return asgi._shared.hub._clients

    assert asyncio.run(stall()) == set()


@pytest.mark.parametrize("revoked", ["the key of the stream", "another key"])
def test_a_stream_ends_when_its_api_key_is_revoked(engine, connect, monkeypatch, revoked):
    monkeypatch.setattr(sse, "READ_WITHIN", 0.01)
    asgi = app(engine)
    reader = connect("viewer")
    other = connect("viewer")
    checks = asyncio.Queue()
    still_admits = Gatekeeper.still_admits

    async def check(self, request, identity):
        is_admitted = await still_admits(self, request, identity)
        checks.put_nowait(is_admitted)
        return is_admitted

    monkeypatch.setattr(Gatekeeper, "still_admits", check)

    async def read():
        stream = Stream(asgi, reader, "/events/stream?kind=completions")
        assert await stream.status == 200
        assert await asyncio.wait_for(checks.get(), PATIENCE)
        key = reader if revoked == "the key of the stream" else other
        await asyncio.to_thread(engine.api_keys.revoke, key.name)
        while not checks.empty():
            checks.get_nowait()
        if key is reader:
            assert await stream.next() is None
            await asyncio.wait_for(stream.task, PATIENCE)
        else:
            assert await asyncio.wait_for(checks.get(), PATIENCE)
            assert await asyncio.wait_for(checks.get(), PATIENCE)
            await stream.close()

    asyncio.run(read())


def test_a_stream_waits_for_an_event_without_a_task_of_its_own():
    async def wait():
        client = StreamClient(EventFilter())
        waiting = client.wait(60)
        waiting.send(None)
        tasks = len(asyncio.all_tasks())
        client.fall_behind()
        with pytest.raises(StopIteration):
            waiting.send(None)
        return tasks

    assert asyncio.run(wait()) == 1


def test_a_silent_stream_sends_a_comment(monkeypatch):
    monkeypatch.setattr(sse, "PING_EVERY", 0)

    async def read():
        async for chunk in live_messages(StreamClient(EventFilter()), None, with_values=True):
            return chunk

    assert asyncio.run(read()) == b": ping\n\n"


def test_the_output_of_a_run_is_sent_until_its_end(tmp_path):
    with Engine(tmp_path / "output.db", workflows=[talk], shutdown_timeout=1) as engine:
        asgi = app(engine)
        client = ApiClient.maker(engine, asgi)("viewer")
        run = engine.start(talk, 3)
        run.result(timeout="20s")

        async def follow(headers):
            stream = Stream(asgi, client, f"/runs/{run.id}/output/stream", headers)
            messages = []
            while (message := await stream.next()) is not None:
                messages.append(message)
            await stream.task
            return messages

        whole = asyncio.run(follow({}))
        rest = asyncio.run(follow({"Last-Event-ID": whole[1]["id"]}))

    assert [json.loads(m["data"])["value"] for m in whole[:-1]] == [{"number": n} for n in range(3)]
    assert whole[-1]["event"] == "end"
    assert rest == whole[2:]


def test_a_stop_ends_every_stream_at_once(engine, connect):
    asgi = app(engine)
    client = connect("viewer")

    async def follow():
        opened = [Stream(asgi, client, "/events/stream") for _ in range(20)]
        for stream in opened:
            await stream.status
        asgi.stop_streams()
        await asyncio.wait_for(asyncio.gather(*(stream.task for stream in opened)), PATIENCE)
        late = Stream(asgi, client, "/events/stream")
        await asyncio.wait_for(late.task, PATIENCE)

    asyncio.run(follow())


def test_the_audit_log_names_the_api_key(connect, engine):
    operator = connect("operator", name="carla")
    run = engine.start("elsewhere")
    operator.json("POST", f"/runs/{run.id}/cancel", {"reason": "not needed"})

    events = operator.json("GET", "/events?kind=operator")["items"]

    assert [event["run_id"] for event in events] == [run.id]
    assert "carla" in json.dumps(events)


@pytest.mark.parametrize("limit", [1, 2])
def test_events_are_read_in_pages(engine, admin, limit):
    runs = engine.start_many("server.double", range(5))
    for run in runs:
        run.result(timeout="20s")

    seen = []
    after = ""
    while True:
        page = admin.json("GET", f"/events?limit={limit}{after}")
        if not page["items"]:
            break
        seen += [event["run_id"] for event in page["items"]]
        after = f"&after={page['next']}"

    assert sorted(seen) == sorted(run.id for run in runs)


def test_a_question_for_the_headers_of_a_stream_is_answered_at_once(engine, connect):
    client = connect("viewer")
    run = engine.start("server.talk")

    for path in ("/events/stream", f"/runs/{run.id}/output/stream"):
        response = client("HEAD", path)

        assert (response.status_code, response.content) == (200, b"")
        assert response.headers["content-type"].startswith("text/event-stream")


def test_a_client_that_goes_away_before_its_first_message_is_fed_no_longer(engine, connect):
    asgi = app(engine)
    client = connect("viewer")

    async def come_and_go():
        stream = Stream(asgi, client, "/events/stream")
        await stream.status
        stream.reads.clear()  # nothing but the head is sent
        await stream.close()
        return asgi._shared.hub._clients

    assert asyncio.run(come_and_go()) == set()


@pytest.mark.parametrize("number", ["\xb2", "9" * 30, "-1", "1_0"])
def test_a_last_event_id_that_is_no_number_of_a_frame_is_refused(engine, connect, number):
    run = engine.start("server.talk")
    headers = {"Last-Event-ID": number.encode("latin-1")}

    response = connect("viewer")("GET", f"/runs/{run.id}/output/stream", headers=headers)

    assert (response.status_code, problem(response)) == (400, "BadRequest")
