"""Each screen opens with real data, without errors, in both colour schemes and on small windows."""

from __future__ import annotations

import pathlib
from contextlib import contextmanager

import pytest

from holdfast import Engine
from tests.server.clients import ServeProcess
from tests.ui.conftest import SHOP
from tests.ui.models import MODEL

ROOT = pathlib.Path(__file__).parents[2]
AXE = ROOT / ".tools" / "node_modules" / "axe-core" / "axe.min.js"

SCREENS = {
    "runs": "order-7",
    "run/order-7": "Timeline",
    "run/order-9": "Fail: card expired",
    "inbox": "Ship it?",
    "attention": "Failed in the last day",
    "lanes": "slow",
    "schedules": "nightly",
    "workflows": "checkout",
    "models": "releasing",
    "workflow/checkout": "Diagram",
    "workflow/releasing": "Decide",
    "versions": "a worker serves it",
    "graphs": "There is no graph",
    "flows": "There is no flow",
    "budgets": "tokens",
    "operations": "No bulk operation",
    "subscriptions": "There is no webhook",
    "storage": "Measure",
    "api-keys": "There is no API key",
    "overview": "Workers alive",  # last: a new page shows it already
}


@contextmanager
def open_shop(database):
    """A server with runs in several states."""
    with (
        ServeProcess(database, "--worker", str(SHOP)) as server,
        Engine(database, work=False) as engine,
    ):
        engine.start("checkout", "order-7", id="order-7")
        engine.start("refuse", "order-9", id="order-9")
        engine.start("paid", "order-10", id="order-10")
        engine.start("nowhere", id="unserved")
        engine.lanes.set("slow", concurrency=2)
        engine.schedules.set("nightly", "pack", cron="0 3 * * *", args=["nightly"])
        engine.budgets.set("tokens", {"tokens": 500})
        engine.models.deploy(MODEL)
        engine.run("order-7").wait_until("waiting", timeout="20s")
        engine.run("order-9").wait_until("failed", timeout="20s")
        yield server


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    with open_shop(str(tmp_path_factory.mktemp("shop") / "shop.db")) as server:
        yield server


@pytest.fixture
def postgres_shop(postgres_server):
    with postgres_server.lend() as url, open_shop(url) as server:
        yield server


SIX = ("runs", "run/order-7", "inbox", "attention", "lanes", "schedules")

LARGE = {"width": 1280, "height": 800}
SMALL = {"width": 360, "height": 740}


def test_every_screen_shows_its_data_in_any_window_and_scheme(shop, browser):
    with browser.page(shop) as page:
        if AXE.exists():
            page.tab.evaluate(AXE.read_text())  # the screens are one document
        for address, text in SCREENS.items():
            page.open(address)
            page.see(text)
            page.tab.locator("main h1").wait_for()  # the text may be in the navigation, too

            if AXE.exists():
                assert page.violations() == [], address
                page.tab.emulate_media(color_scheme="dark")
                assert page.violations("color-contrast") == [], address
                page.tab.emulate_media(color_scheme="light")
            page.tab.set_viewport_size(SMALL)
            page.fit()
            page.tab.set_viewport_size(LARGE)

        outside = [request.url for request in page.requests if not request.url.startswith(shop.url)]
        assert outside == []
        assert page.errors == []


def test_the_six_screens_show_their_data_on_postgres(postgres_shop, browser):
    with browser.page(postgres_shop) as page:
        for address in SIX:
            page.open(address)
            page.see(SCREENS[address])

        assert page.errors == []


def test_the_navigation_of_a_small_window_opens_on_request(shop, browser):
    with browser.page(shop) as page:
        page.tab.set_viewport_size(SMALL)
        page.open("schedules")
        page.see_screen("Schedules")
        link = page.tab.get_by_role("navigation", name="Screens").get_by_role("link", name="Runs")
        assert not link.is_visible()

        page.press("Menu")
        link.click()

        page.see("order-7")
        link.wait_for(state="hidden")
        page.fit()
        assert page.errors == []


@pytest.mark.needs_tool("axe-core")
def test_axe_is_there_to_judge_the_screens():
    assert AXE.exists()
