"""The server beside the engine in process: a page of 50 runs, starts by 16 clients, and a thousand
streams of events. The clients are raw sockets in processes of their own: a client library in one
process would be slower than the server."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from typing import Any
from urllib.parse import urlsplit

from bench.place import Helper, Place, check, percentile, ready, say
from bench.scenario import STORES, Scenario, Target

SCENARIO = Scenario(
    "http",
    "starts over HTTP by 16 clients",
    "start_ratio",
    "of the engine",
    size={"n": 4000, "clients": 16, "processes": 4, "pages": 400, "streams": 1000, "events": 20},
    targets=tuple(
        target
        for store in STORES
        for target in (
            Target(store, "page_more_ms", 1.5, at_most=True),
            Target(store, "start_ratio", 0.5),
            Target(store, "stream_lost", 0, at_most=True),
            Target(store, "stream_p99_ms", 300, at_most=True),
            Target(store, "stream_kb", 60, at_most=True),
            Target(store, "stop_seconds", 2, at_most=True),
        )
    ),
)

BODY = json.dumps({"workflow": "bench_task", "args": [1]}).encode()


def holdfast(place: Place) -> dict[str, float]:
    from holdfast import Engine

    with Engine(place.url, work=False) as engine:
        key = engine.api_keys.add("bench", roles="admin").api_key
        engine.start_many("bench_task", list(range(200)))
        page = _page(engine, place.pages)
        rate = _rate(engine, place)
        with Server(place.url) as server:
            found = {"page_more_ms": _page_over_http(server, key, place.pages) - page}
            starts = _starts(place, server, key)
            found |= {"start_rate": starts, "start_ratio": starts / rate, "engine_rate": rate}
            found |= _streams(place, engine, server, key)
            found["stop_seconds"] = server.stop()
        return found


class Server:
    """``holdfast serve`` on a free port."""

    def __init__(self, url: str) -> None:
        command = [sys.executable, "-m", "holdfast", "--db", url, "serve", "--port", "0"]
        self.process = subprocess.Popen(
            [*command, "--quiet", "--rate", "1000000/s"], stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        address = urlsplit(self.process.stdout.readline().partition("#")[0])
        self.address = (address.hostname or "", address.port or 0)

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()

    def cpu(self) -> float:
        """Return the CPU seconds that it has used."""
        with open(f"/proc/{self.process.pid}/stat") as stat:
            fields = stat.read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory_kb(self) -> float:
        """Return the memory that it has now."""
        with open(f"/proc/{self.process.pid}/status") as status:
            return next(float(line.split()[1]) for line in status if line.startswith("VmRSS"))

    def stop(self) -> float:
        """Let it stop, and return the seconds that it took."""
        began = time.perf_counter()
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()
        return time.perf_counter() - began


def request(key: str, method: str, path: str, body: bytes = b"") -> bytes:
    """Return a request of the API."""
    head = (
        f"{method} /api/v1{path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {key}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def connected(address: tuple[str, int]) -> socket.socket:
    """Return a connection without the delay of small packets."""
    connection = socket.create_connection(address)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def ask(connection: socket.socket, data: bytes) -> int:
    """Send a request and return the status of its answer."""
    connection.sendall(data)
    return answered(connection)


def answered(connection: socket.socket) -> int:
    """Read the whole answer and return its status."""
    answer = b""
    while b"\r\n\r\n" not in answer:
        answer += connection.recv(1 << 18)
    head, _, body = answer.partition(b"\r\n\r\n")
    length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
    while len(body) < length:
        body += connection.recv(1 << 18)
    return int(head.split(b" ", 2)[1])


def _page(engine: Any, count: int) -> float:
    """Return the CPU milliseconds of a page of 50 runs."""
    began = time.process_time()
    for _ in range(count):
        check(len(engine.runs().page(limit=50)), 50)
    return (time.process_time() - began) / count * 1e3


def _page_over_http(server: Server, key: str, count: int) -> float:
    connection = connected(server.address)
    data = request(key, "GET", "/runs?limit=50")
    check(ask(connection, data), 200)
    began = server.cpu()
    for _ in range(count):
        ask(connection, data)
    return (server.cpu() - began) / count * 1e3


def _rate(engine: Any, place: Place) -> float:
    """Return the runs that as many threads start per second in this process."""
    share = place.n // place.clients
    threads = [
        threading.Thread(target=lambda: [engine.start("bench_task", 1) for _ in range(share)])
        for _ in range(place.clients)
    ]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return share * place.clients / (time.perf_counter() - began)


def _starts(place: Place, server: Server, key: str) -> float:
    share = place.n // place.processes
    each = {"address": list(server.address), "key": key, "share": share}
    helpers = [place.spawn("starter", **each) for _ in range(place.processes)]
    began = time.perf_counter()
    for helper in helpers:
        helper.go()
    for helper in helpers:
        helper.listen("done")
    return share * place.processes / (time.perf_counter() - began)


def starter(place: Place) -> dict[str, float]:
    """Start runs over some connections at once, each as soon as its last answer is there."""
    mine = place.clients // place.processes
    connections = [connected(tuple(place.address)) for _ in range(mine)]
    data = request(place.key, "POST", "/runs", BODY)
    ready()
    sent = 0
    for connection in connections:
        connection.sendall(data)
        sent += 1
    left = place.share
    while left:
        for connection in select.select(connections, [], [])[0]:
            check(answered(connection), 201)
            left -= 1
            if sent < place.share:
                connection.sendall(data)
                sent += 1
    say("done")
    return {}


def _streams(place: Place, engine: Any, server: Server, key: str) -> dict[str, float]:
    before = server.memory_kb()
    helper: Helper = place.spawn("follower", address=list(server.address), key=key)
    grown = (server.memory_kb() - before) / place.streams
    helper.go()
    for number in range(place.events):
        run = engine.start("bench_task", number)
        run.cancel(f"at {time.time()}")
        time.sleep(0.2)
    found = json.loads(helper.listen("result"))
    return {**found, "stream_kb": grown}


def follower(place: Place) -> dict[str, float]:
    """Open streams, and tell how late their events were, and how many were lost."""
    poll = select.epoll()
    opened = {}
    data = request(place.key, "GET", "/events/stream?kind=run_cancelled")
    for _ in range(place.streams):
        connection = connected(tuple(place.address))
        connection.sendall(data)
        opened[connection.fileno()] = connection
        poll.register(connection, select.EPOLLIN)
    waiting = set(opened)
    while waiting:
        for number, _ in poll.poll():
            if b": connected" in opened[number].recv(1 << 16):
                waiting.discard(number)
    ready()
    late: list[float] = []
    wanted = place.streams * place.events
    until = time.time() + 60
    while len(late) < wanted and time.time() < until:
        for number, _ in poll.poll(1):
            text = opened[number].recv(1 << 16)
            for part in text.split(b"at ")[1:]:
                late.append(time.time() - float(part.split(b'"')[0].split(b")")[0]))
    say(
        "result "
        + json.dumps({"stream_lost": wanted - len(late), "stream_p99_ms": _p99(late) * 1e3})
    )
    return {}


def _p99(late: list[float]) -> float:
    return percentile(sorted(late), 0.99) if late else 60.0
