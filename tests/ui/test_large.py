"""Long lists and long runs: the document and the requests stay small."""

from __future__ import annotations

import sqlite3
from itertools import pairwise
from urllib.parse import unquote

from holdfast import Graph
from holdfast.views.text import TIMES

ROWS = 10_000
MOST_ROWS = 130
"""The rows of a list that may be in the document at once."""

COPIES = """
INSERT INTO holdfast_{table} ({columns})
WITH RECURSIVE number (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM number WHERE n < {rows})
SELECT {values} FROM holdfast_{table}, number WHERE {key} = ?
"""
SPREAD = {"id": "printf('copy-%05d', n)", "name": "printf('copy-%05d', n)"}


def copy(site, table, key, original, rows=ROWS):
    """Insert copies of a row by SQL; the newest has the highest number."""
    with sqlite3.connect(site.path) as db:
        columns = [row[1] for row in db.execute(f"PRAGMA table_info(holdfast_{table})")]
        values = {name: name for name in columns} | {key: SPREAD[key]}
        if "created_at" in values:
            values["created_at"] = "created_at + n"
        sql = COPIES.format(
            table=table,
            columns=", ".join(columns),
            values=", ".join(values.values()),
            key=key,
            rows=rows,
        )
        db.execute(sql, [original])
    db.close()


def fill(site):
    """Fill the lists of the six screens."""
    engine = site.engine
    engine.start("pack", "a", id="original").result(timeout="20s")
    copy(site, "run", "id", "original")
    engine.start("checkout", "a", id="asks")
    site.page.open("inbox")
    site.page.see("What will be done")
    engine.schedules.set("nightly", "pack", cron="0 3 * * *", args=["a"])
    engine.schedules.pause("nightly")
    engine.lanes.set("slow", concurrency=2)
    (gate,) = engine.gates.list()
    copy(site, "gate", "id", gate.id)
    copy(site, "schedule", "name", "nightly")
    copy(site, "lane", "name", "slow")
    with sqlite3.connect(site.path) as db:
        db.execute("UPDATE holdfast_gate SET deadline = opened_at + 1 WHERE id > 'copy'")
    db.close()


TITLES = {
    "inbox": "Inbox",
    "attention": "Needs a person",
    "lanes": "Lanes and workers",
    "schedules": "Schedules",
}


def scroll_to_end(page):
    page.tab.evaluate("window.scrollTo(0, document.documentElement.scrollHeight)")


def test_ten_thousand_rows_scroll_with_few_of_them_in_the_document(own_site):
    site = own_site
    fill(site)
    page = site.page
    page.open("runs?id_prefix=copy")
    page.see("copy-10000")
    page.requests.clear()
    most = 0
    while page.tab.get_by_role("button", name="Show more").count():
        scroll_to_end(page)
        page.tab.wait_for_timeout(20)
        most = max(most, page.count("main tbody tr"))
    scroll_to_end(page)
    page.see("copy-00001")

    assert most < MOST_ROWS
    assert page.count("main tbody tr") < MOST_ROWS
    # Without a cursor, the first rows are read again after a change.
    assert sum("cursor=" in url for url in page.asked("/api/v1/runs?")) <= ROWS / 500
    assert page.tab.get_by_role("table", name="Runs").get_attribute("aria-rowcount") == str(
        ROWS + 1
    )
    page.tab.evaluate("window.scrollTo(0, 0)")
    page.see("copy-10000")
    assert page.errors == []

    # Keys move through rows that are not in the document, and a change reads the first rows only.
    for _ in range(3):
        page.tab.keyboard.press("j")
    page.tab.keyboard.press("Enter")
    page.see("copy-09998")
    for screen in ("inbox", "attention", "lanes", "schedules"):
        page.open(screen)
        rows = f"h1:has-text('{TITLES[screen]}') >> xpath=../.. >> css=[data-row]"
        page.tab.locator(rows).nth(5).wait_for(timeout=60_000)  # tall rows: few fit the window
        scroll_to_end(page)
        page.tab.wait_for_timeout(50)
        assert page.count("main [data-row]") < MOST_ROWS, screen
    # The address names a schedule that is on none of the pages that were read.
    page.open("schedules?name=copy-10000")
    page.tab.get_by_role("heading", name="copy-10000").wait_for()
    assert page.errors == []


def test_a_large_graph_begins_at_a_scale_that_can_be_read(site):
    graph = Graph()
    members = [graph.add("paid", str(number), name=f"m{number}") for number in range(400)]
    for earlier, later in pairwise(members):
        if later.name[-1] != "0":
            later.after(earlier)
    site.engine.graphs.start(graph, id="wide")
    page = site.page
    page.open("graph/wide")
    page.see("not started")
    drawn = page.tab.locator("svg.diagram")
    scale = """(svg) => svg.getBoundingClientRect().width / svg.viewBox.baseVal.width"""

    assert drawn.evaluate(scale) > 0.55
    assert page.tab.get_by_role("link", name="wide::m1", exact=True).count() == 0
    page.press("fit")
    page.tab.wait_for_function(
        "() => document.querySelector('svg.diagram').viewBox.baseVal.height > 2000"
    )
    assert page.errors == []


def test_a_change_keeps_the_rows_that_were_read(site):
    for number in range(70):
        site.engine.start("nowhere", number, id=f"row-{number:02}")
    page = site.page
    page.open("runs?id_prefix=row")
    page.see("row-69")
    page.tab.wait_for_function(
        """() => document.querySelector('a[href$="row-00"]')
             || (window.scrollTo(0, document.documentElement.scrollHeight), false)"""
    )

    site.engine.cancel("row-00", reason="enough")

    page.see("enough")
    assert page.errors == []


def test_a_run_of_many_steps_opens_with_as_many_requests_as_a_small_one(site):
    page = site.page
    for steps in (20, 2000):
        site.engine.start("count", steps, id=f"count-{steps}").result(timeout="60s")
    page.press("pause")  # a late event of the run would let the page read everything again
    loaded = {}
    for steps in (20, 2000):
        page.open("overview")
        page.see("Workers alive")
        page.requests.clear()
        with page.tab.expect_response(f"**/runs/count-{steps}/output?*"):  # the last one
            page.open(f"run/count-{steps}")
        page.see(f"reserve {TIMES}{steps}")
        answers = [
            request.response()
            for request in page.requests
            if f"runs/count-{steps}" in request.url and "output/stream" not in request.url
        ]
        sizes = [len(answer.body()) for answer in answers if answer is not None]
        loaded[steps] = (len(sizes), sum(sizes))
    page.press("go live")

    assert loaded[2000][0] <= loaded[20][0] + 2
    assert loaded[2000][1] <= loaded[20][1] + 200_000


def test_an_unfolded_loop_shows_the_rows_in_sight(site):
    site.engine.start("count", 700, id="count-700").result(timeout="60s")
    page = site.page
    page.open("run/count-700")

    page.press(f"▸ reserve {TIMES}700")
    page.see("reserve#9")
    scroll_to_end(page)
    page.press("▸ show more")
    page.tab.wait_for_function(
        "() => document.querySelector('.timeline').getBoundingClientRect().height > 15000"
    )

    assert page.count(".timeline .line") < MOST_ROWS
    assert "open=" in unquote(page.tab.url)
    assert page.errors == []


def test_the_history_is_read_to_its_end(site):
    site.engine.start("count", 150, id="count-150").result(timeout="60s")
    page = site.page
    page.open("run/count-150?history=1")
    page.see("reserve#9")

    page.tab.wait_for_function(
        """() => document.querySelector('table[aria-label=History]').innerText
             .includes('run completed')
           || (window.scrollTo(0, document.documentElement.scrollHeight), false)"""
    )
