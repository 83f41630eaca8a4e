"""``holdfast db copy``: all that a database holds moves to another one."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest

from holdfast import Engine


@pytest.fixture
def target(tmp_path):
    return tmp_path / "target.db"


def test_it_copies_and_shows_both_sides(call, database, target):
    run_id = call.start("shop.py:parcel", '"x"')

    said = call.text("db", "copy", database, target)

    assert "1 run copied; SOURCE and TARGET are the same" in said
    assert ["pending", "1", "1"] in [line.split() for line in said.splitlines()]
    assert call.json("show", run_id, "--db", target)["status"] == "pending"
    assert call.run("shop.py:parcel", '"y"', "--db", target) == "packed y"
    assert call.json("show", run_id, "--db", target)["result"] == "packed x"


def test_it_copies_to_postgres_and_back(call, database, target, postgres_server):
    call.run("shop.py:family", '["a", "b"]')

    with postgres_server.lend() as url:
        there = call.json("db", "copy", database, url)
        back = call.json("db", "copy", url, target)

    assert there["same"] and back["same"]
    assert there["source"] == back["target"]
    assert there["source"]["runs"] == {"completed": 4}


def test_no_password_is_shown(call, database, postgres_server):
    call.start("shop.py:parcel", '"x"')

    with postgres_server.lend() as url:
        secret = url.replace("user=postgres", "user=postgres&password=hunter2")
        said = [call("db", "copy", database, secret)]
        said += [
            call("db", "copy", database, secret, code=1),
            call("db", "copy", secret, secret, code=2),
        ]
    said += [call("db", "copy", "mysql://me:hunter2@there/x?password=hunter2", database, code=2)]

    assert [result.output for result in said if "hunter2" in result.output] == []
    assert "its runs continue in another one" in said[1].stderr


def test_the_source_is_sealed_until_it_is_unsealed(call, database, target):
    run_id = call.start("shop.py:parcel", '"x"')
    call("db", "copy", database, target)

    for words in (
        ["runs"],
        ["run", "shop.py:parcel", '"y"'],
        ["worker", "shop.py"],
        ["db", "copy", database, target],
    ):
        error = call.error(*words)
        assert "its runs continue in another one" in error
        assert "target.db" in error

    assert "no longer sealed" in call.text("db", "unseal")
    assert call.json("db", "unseal") == {"unsealed": False, "other": None}
    assert "not sealed" in call.text("db", "unseal")
    assert call.json("show", run_id)["status"] == "pending"


def test_while_somebody_works_there_it_is_refused(call, database, target):
    with Engine(database):
        error = call.error("db", "copy", database, target)

    assert "A worker is using this database" in error
    assert "pid=" in error and "host=" in error
    assert not target.exists()


def test_a_target_with_runs_is_refused(call, database, target):
    call.start("shop.py:parcel", '"x"')
    call.start("shop.py:parcel", '"y"', "--db", target)

    assert "This database has runs already: copy into a new one. " in call.error(
        "db", "copy", database, target
    )


def test_a_half_copied_target_is_refused_until_the_copy_is_repeated(call, database, target):
    call.start("shop.py:parcel", '"x"')
    Engine(target).close()
    with closing(sqlite3.connect(target)) as db, db:
        db.execute("INSERT INTO holdfast_setting VALUES ('half_copied', '1')")

    for words in (
        ["runs", "--db", target],
        ["db", "copy", target, database],
        ["run", "shop.py:parcel", '"x"', "--db", target],
    ):
        assert "A copy into this database was not finished: repeat `holdfast db copy" in call.error(
            *words
        )

    call("db", "copy", database, target)
    assert len(call.json("runs", "--db", target)["items"]) == 1


def test_a_database_with_another_codec_is_copied_as_it_is(call, database, target):
    call.start("shop.py:parcel", '"x"')
    with closing(sqlite3.connect(database)) as db, db:
        db.execute("UPDATE holdfast_setting SET value = 'sealed' WHERE name = 'codec'")

    assert call.json("db", "copy", database, target)["same"]

    assert "stored='sealed'" in call.error("runs", "--db", target)


@pytest.mark.parametrize("spelled", ["{}", "sqlite:///{}", "{}/../test.db"])
def test_source_and_target_must_differ(call, database, spelled):
    call.start("shop.py:parcel", '"x"')
    (database.parent / "folder").mkdir()
    other = spelled.format(database if ".." not in spelled else database.parent / "folder")

    assert "SOURCE and TARGET are the same database" in call.error(
        "db", "copy", database, other, code=2
    )


def test_a_source_that_is_not_there_is_said_and_nothing_is_made(call, tmp_path, target):
    assert "there is no database" in call.error("db", "copy", tmp_path / "none.db", target)
    assert list(tmp_path.glob("*.db")) == []


def test_what_is_no_database_is_said(call, database, target, tmp_path):
    call.start("shop.py:parcel", '"x"')
    (tmp_path / "text.db").write_text("no database at all" * 100)

    assert "Holdfast does not understand this database URL" in call.error(
        "db", "copy", database, "mysql://there/x", code=2
    )
    assert "not a sound database" in call.error("db", "copy", tmp_path / "text.db", target)
    call("db", "copy", database, code=2)


def test_a_terminal_sees_how_far_it_has_come(call, database, target, terminal):
    call.start("shop.py:parcel", '"x"')

    assert "SOURCE and TARGET are the same" in terminal("db", "copy", str(database), str(target))
