"""The pictures of the documentation, made from real pages. ``make pictures`` writes them again."""

from __future__ import annotations

import os
import shutil
import signal
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast import Engine
from tests.server.clients import ServeProcess
from tests.ui.conftest import SHOP

ROOT = Path(__file__).parents[2]
IMAGES = ROOT / "docs" / "images"
SIZE = (1280, 800)


def size_of(picture: bytes) -> tuple[int, int]:
    """Return the width and height of a PNG."""
    assert picture[:8] == b"\x89PNG\r\n\x1a\n"
    return struct.unpack(">II", picture[16:24])


def keep(page, name: str) -> None:
    """Compare the size of a page with its picture; with ``HOLDFAST_PICTURES``, replace it."""
    picture = page.tab.screenshot()
    if os.environ.get("HOLDFAST_PICTURES"):
        IMAGES.mkdir(exist_ok=True)
        (IMAGES / name).write_bytes(picture)
    assert size_of(picture) == size_of((IMAGES / name).read_bytes()) == SIZE


@pytest.fixture
def demo(tmp_path):
    """The database of ``holdfast demo``: a run whose worker was killed."""
    printed = subprocess.run(
        [sys.executable, "-m", "holdfast", "demo", "--keep"],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    folder = Path(printed.stdout.split("cd ")[1].split(" &&")[0])
    yield folder / "holdfast.db"
    shutil.rmtree(folder)


def test_the_page_of_a_run_marks_the_crash(demo, browser):
    with Engine(demo, work=False) as engine:
        (run,) = engine.runs(workflow="fulfil")
    with ServeProcess(demo) as server, browser.page(server) as page:
        page.open(f"run/{run.id}")
        page.see("worker lost")
        page.see("notify")

        keep(page, "run.png")
        assert page.errors == []
        server.process.send_signal(signal.SIGTERM)


def test_the_list_of_runs_says_what_holds_each_up(tmp_path, browser):
    database = str(tmp_path / "shop.db")
    with (
        ServeProcess(database, "--worker", str(SHOP)) as server,
        Engine(database, work=False) as engine,
        browser.page(server) as page,
    ):
        engine.start("checkout", "order-7", id="order-7").wait_until("waiting", timeout="20s")
        engine.start("refuse", "order-8", id="order-8").wait_until("failed", timeout="20s")
        engine.start("paid", "order-9", id="order-9").wait_until("waiting", timeout="20s")
        engine.start("checkout", "order-6", False, id="order-6").result(timeout="20s")
        engine.start("render", "order-5", id="order-5")
        page.open("runs")
        page.see("decision “Ship it?”")
        page.see("card expired")
        page.see("no live worker serves")
        page.tab.wait_for_selector(".tabs .count >> nth=1")

        keep(page, "runs.png")
