"""The connections of a server: clients that send or read too slowly are cut off."""

import asyncio

import pytest

from holdfast.server import app, connections
from holdfast.server.connections import JoinedWrites
from holdfast.server.serving import HttpServer, bound_socket
from tests.engine.waiting import PATIENCE


async def answers_to(engine, *requests):
    """Send each request over a connection of its own, and return all that is answered until the
    server closes it."""
    server = HttpServer(app(engine), bound_socket("127.0.0.1", 0))
    server.start()
    port = server._socket.getsockname()[1]

    async def ask(data):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(data)
        answer = await asyncio.wait_for(reader.read(), PATIENCE)
        writer.close()
        return answer

    try:
        return await asyncio.gather(*map(ask, requests))
    finally:
        await server.stop()


def test_a_request_that_does_not_arrive_is_not_awaited_for_ever(engine, monkeypatch):
    monkeypatch.setattr(connections, "HEAD_WITHIN", 0.05)
    whole = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"

    nothing, half, next_half = asyncio.run(answers_to(engine, b"", whole[:20], whole + whole[:20]))

    assert (nothing, half) == (b"", b"")
    assert next_half.count(b"HTTP/1.1 200") == 1


def test_an_answer_may_take_longer_than_the_head_of_a_request(engine, monkeypatch):
    monkeypatch.setattr(connections, "HEAD_WITHIN", 0.05)
    run = engine.start("elsewhere")
    key = engine.api_keys.add("viewer", roles="viewer").api_key
    head = f"Host: localhost\r\nAuthorization: Bearer {key}\r\nConnection: close\r\n\r\n"
    poll = f"GET /api/v1/runs/{run.id}/result?wait=300ms HTTP/1.1\r\n{head}"

    (answer,) = asyncio.run(answers_to(engine, poll.encode()))

    assert answer.startswith(b"HTTP/1.1 200")
    assert b'"done":false' in answer


@pytest.mark.parametrize(("unread", "is_aborted"), [(1000, True), (0, False)])
def test_a_closed_connection_is_not_kept_for_a_client_that_does_not_read(
    monkeypatch, unread, is_aborted
):
    monkeypatch.setattr(connections, "LINGER", 0)

    class Transport:
        aborted = False

        def close(self):
            pass

        def get_write_buffer_size(self):
            return unread

        def abort(self):
            self.aborted = True

    async def close():
        transport = Transport()
        JoinedWrites(transport).close()
        later = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_later(0.01, later.set_result, None)
        await later
        return transport.aborted

    assert asyncio.run(close()) == is_aborted
