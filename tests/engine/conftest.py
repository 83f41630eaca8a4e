"""Fixtures of engine tests: an engine on its own SQLite or PostgreSQL database, in real time or
with a clock that the test moves."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from holdfast import Engine
from holdfast.testing.clock import VirtualClock


def pytest_configure(config):
    config.addinivalue_line(
        "markers", "sqlite_only: it looks into the file, or is about what only files do"
    )


def pytest_generate_tests(metafunc):
    """Run each test that uses the fixture ``database``, even indirectly, on each database."""
    if "database" in metafunc.fixturenames:
        only = any(mark.name == "sqlite_only" for mark in metafunc.definition.iter_markers())
        metafunc.parametrize(
            "database", ["sqlite"] if only else ["sqlite", "postgres"], indirect=True
        )


@pytest.fixture
def database(request, tmp_path) -> Iterator[str]:
    if request.param == "sqlite":
        yield str(tmp_path / "test.db")
        return
    with request.getfixturevalue("postgres_server").lend() as url:
        yield url


@pytest.fixture
def engine(database) -> Iterator[Engine]:
    with Engine(database, shutdown_timeout=1) as engine:
        yield engine
        assert engine.database.check() == []


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def idle(database, clock):
    """An engine without a worker, with a clock that the test moves."""
    engine = Engine(database, clock=clock)
    yield engine
    assert engine.database.check() == []
    engine.close()
