"""A headless browser, and pages that remember what went wrong in them."""

from __future__ import annotations

import shutil
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

ARGUMENTS = [
    "--no-sandbox",  # tests may run as root
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]
PATIENCE = 60_000
"""Milliseconds after which a wait fails. Long, because a wait that succeeds ends at once."""


class Browser:
    """Chromium without a window."""

    def __enter__(self):
        from playwright.sync_api import sync_playwright

        self._logins = {}
        """The cookies of the pages that have logged in, by server."""
        self._driver = sync_playwright().start()
        self._browser = self._driver.chromium.launch(
            executable_path=shutil.which("chromium"), args=ARGUMENTS
        )
        return self

    def __exit__(self, *_):
        self._browser.close()
        self._driver.stop()

    @contextmanager
    def page(self, server, *, log_in=True, **options):
        """Open a page of a server, logged in by its one-time link."""
        options = {"viewport": {"width": 1280, "height": 800}, **options}
        if log_in and server in self._logins:
            options["storage_state"] = self._logins[server]  # a link logs in once
        context = self._browser.new_context(**options)
        context.set_default_timeout(PATIENCE)
        page = Page(context.new_page(), server.url)
        try:
            if log_in:
                link = "/overview" if server in self._logins else f"login={server.link}"
                page.tab.goto(f"{server.url}#{link}")
                page.tab.wait_for_selector("nav[aria-label=Screens] >> text=Runs")
                page.tab.wait_for_selector("h1:has-text('Overview')")
                self._logins[server] = context.storage_state()
            yield page
        finally:
            context.close()


class Page:
    """A page, its errors, and the addresses that it has asked for."""

    def __init__(self, tab: Any, url: str) -> None:
        self.tab = tab
        self.url = url
        self.errors: list[str] = []
        self.requests: list[Any] = []
        tab.on("pageerror", lambda error: self.errors.append(str(error)))
        tab.on("request", lambda request: self.requests.append(request))

    def open(self, address: str) -> None:
        """Go to an address of the UI, such as ``runs?status=failed``."""
        self.tab.goto(f"{self.url}#/{address}")

    def see(self, text: str) -> None:
        """Wait until a text is visible; the page may have it in hidden elements, too."""
        self.tab.locator(f"text={text} >> visible=true").first.wait_for()

    def press(self, name: str, **options: Any) -> None:
        """Press a button or a link by its name."""
        self.tab.get_by_role("button", name=name, exact=True, **options).first.click()

    def fit(self) -> None:
        """Wait until the page is not wider than its window; parts of it follow a new size in the
        next frame."""
        self.tab.wait_for_function(
            "document.documentElement.scrollWidth <= document.documentElement.clientWidth"
        )

    def see_screen(self, title: str) -> None:
        """Wait until the screen with this heading is open: the one before stays until then."""
        self.tab.locator("main h1", has_text=title).first.wait_for()

    def violations(self, *rules: str) -> list[tuple[str, str]]:
        """Return what axe finds on the page, which has to be loaded before; with *rules*, only
        what breaks these."""
        only = {"runOnly": list(rules)} if rules else {}
        report = self.tab.evaluate("(options) => axe.run(options)", only)
        return [(rule["id"], rule["nodes"][0]["html"][:160]) for rule in report["violations"]]

    def count(self, selector: str) -> int:
        """Return the number of elements in the document."""
        return int(self.tab.evaluate(f"document.querySelectorAll({selector!r}).length"))

    def asked(self, part: str) -> list[str]:
        """Return the addresses that the page has asked for and that contain a text."""
        return [request.url for request in self.requests if part in request.url]


@dataclass
class Site:
    """A page, the server behind it, and an engine on its database."""

    page: Page
    server: Any
    engine: Any
    path: str = ""
