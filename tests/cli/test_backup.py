"""``db backup``: a copy while workers run, that continues nowhere until it is unsealed."""

from __future__ import annotations

import errno
import os
import stat

import pytest

from holdfast import Engine, step, wait_signal, workflow
from holdfast.connect import backup as backups
from holdfast.errors import BadOption, NamespaceBound, StoreFull, StoreSealed


@step
def note(number: int) -> int:
    return number


@workflow(name="backed.up")
async def steady(number: int) -> int:
    first = await note(number)
    return first + await wait_signal("go")


def test_a_backup_is_one_private_file_that_can_be_read_and_not_written(call, tmp_path):
    run = call.start("shop.py:listener")
    copy = tmp_path / "copy.db"

    report = call.json("db", "backup", copy)

    assert (report["path"], report["runs"], report["broken"]) == (str(copy), 1, [])
    assert report["bytes"] == copy.stat().st_size
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    assert {name for name in os.listdir(tmp_path) if name.startswith("copy")} == {"copy.db"}
    assert call.json("--db", copy, "show", run)["status"] == "pending"
    assert "accepts no writes" in call.error("--db", copy, "signal", run, "paid")


def test_an_existing_file_is_replaced_only_after_confirmation(call, tmp_path):
    call.start("shop.py:listener")
    copy = tmp_path / "copy.db"
    copy.write_text("precious")

    assert "use --yes" in call.error("db", "backup", copy, code=2)
    assert copy.read_text() == "precious"

    assert "1 runs" in call.text("db", "backup", copy, "--yes")


@pytest.mark.parametrize(("name", "code"), [("test.db", 2), ("no/such/folder.db", 1), (".", 2)])
def test_a_backup_needs_a_file_of_its_own(call, tmp_path, name, code):
    call.start("shop.py:listener")

    before = sorted(os.listdir(tmp_path))
    call.error("db", "backup", tmp_path / name, "--yes", code=code)

    assert sorted(os.listdir(tmp_path)) == before


def test_a_backup_of_a_database_in_use_finishes_its_runs_after_a_restore(tmp_path):
    source, copy = tmp_path / "source.db", tmp_path / "copy.db"
    with Engine(source) as engine:
        runs = [engine.start(steady, number) for number in range(20)]
        for run in runs:
            run.wait_until("waiting", timeout=60)
        held = engine.run(runs[0].id).record
        report = engine.database.backup(copy)
        for run in runs:
            run.signal("go", 100)
        assert [run.result(timeout=60) for run in runs] == [100 + n for n in range(20)]
    assert (report.runs, report.broken) == (20, [])

    with Engine(copy, work=False) as sealed, pytest.raises(StoreSealed, match="copied_from"):
        sealed.signal(runs[0].id, "go", 1)
    unseal(copy)
    with Engine(copy) as restored:
        assert restored.run(runs[0].id).record.generation > held.generation + 1000
        for run in runs:
            restored.signal(run.id, "go", 200)
        results = [restored.run(run.id).result(timeout=60) for run in runs]
        assert restored.database.check() == []
    assert results == [200 + number for number in range(20)]


def unseal(path) -> None:
    from holdfast.connect.moved_database import unseal_database

    unseal_database(str(path))


def test_a_backup_has_no_sessions_of_the_original(tmp_path):
    with Engine(tmp_path / "source.db") as engine:
        engine.start(steady, 1, id="one").wait_until("waiting", timeout=60)
        engine.database.backup(tmp_path / "copy.db")
        assert len(engine.workers.list()) == 1

    with Engine(tmp_path / "copy.db", work=False) as copy:
        assert copy.workers.list() == []
        assert copy.run("one").status == "waiting"


def test_writes_during_a_backup_are_not_in_it_and_do_not_restart_it(tmp_path, monkeypatch):
    monkeypatch.setattr("holdfast.store.sqlite.backup.PAGES", 5)
    seen = []
    with Engine(tmp_path / "source.db", work=False) as engine:
        engine.start(steady, 0, id="before")

        def meanwhile(done: int, total: int) -> None:
            seen.append(done)
            engine.start(steady, 1, id=f"during-{len(seen)}")

        report = engine.database.backup(tmp_path / "copy.db", progress=meanwhile)
        assert engine.runs().count() == 1 + len(seen)

    assert len(seen) > 3
    assert seen == sorted(set(seen))
    assert report.runs == 1


def test_a_failed_backup_leaves_no_file(tmp_path, monkeypatch):
    with Engine(tmp_path / "source.db", work=False) as engine:
        engine.start(steady, 0)

        def full(part, store, codec):
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr(backups, "_prepare", full)
        with pytest.raises(StoreFull, match=r"copy\.db"):
            engine.database.backup(tmp_path / "copy.db")
        assert [name for name in os.listdir(tmp_path) if name.startswith("copy")] == []


def test_the_parts_of_killed_backups_are_removed_by_the_next_one(tmp_path):
    (tmp_path / "copy.db.999999999.part").write_text("half")
    with Engine(tmp_path / "source.db", work=False) as engine:
        engine.start(steady, 0)
        engine.database.backup(tmp_path / "copy.db")

    assert [name for name in os.listdir(tmp_path) if name.startswith("copy")] == ["copy.db"]


def test_a_backup_concerns_the_whole_installation(tmp_path):
    with Engine(tmp_path / "source.db", work=False) as engine:
        engine.start(steady, 0)
    bound = Engine(tmp_path / "source.db", work=False, namespace="acme")
    with bound, pytest.raises(NamespaceBound):
        bound.database.backup(tmp_path / "copy.db")

    assert not (tmp_path / "copy.db").exists()


def test_postgresql_is_backed_up_by_its_own_tools(postgres_server, tmp_path):
    with (
        postgres_server.lend() as url,
        Engine(url, work=False) as engine,
        pytest.raises(BadOption, match="pg_dump"),
    ):
        engine.database.backup(tmp_path / "copy.db")


def test_a_backup_of_a_sealed_backup_is_sealed_too(tmp_path):
    with Engine(tmp_path / "source.db", work=False) as engine:
        engine.start(steady, 0)
        engine.database.backup(tmp_path / "first.db")
    with Engine(tmp_path / "first.db", work=False) as first:
        first.database.backup(tmp_path / "second.db")

    with Engine(tmp_path / "second.db", work=False) as second, pytest.raises(StoreSealed):
        second.start(steady, 1)


def test_a_new_encryption_key_can_be_used_at_once(call, monkeypatch):
    monkeypatch.setenv("HOLDFAST_KEYS", call.text("db", "keys", "generate", "--id", "k1").strip())
    call.run("shop.py:parcel", '"gold"')
    assert call.json("show", "last")["result"] == "packed gold"

    other = call.json("db", "keys", "generate")
    assert set(other) == {"id", "key"}
    monkeypatch.setenv("HOLDFAST_KEYS", f"{other['id']}={other['key']}")
    assert call.json("show", "last")["result"] != "packed gold"


def test_a_key_id_that_cannot_be_used_is_refused(call):
    assert "is not a key id" in call.error("db", "keys", "generate", "--id", "a=b", code=2)
