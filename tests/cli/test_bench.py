"""``holdfast bench``: figures of your own disk or server, and nothing left behind."""

from __future__ import annotations

import json
import os

from holdfast import Engine

FIGURES = {
    "commits_per_s",
    "steps_per_s",
    "steps_to_commits",
    "cpu_ms_per_step",
    "runs_per_s",
    "cpu_ms_per_run",
    "signal_p50_ms",
    "signal_p99_ms",
    "first_run_ms",
}


def test_it_measures_the_disk_of_a_database_and_leaves_it_as_it_was(execute, tmp_path):
    database = tmp_path / "orders.db"
    Engine(database).close()
    before = sorted(os.listdir(tmp_path)), database.read_bytes()

    done = execute("--db", str(database), "bench", "--seconds", "0.2", "--json", cwd=tmp_path)

    data = json.loads(done.stdout)
    assert (done.returncode, done.stderr) == (0, "")
    assert data.pop("database") == str(database)
    assert data.keys() == FIGURES
    assert all(value > 0 for value in data.values())
    assert (sorted(os.listdir(tmp_path)), database.read_bytes()) == before


def test_it_measures_where_no_database_is_yet_and_makes_none(execute, tmp_path):
    done = execute("bench", "--seconds", "0.2", cwd=tmp_path, env={"HOLDFAST_DB": "new.db"})

    assert done.returncode == 0, done.stderr
    assert "steps in sequence" in done.stdout
    assert os.listdir(tmp_path) == []


def test_it_says_in_one_line_that_it_cannot_write_there(execute, tmp_path):
    done = execute("--db", str(tmp_path / "no" / "such" / "folder.db"), "bench", cwd=tmp_path)

    assert done.returncode == 1
    assert done.stderr.count("\n") == 1 and "is not writable" in done.stderr


def test_on_a_server_it_measures_in_a_database_of_its_own_and_drops_it(
    execute, tmp_path, postgres_server
):
    url = postgres_server.new_store()
    databases = postgres_server.execute("SELECT datname FROM pg_database ORDER BY 1")

    done = execute("--db", url, "bench", "--seconds", "0.2", "--json", cwd=tmp_path)

    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout).keys() == {"database", *FIGURES}
    assert postgres_server.execute("SELECT datname FROM pg_database ORDER BY 1") == databases
    assert postgres_server.execute("SELECT count(*) FROM holdfast.run", url) == [(0,)]
