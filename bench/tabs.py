"""The memory of the scripts of ten open pages of the web UI that follow many events."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from bench.place import Place

TABS = ("runs", "runs?status=completed", "run/short", "run/tabs", "overview")
"""The addresses of the pages, each opened twice."""


def memory(place: Place, driver: Any, chromium: str) -> dict[str, float]:
    """Return how much more memory the scripts of ten pages take after many events than before."""
    from bench.peers import ours
    from holdfast import Engine

    with (
        _server(place.url) as link,
        Engine(place.url) as engine,
        _browser(driver, chromium) as browser,
    ):
        engine.start(ours.steps, 1, id="tabs").result()
        pages = _pages(browser, link)
        warm = engine.start(ours.steps, 200)  # what is loaded at first use is loaded now
        warm.result()
        _settle(pages)
        before = sum(_heap(page) for page in pages)
        for _ in range(place.events // 200):
            engine.start(ours.steps, 199).result()
        _settle(pages)
        after = sum(_heap(page) for page in pages)
    return {
        "tabs": len(pages),
        "tabs_memory": after / before,
        "tabs_mb": after / 1e6,
    }


@contextmanager
def _server(url: str) -> Iterator[str]:
    command = [sys.executable, "-m", "holdfast", "--db", url, "serve", "--port", "0"]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert process.stdout is not None
    try:
        yield process.stdout.readline().strip()
    finally:
        process.terminate()
        process.wait()


@contextmanager
def _browser(driver: Any, chromium: str) -> Iterator[Any]:
    browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
    try:
        yield browser
    finally:
        browser.close()


def _pages(browser: Any, link: str) -> list[Any]:
    """Open the pages, each in a context of its own: visible pages of one context share six
    connections."""
    first = browser.new_context()
    login = first.new_page()
    login.goto(link)
    login.wait_for_selector("h1:has-text('Overview')")
    state = first.storage_state()
    first.close()
    address = link.partition("#")[0]
    pages = []
    for target in TABS * 2:
        page = browser.new_context(storage_state=state).new_page()
        page.goto(f"{address}#/{target}")
        page.wait_for_selector("h1")
        pages.append(page)
    return pages


def _settle(pages: list[Any]) -> None:
    """Wait until the pages have read what was announced."""
    time.sleep(1)
    for page in pages:
        page.wait_for_timeout(300)


def _heap(page: Any) -> int:
    """Return the bytes of the scripts of a page that are in use."""
    session = page.context.new_cdp_session(page)
    for _ in range(2):
        session.send("HeapProfiler.collectGarbage")
    used: int = session.send("Runtime.getHeapUsage")["usedSize"]
    session.detach()
    return used
