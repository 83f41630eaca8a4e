"""The web UI beside a million finished runs, by the requests that its screens send: the size of the
first screen, each list against the newest 50 runs, and the page of a run of 20,000 steps against
that of 20. With a browser, also the time in which a list of 200 rows follows its data, and the
memory of ten pages that follow 10,000 events."""

from __future__ import annotations

import asyncio
import importlib.util
import re
import shutil
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench import tabs
from bench.place import Place, wait_until
from bench.scenario import Scenario, Target
from bench.scenarios.lists import _insert

SCENARIO = Scenario(
    "ui",
    "the web UI beside finished runs",
    "worst_list",
    "times the newest 50",
    rounds=1,
    timeout=900,
    size={"n": 1_000_000, "live": 200, "turns": 25, "steps": 20_000, "few": 20, "events": 10_000},
    targets=tuple(
        target
        for store in ("sqlite", "postgres")
        for target in (
            Target(store, "worst_list", 3, at_most=True),
            Target(store, "first_screen_requests", 40, at_most=True),
            Target(store, "first_screen_bytes", 150_000, at_most=True),
            Target(store, "long_run_more_bytes", 200_000, at_most=True),
            Target(store, "rows_ms", 10, at_most=True),
            Target(store, "tabs_memory", 1.2, at_most=True),
        )
    ),
)

LISTS = {
    "failed": "status=failed",
    "waiting": "status=waiting",
    "running": "status=running",
    "completed": "status=completed",
    "workflow": "workflow=job",
    "workflow_failed": "workflow=steps&status=failed",
    "lane": "lane=slow",
    "id_prefix": "id_prefix=b000000100",
    "since": "since=1h",
    "parent": "parent_id=template",
}
"""The queries of the list of runs, as its filters send them."""

RUN_PAGE = (
    "",
    "/why",
    "/timeline?limit=100",
    "/diagram",
    "/usage",
    "/streams",
    "/output?limit=500",
)
"""The requests of the page of a run."""

ROWS = """async (size) => {
  const { show, tags } = await import(new URL('VERSION/lib/view.js', location.href))
  const place = document.createElement('table')
  document.body.append(place)
  const rows = (turn) => Array.from({ length: size }, (_, index) => tags.tr({ key: `r${index}` },
    ['a', 'b', 'c', 'd', 'e', 'f'].map((name) => tags.td(`${name} ${index} ${turn}`))))
  show(place, tags.tbody(rows(0)))
  const times = []
  for (let turn = 1; turn <= 20; turn += 1) {
    const next = tags.tbody(rows(turn))
    const begun = performance.now()
    show(place, next)
    times.push(performance.now() - begun)
  }
  return times.sort((a, b) => a - b)[10]
}"""


def holdfast(place: Place) -> dict[str, float]:
    from bench.peers import ours
    from bench.peers import raw as driver
    from holdfast import Engine

    with Engine(place.url) as engine:
        engine.start(ours.job, 1, id="template").result()
        engine.start(ours.steps, 1, lane="slow").result()
        for name, steps in (("short", place.few), ("long", place.steps)):
            engine.start(ours.steps, steps, id=name).result()
    _insert(place)
    driver.settle(place)
    with Engine(place.url, name="lister") as engine:
        engine.start_many(ours.listener, [1] * place.live)
        wait_until(engine.runs(status="waiting").count, place.live)
        figures = _requests(place, engine)
    return figures | _first_screen() | _browser(place)


def _requests(place: Place, engine: Any) -> dict[str, float]:
    """Return the figures of the requests that the screens send to a server."""
    from holdfast import AsyncEngine, server

    key = engine.api_keys.add("bench", roles=["admin"]).api_key

    async def measure() -> dict[str, float]:
        import httpx

        async with AsyncEngine(place.url, work=False) as served:
            transport = httpx.ASGITransport(app=server.app(served))
            async with httpx.AsyncClient(
                transport=transport,
                base_url="http://localhost/api/v1/",
                headers={"Authorization": f"Bearer {key}"},
            ) as client:
                return await _lists(client, place.turns) | await _runs(client)

    return asyncio.run(measure())


async def _get(client: Any, path: str) -> tuple[float, int]:
    """Return how long a request takes, and the bytes of its answer."""
    began = time.perf_counter()
    answer = await client.get(path)
    answer.raise_for_status()
    return time.perf_counter() - began, len(answer.content)


async def _lists(client: Any, turns: int) -> dict[str, float]:
    """Return the ratio of each list to the newest 50 in turn, so that both see the same machine."""
    ratios: dict[str, list[float]] = {}
    newest_times = []
    for turn in range(turns + 1):
        for name, query in LISTS.items():
            newest, _ = await _get(client, "runs?limit=50")
            taken, _ = await _get(client, f"runs?limit=50&{query}")
            if turn:
                newest_times.append(newest)
                ratios.setdefault(name, []).append(taken / newest)
    figures = {f"ratio_{name}": statistics.median(values) for name, values in ratios.items()}
    overview = [(await _get(client, "overview"))[0] for _ in range(turns)]
    return figures | {
        "worst_list": max(figures.values()),
        "newest_50_ms": statistics.median(newest_times) * 1e3,
        "overview_ms": statistics.median(overview) * 1e3,
    }


async def _runs(client: Any) -> dict[str, float]:
    """Return what the page of a long run costs more than that of a short one."""
    sizes = {}
    figures = {}
    for name in ("short", "long"):
        answers = [await _get(client, f"runs/{name}{part}") for part in RUN_PAGE]
        again = [await _get(client, f"runs/{name}{part}") for part in RUN_PAGE]
        sizes[name] = sum(size for _, size in answers)
        figures[f"{name}_run_ms"] = sum(seconds for seconds, _ in answers) * 1e3
        figures[f"{name}_run_again_ms"] = sum(seconds for seconds, _ in again) * 1e3
    return figures | {"long_run_more_bytes": sizes["long"] - sizes["short"]}


def _first_screen() -> dict[str, float]:
    """Return the files that the first screen loads, and their bytes, by following the imports."""
    import holdfast.server

    folder = Path(holdfast.server.__file__).parent / "ui"
    files = {folder / "index.html", folder / "app.css", folder / "icon.svg"}
    waiting = [folder / "app.js", folder / "screens" / "overview.js"]
    while waiting:
        script = waiting.pop()
        if script not in files:
            files.add(script)
            names = re.findall(r"^(?:import|export) .*?from '([^']+)'", script.read_text(), re.M)
            waiting += [(script.parent / name).resolve() for name in names]
    # The data of the first screen: the caller, the overview, the stream of events.
    size = sum(path.stat().st_size for path in files)
    return {"first_screen_requests": len(files) + 3, "first_screen_bytes": size}


def _browser(place: Place) -> dict[str, float]:
    """Return how long a list of 200 rows takes to follow its data; nothing without a browser."""
    chromium = shutil.which("chromium")
    if importlib.util.find_spec("playwright") is None or chromium is None:
        return {}
    from playwright.sync_api import sync_playwright

    from holdfast.server import static

    files: Callable[[str], str] = lambda name: (static.UI / name).read_text("utf-8")  # noqa: E731
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page()
        page.route("**/*", lambda route: _serve(route, files))
        page.goto("http://localhost/")
        figure = page.evaluate(ROWS.replace("VERSION", "v"), 200)
        browser.close()
        figures = {"rows_ms": float(figure)}
        if place.events:
            figures |= tabs.memory(place, driver, chromium)
        return figures


def _serve(route: Any, files: Callable[[str], str]) -> None:
    """Answer a request of the page with a file of the UI, or an empty page."""
    path = route.request.url.partition("localhost/")[2].removeprefix("v/")
    if path.endswith(".js"):
        route.fulfill(body=files(path), content_type="text/javascript")
    else:
        route.fulfill(body="<!doctype html><title>bench</title>", content_type="text/html")
