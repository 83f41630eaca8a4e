"""Lists beside a million finished runs: each filter against the newest 50 runs, and the commands
that count them. The finished runs are written by SQL, with the rows that the filters read."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

from bench.place import Place, check, wait_until
from bench.scenario import Scenario, Target

SCENARIO = Scenario(
    "lists",
    "lists beside finished runs",
    "worst",
    "times the newest 50",
    rounds=1,
    timeout=900,
    size={"n": 1_000_000, "live": 200, "turns": 25},
    targets=tuple(
        target
        for store in ("sqlite", "postgres")
        for target in (
            Target(store, "worst", 3, at_most=True),
            Target(store, "doctor_seconds", 1, at_most=True),
            Target(store, "prune_dry_run_seconds", 1, at_most=True),
        )
    ),
)

RUNS = """INSERT INTO holdfast.run (id, route_id, status, priority, generation, input, result, key,
                          parent_id, parent_step, parent_index, root_id, share,
                          created_at, started_at, finished_at)
SELECT {id}, CASE WHEN i % 3 = 0 THEN {second} ELSE {first} END,
       CASE i % 50 WHEN 0 THEN 'failed' WHEN 1 THEN 'cancelled' ELSE 'completed' END, 0, 1,
       template.input, CASE WHEN i % 50 > 1 THEN template.result END,
       CASE WHEN i % 4 = 0 THEN {key} END,
       CASE WHEN i % 5 = 0 THEN template.id END, CASE WHEN i % 5 = 0 THEN 'job#' || i END,
       CASE WHEN i % 5 = 0 THEN 0 END, CASE WHEN i % 5 = 0 THEN template.id END,
       CASE WHEN i % 10 = 0 THEN 's' || (i % 100) END,
       template.created_at - 1000 * i, template.created_at - 1000 * i,
       template.created_at - 1000 * i + 500
  FROM holdfast.run AS template, {numbers}
 WHERE template.id = 'template'"""

TAGS = """INSERT INTO holdfast.tag (name, value, run_id, created_at)
SELECT '{name}', 'v' || (i % {every}), {id}, template.created_at - 1000 * i
  FROM holdfast.run AS template, {numbers}
 WHERE template.id = 'template' AND i % 2 = 0"""


def holdfast(place: Place) -> dict[str, float]:
    from bench.peers import ours
    from bench.peers import raw as driver
    from holdfast import Engine

    with Engine(place.url) as engine:
        engine.start(ours.job, 1, id="template").result()
        engine.start(ours.steps, 1, lane="slow").result()
    _insert(place)
    driver.settle(place)
    figures: dict[str, float] = {}
    with Engine(place.url, name="lister") as engine:
        engine.start_many(ours.listener, [1] * place.live)
        waiting = engine.runs(status="waiting")
        wait_until(waiting.count, place.live)
        for name, times in _timed(engine, place.turns).items():
            figures[name] = times
        check(engine.runs(status="failed").count(), place.n // 50)
    # Without a worker, which would apply the rule.
    with Engine(place.url, work=False) as engine:
        engine.retention.set("bench", older_than="1s")
        figures["preview_seconds"] = _seconds(engine.retention.preview)
        engine.retention.remove("bench")
    figures["worst"] = max(value for name, value in figures.items() if name.startswith("ratio_"))
    for name, command in (
        ("doctor", ("doctor",)),
        ("prune_dry_run", ("db", "prune", "--older-than", "1s", "--dry-run")),
    ):
        figures[f"{name}_seconds"] = _seconds(lambda command=command: _command(place, *command))
    return figures


def filters() -> dict[str, dict[str, Any]]:
    """Return every filter of a list, by the name of its figure."""
    return {
        "failed": {"status": "failed"},
        "completed": {"status": "completed"},
        "waiting": {"status": "waiting"},
        "running": {"status": "running"},
        "live": {"live": True},
        "workflow": {"workflow": "job"},
        "workflow_failed": {"workflow": "steps", "status": "failed"},
        "version": {"version": "1"},
        "lane": {"lane": "slow"},
        "namespace": {"namespace": "default"},
        "share": {"share": "s10"},
        "tag": {"tags": {"colour": "v2"}},
        "two_tags": {"tags": {"colour": "v2", "size": "v6"}},
        "key": {"key": "k8"},
        "id_prefix": {"id_prefix": "b000000100"},
        "worker": {"worker": "lister"},
        "since": {"since": "1h"},
        "until": {"until": "1m"},
        "parent": {"parent_id": "template"},
        "roots": {"roots": True},
    }


def _timed(engine: Any, turns: int) -> dict[str, float]:
    """Return for each filter the ratio of its time to that of the newest 50, in turn, so that both
    see the same machine."""
    ratios: dict[str, list[float]] = {}
    newest_times = []
    for turn in range(turns + 1):
        for name, which in filters().items():
            newest = _seconds(lambda: engine.runs().page(limit=50))
            taken = _seconds(lambda which=which: engine.runs(**which).page(limit=50))
            if turn:
                newest_times.append(newest)
                ratios.setdefault(name, []).append(taken / newest)
    figures = {f"ratio_{name}": statistics.median(values) for name, values in ratios.items()}
    return figures | {"newest_50_ms": statistics.median(newest_times) * 1e3}


def _insert(place: Place) -> None:
    from bench.peers import ours

    db = ours.connect(place)
    is_postgres = place.store == "postgres"
    routes = db.execute(ours.spelled(place, "SELECT id FROM holdfast.route ORDER BY id")).fetchall()
    key = "SELECT namespace, workflow FROM holdfast.route WHERE id = " + str(routes[0][0])
    namespace, workflow = db.execute(ours.spelled(place, key)).fetchone()
    line = "chr(10)" if is_postgres else "char(10)"
    numbers = (
        f"generate_series(1, {place.n}) AS n(i)"
        if is_postgres
        else f"(WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {place.n})"
        " SELECT i FROM n) AS n"
    )
    run_id = "'b' || lpad(i::text, 12, '0')" if is_postgres else "printf('b%012d', i)"
    parts = {
        "id": run_id,
        "numbers": numbers,
        "first": routes[0][0],
        "second": routes[1][0],
        "key": f"'{namespace}' || {line} || '{workflow}' || {line} || 'k' || i",
    }
    db.execute("BEGIN")
    db.execute(ours.spelled(place, RUNS.format(**parts)))
    for name, every in (("colour", 10), ("size", 14)):
        db.execute(ours.spelled(place, TAGS.format(name=name, every=every, **parts)))
    db.execute("COMMIT")
    db.close()


def _command(place: Place, *arguments: str) -> None:
    subprocess.run(
        [sys.executable, "-m", "holdfast", "--db", place.url, *arguments, "--json"],
        check=True,
        capture_output=True,
    )


def _seconds(call: Callable[[], Any]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began
