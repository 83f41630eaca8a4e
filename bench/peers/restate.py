"""Restate: its server on loopback with its default settings, which sync, and without telemetry;
handlers in a process of their own, served by hypercorn; callers over plain sockets."""

from __future__ import annotations

import asyncio
import json
import os
import pathlib
import socket
import subprocess
import time
import urllib.error
import urllib.request
from typing import Any

import hypercorn.asyncio
import hypercorn.config
import restate

from bench.environments import node_modules
from bench.peers.notes import note
from bench.place import Helper, Place, ready, say

CALLERS = 200


class Server:
    """A running server with its handlers."""

    def __init__(self, place: Place, **more: Any) -> None:
        self.place = place
        self.ingress, self.admin, self.node = (_free_port() for _ in range(3))
        self.handlers_port = _free_port()
        self._more = more
        folder = pathlib.Path(place.folder) / "restate"
        (binary,) = node_modules("restate").glob("@restatedev/restate-server-*/bin/restate-server")
        self.process = subprocess.Popen(
            [str(binary), "--no-logo"],
            env=os.environ
            | {
                "RESTATE_BASE_DIR": str(folder),
                "RESTATE_BIND_IP": "127.0.0.1",
                "RESTATE_LISTEN_MODE": "tcp",
                "RESTATE_BIND_PORT": str(self.node),
                "RESTATE_INGRESS__BIND_PORT": str(self.ingress),
                "RESTATE_ADMIN__BIND_PORT": str(self.admin),
                "RESTATE_DISABLE_TELEMETRY": "true",
                "DO_NOT_TRACK": "1",
                "RUST_LOG": "error",
            },
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        place.server_pid = self.process.pid
        self._wait(self.admin, "/health")
        self.handlers = self.start_handlers(**more)
        uri = {"uri": f"http://127.0.0.1:{self.handlers_port}"}
        self._request(self.admin, "/deployments", uri)
        self._wait(self.ingress, "/restate/health")

    def start_handlers(self, **more: Any) -> Helper:
        """Start the process of the handlers."""
        helper = self.place.spawn("restate_handlers", port=self.handlers_port, **more)
        helper.go()
        helper.listen("serving")
        return helper

    def _wait(self, port: int, path: str) -> None:
        deadline = time.monotonic() + 60
        while True:
            try:
                return self._request(port, path)
            except OSError:
                if time.monotonic() > deadline or self.process.poll() is not None:
                    raise
                time.sleep(0.1)

    def _request(self, port: int, path: str, body: Any = None) -> None:
        request = urllib.request.Request(
            f"http://127.0.0.1:{port}{path}",
            None if body is None else json.dumps(body).encode(),
            {"content-type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=30) as answer:
            answer.read()

    def call(self, handler: str, inputs: list[Any], callers: int = CALLERS) -> list[Any]:
        """Call a handler for each input, by as many callers at once; return the answers."""
        return asyncio.run(self._call(handler, inputs, callers))

    async def _call(self, handler: str, inputs: list[Any], callers: int) -> list[Any]:
        waiting = iter(enumerate(inputs))
        answers: list[Any] = [None] * len(inputs)

        async def caller() -> None:
            reader, writer = await asyncio.open_connection("127.0.0.1", self.ingress)
            for place, value in waiting:
                answers[place] = await _post(reader, writer, f"/bench/{handler}", value)
            writer.close()

        await asyncio.gather(*(caller() for _ in range(min(callers, len(inputs)))))
        return answers

    def send(self, handler: str, inputs: list[Any]) -> None:
        """Start a handler for each input, without waiting for its end."""
        self.call(f"{handler}/send", inputs)


def with_handlers(figures: dict[str, float], seconds: float, unit: str) -> dict[str, float]:
    """Return figures with the CPU seconds that the process of the handlers took for each unit."""
    for name in (f"cpu_ms_per_{unit}", f"all_cpu_ms_per_{unit}"):
        figures[name] += seconds * 1e3
    return figures


async def _post(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, path: str, value: Any
) -> Any:
    body = json.dumps(value).encode()
    head = (
        f"POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
        f"content-length: {len(body)}\r\n\r\n"
    )
    writer.write(head.encode() + body)
    answer = await reader.readuntil(b"\r\n\r\n")
    length = 0
    for line in answer.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            length = int(line.split(b":")[1])
    content = await reader.readexactly(length)
    if not answer.startswith((b"HTTP/1.1 200", b"HTTP/1.1 202")):
        raise RuntimeError(f"Restate answers {answer[:40]!r}: {content[:200]!r}")
    return json.loads(content) if content else None


def serve(place: Place) -> None:
    """Serve the handlers until the process ends."""
    service = restate.Service("bench")

    @service.handler("steps")  # type: ignore[arg-type]
    async def steps(context: restate.Context, count: int) -> int:
        for number in range(count):
            await context.run_typed(f"s{number}", _value, number=number)
        return count

    @service.handler("logged")  # type: ignore[arg-type]
    async def logged(context: restate.Context, run: int) -> int:
        for number in range(5):
            await context.run_typed(f"s{number}", _note, path=place.log, run=run, number=number)
            note(place.log + "-recorded", run, number)
        return 5

    config = hypercorn.config.Config()
    config.bind = [f"127.0.0.1:{place.port}"]
    config.h2_max_concurrent_streams = 2_000
    config.loglevel = "ERROR"
    ready()

    async def main() -> None:
        stopping = asyncio.Event()
        serving = asyncio.create_task(
            hypercorn.asyncio.serve(
                restate.app([service]),  # type: ignore[arg-type]
                config,
                shutdown_trigger=stopping.wait,  # type: ignore[arg-type]
            )
        )
        while not _answers(place.port):
            await asyncio.sleep(0.05)
        say("serving")
        await serving

    asyncio.run(main())


async def _value(number: int) -> int:
    return number


async def _note(path: str, run: int, number: int) -> int:
    note(path, run, number)
    return number


def _answers(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
