"""Fixtures of the tests of text workflows: each test with a database runs on both."""

from collections.abc import Iterator

import pytest

from holdfast.authoring.wf.registrations import GLOBAL


@pytest.fixture(autouse=True)
def global_registrations() -> Iterator[None]:
    """Take back what a test registers for all libraries, as a module of ``--using`` does."""
    tables = (GLOBAL.executors, GLOBAL.providers, GLOBAL.resolvers, GLOBAL.schemas)
    before = [dict(table) for table in tables]
    fallback = GLOBAL.fallback
    yield
    for table, entries in zip(tables, before, strict=True):
        table.clear()
        table.update(entries)
    GLOBAL.fallback = fallback


def pytest_generate_tests(metafunc):
    if "database" in metafunc.fixturenames:
        metafunc.parametrize("database", ["sqlite", "postgres"], indirect=True)


@pytest.fixture
def database(request, tmp_path) -> Iterator[str]:
    if request.param == "sqlite":
        yield str(tmp_path / "test.db")
        return
    with request.getfixturevalue("postgres_server").lend() as url:
        yield url
