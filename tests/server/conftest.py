"""Fixtures of server tests: an engine, its app without a socket, and clients with API keys."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from holdfast import Engine, gate, workflow
from holdfast.server import app
from tests.server.clients import ApiClient


@workflow(name="server.double")
async def double(number: int = 1) -> int:
    return number * 2


@workflow(name="server.ask")
async def ask(prompt: str = "Ship it?", who: str | None = None) -> str:
    if who is None:
        return (await gate(prompt, options=["yes", "no"])).choice
    return (await gate(prompt, options=["yes", "no"], assignees=[who])).choice


WORKFLOWS = [double, ask]


def pytest_generate_tests(metafunc):
    """Run each test that uses the fixture ``both`` on each database."""
    if "both" in metafunc.fixturenames:
        metafunc.parametrize("both", ["sqlite", "postgres"], indirect=True)


@pytest.fixture
def both(request, tmp_path) -> Iterator[str]:
    """A SQLite file, then a PostgreSQL database."""
    if request.param == "sqlite":
        yield str(tmp_path / "both.db")
        return
    with request.getfixturevalue("postgres_server").lend() as url:
        yield url


@pytest.fixture
def engine(tmp_path) -> Iterator[Engine]:
    with Engine(tmp_path / "server.db", workflows=WORKFLOWS, shutdown_timeout=1) as engine:
        yield engine


@pytest.fixture
def connect(engine):
    """Return a function that returns a client with a new API key."""
    return ApiClient.maker(engine, app(engine))


@pytest.fixture
def admin(connect) -> ApiClient:
    return connect("admin")


@pytest.fixture
def stranger(engine) -> httpx.Client:
    return ApiClient(app(engine), {})
