"""A client that calls an app without a socket, and one that starts ``holdfast serve``."""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
import subprocess
import sys
import threading

import httpx

from tests.engine.waiting import PATIENCE

_NUMBERS = itertools.count(1)


class ApiClient:
    """Calls an ASGI app; every call has a loop of its own, unless one is running."""

    def __init__(self, app, headers, prefix="/api/v1"):
        self.app = app
        self.headers = headers
        self.prefix = prefix

    @classmethod
    def maker(cls, engine, app):
        def connect(*roles, **options):
            name = options.pop("name", f"key-{next(_NUMBERS)}")
            key = engine.api_keys.add(name, roles=roles, **options)
            client = cls(app, {"Authorization": f"Bearer {key.api_key}"})
            client.name = name
            return client

        return connect

    def __call__(self, method, path, body=None, **options):
        """Send a request and return the response."""
        return asyncio.run(self.ask(method, path, body, **options))

    async def ask(self, method, path, body=None, *, content=None, headers=None, raw=False):
        transport = httpx.ASGITransport(app=self.app, raise_app_exceptions=True)
        url = path if raw else self.prefix + path
        sent = {**self.headers, **(headers or {})}
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            if content is not None:
                return await client.request(method, url, content=content, headers=sent)
            return await client.request(method, url, json=body, headers=sent)

    def json(self, method, path, body=None, **options):
        """Send a request that must succeed, and return its body."""
        response = self(method, path, body, **options)
        assert response.status_code < 300, response.text
        return response.json() if response.content else None


def problem(response) -> str:
    """Return the name of the problem of a response."""
    assert response.headers["content-type"] == "application/problem+json", response.text
    body = response.json()
    assert body["status"] == response.status_code
    return body["type"].rpartition("/")[2]


class ServeProcess:
    """``holdfast serve`` in a process of its own, on a free port unless the options name one."""

    def __init__(self, database, *options):
        command = [sys.executable, "-m", "holdfast", "--db", str(database), "serve"]
        port = () if "--port" in options else ("--port", "0")
        self.process = subprocess.Popen(
            [*command, *port, *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )
        line = self.process.stdout.readline()
        assert line, self.process.stderr.read()
        self.url, _, self.link = line.strip().partition("#login=")
        # A full pipe would block the server.
        self._reader = threading.Thread(target=self._read_log, daemon=True)
        self._reader.start()

    def _read_log(self):
        self.log = self.process.stderr.read()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self._reader.join()
        self.process.stdout.close()
        self.process.stderr.close()

    def stop(self):
        """Send SIGTERM and return the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=PATIENCE)
