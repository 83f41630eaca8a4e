"""Durable runs inside an asyncio program: a tiny HTTP service that signs people up.

It shows `AsyncEngine` on the program's own loop: requests and runs share it, and no thread is
needed. A request returns as soon as its run is durable; the run continues whether or not a client
waits for it.

    python examples/asyncio_service/workflow.py
    curl -X POST localhost:8000/signup/ann           202, and the id of the run
    curl -X POST localhost:8000/confirm/signup-ann   204
    curl localhost:8000/runs/signup-ann              200, and how it stands
"""

from __future__ import annotations

import asyncio
import json
import sys

from holdfast import AsyncEngine, step, wait_signal, workflow
from holdfast.errors import RunFinished, RunNotFound


@step(retries=3, delay="100ms")
async def send_mail(name: str, text: str) -> str:
    """Write a mail."""
    return f"{text}, {name}"


@workflow
async def signup(name: str) -> str:
    """Ask a new user to confirm the address; welcome the user after that."""
    await send_mail(name, "please confirm")
    try:
        await wait_signal("confirmed", timeout="2d")
    except TimeoutError:
        return await send_mail(name, "too late")
    return await send_mail(name, "welcome")


class Service:
    """The requests of the service."""

    def __init__(self, engine: AsyncEngine) -> None:
        self.engine = engine

    async def answer(self, method: str, path: str) -> tuple[int, object]:
        """Return the status and the body for one request."""
        try:
            match method, path.strip("/").split("/"):
                case "POST", ["signup", name]:
                    run = await self.engine.start(signup, name, id=f"signup-{name}")
                    return 202, {"run": run.id}
                case "POST", ["confirm", run_id]:
                    await self.engine.signal(run_id, "confirmed")
                    return 204, None
                case "GET", ["runs", run_id]:
                    run = await self.engine.run(run_id)
                    status = (await run.status()).value
                    return 200, {
                        "status": status,
                        "result": await run.result() if status == "completed" else None,
                    }
        except RunNotFound:
            return 404, {"error": "no such run"}
        except RunFinished:
            return 409, {"error": "it is over"}
        return 404, {"error": "no such path"}

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Read one request, answer it, hang up."""
        method, path, _ = (await reader.readline()).decode().split()
        while (await reader.readline()).strip():
            pass
        status, body = await self.answer(method, path)
        text = b"" if body is None else json.dumps(body).encode()
        writer.write(
            b"HTTP/1.1 %d -\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s"
            % (status, len(text), text)
        )
        await writer.drain()
        writer.close()
        await writer.wait_closed()


async def main(path: str = "asyncio_service.db", port: int = 8000) -> None:
    """Serve until the program is stopped. Its runs continue when it is started again."""
    async with AsyncEngine(path) as engine:
        server = await asyncio.start_server(Service(engine).connected, "127.0.0.1", int(port))
        async with server:
            print(f"listening on port {port}")
            await server.serve_forever()


if __name__ == "__main__":
    try:
        asyncio.run(main(*sys.argv[1:]))  # type: ignore[arg-type]
    except KeyboardInterrupt:
        print("good bye")
