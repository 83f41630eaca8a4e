"""Fixtures of the tests of the web UI: a real server with a worker, and pages of a real browser.

Tests share a server and a page where they can: a server takes a second to start. Their runs have
ids of their own.
"""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path

import pytest

from holdfast import Engine
from tests.server.clients import ServeProcess
from tests.ui.pages import Browser, Site

SHOP = Path(__file__).parent / "shop.py"


def pytest_collection_modifyitems(items):
    """Tests with a page need a browser; where it is missing, the end of the run says so."""
    for item in items:
        if "browser" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.needs_tool("chromium"))
            item.add_marker(pytest.mark.needs_tool("playwright"))


@pytest.fixture(scope="module")
def browser():
    """A browser. Its driver occupies the thread with a running loop, in which other tests could not
    run theirs: it ends with the module."""
    with Browser() as browser:
        yield browser


@contextmanager
def opened_page(browser, database):
    """A server with a worker, and a logged-in page of it."""
    with (
        ServeProcess(database, "--worker", str(SHOP)) as server,
        browser.page(server) as page,
    ):
        yield server, page


@pytest.fixture(scope="module")
def shared_page(browser, tmp_path_factory):
    database = str(tmp_path_factory.mktemp("shop") / "shop.db")
    with opened_page(browser, database) as (server, page):
        yield database, server, page


@pytest.fixture
def site(shared_page):
    """The server and the page of the module, without earlier errors. The engine is the test's own:
    what a test leaves open is closed after it."""
    database, server, page = shared_page
    page.open("overview")
    page.see("Workers alive")
    page.errors.clear()
    page.requests.clear()
    with Engine(database, work=False) as engine:
        yield Site(page, server, engine, database)


@pytest.fixture
def own_site(browser, tmp_path):
    """A site for a test that stops its server or counts everything in its database."""
    database = str(tmp_path / "shop.db")
    with (
        opened_page(browser, database) as (server, page),
        Engine(database, work=False) as engine,
    ):
        yield Site(page, server, engine, database)
