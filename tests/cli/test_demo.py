"""``holdfast demo``: what a newcomer sees first."""

from __future__ import annotations

import os
import re
import resource
import shutil


def test_it_shows_a_run_that_survives_kill_9_and_cleans_up(execute, tmp_path):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)

    done = execute("demo", cwd=tmp_path, env={"TMPDIR": str(tmp_path)})

    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert (
        after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 20
    )  # however slow the machine: it does little
    first, second = re.split(r"\$ kill -9 \d+", done.stdout)
    assert "reserve:" in first and "charge:" in first and "pack:" in first
    assert "reserve:" not in second and "charge: take" not in second
    assert "ship:" in second and "notify:" in second
    assert re.search(r"status +completed after", second)
    assert "it completed with" in second
    assert "\x1b[" not in done.stdout
    assert os.listdir(tmp_path) == []


def test_it_keeps_its_folder_when_asked_to(execute, tmp_path):
    done = execute("demo", "--keep", cwd=tmp_path, env={"TMPDIR": str(tmp_path)})

    folder = re.search(r"cd (\S+) && holdfast show last", done.stdout)[1]
    shown = execute("show", "last", "--json", env={"HOLDFAST_DB": f"{folder}/holdfast.db"})
    assert '"status": "completed"' in shown.stdout
    shutil.rmtree(folder)


def test_on_a_terminal_it_looks_good_and_ends_with_the_web_ui(terminal):
    shown = terminal("demo", "--no-open", until="#login=")

    assert "\x1b[1m" in shown
    assert "kill -9" in shown
    assert "to=run/" in shown


def test_the_ui_of_a_database_opens_at_a_run(terminal, execute):
    execute("run", "shop.py:parcel", '"a"', "--id", "one")

    shown = terminal("ui", "one", "--no-open", until="#login=")

    assert "to=run/one" in shown
