"""Nothing is acknowledged that goes into files which a later opener does not find."""

from __future__ import annotations

import os
import shutil

import pytest

from holdfast.core.runs import NewRun, Route
from holdfast.errors import StoreGone
from holdfast.store.runs.operations import StartRuns
from holdfast.store.sqlite import SqliteDatabase, file_check
from holdfast.store.store import Store

ROUTE = Route("default", "greet", "1", "default")


def start(store, run_id):
    return store.apply([StartRuns([NewRun(id=run_id, route=ROUTE, input=b"[]")])])


def delete(path):
    os.remove(path)


def delete_all(path):
    for suffix in file_check.SUFFIXES:
        os.remove(f"{path}{suffix}")


def delete_wal(path):
    os.remove(f"{path}-wal")


def delete_shm(path):
    os.remove(f"{path}-shm")


def rename(path):
    os.rename(path, f"{path}.old")


def replace(path):
    shutil.copyfile(path, f"{path}.copy")
    os.replace(f"{path}.copy", path)


def replace_folder(path):
    folder = os.path.dirname(path)
    os.rename(folder, f"{folder}.old")
    shutil.copytree(f"{folder}.old", folder)


def delete_folder(path):
    os.rename(os.path.dirname(path), f"{os.path.dirname(path)}.old")


LOSSES = (
    delete,
    delete_all,
    delete_wal,
    delete_shm,
    rename,
    replace,
    replace_folder,
    delete_folder,
)


@pytest.fixture
def path(tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    return str(folder / "test.db")


@pytest.fixture(params=["sqlite3", "apsw"])
def driver(request):
    if request.param == "apsw":
        pytest.importorskip("apsw")
    return request.param


@pytest.fixture
def store(path, driver):
    store = Store(SqliteDatabase(path, driver=driver))
    yield store
    store.close()


@pytest.fixture(params=[False, True], ids=["a folder that has just changed", "a folder at rest"])
def at_rest(request, path, store):
    """A folder that changed long ago is not searched again."""
    start(store, "acknowledged")
    if request.param:
        os.utime(os.path.dirname(path), (1, 1))
        start(store, "at rest")
        assert store.database._files._sound is not None


@pytest.mark.usefixtures("at_rest")
@pytest.mark.parametrize("lose", LOSSES)
class TestLosses:
    def test_a_commit_is_not_acknowledged(self, store, path, lose):
        lose(path)

        with pytest.raises(StoreGone, match="put the files back") as refused:
            start(store, "lost")

        assert path in str(refused.value)

    def test_everything_is_refused_from_then_on(self, store, path, lose):
        lose(path)
        with pytest.raises(StoreGone):
            start(store, "lost")

        for use in (
            lambda: start(store, "later"),
            lambda: store.runs.get("acknowledged"),
            store.changed,
            store.sessions.all,
        ):
            with pytest.raises(StoreGone):
                use()

    def test_a_worker_that_only_polls_notices(self, store, path, lose):
        lose(path)

        with pytest.raises(StoreGone):
            store.changed()

    def test_a_reader_does_not_create_a_new_file(self, store, path, lose):
        lose(path)
        before = os.path.exists(path)

        with pytest.raises(StoreGone):
            store.runs.get("acknowledged")

        assert os.path.exists(path) == before


def test_what_was_acknowledged_survives_a_deleted_wal(path, driver):
    store = Store(SqliteDatabase(path, driver=driver))
    start(store, "acknowledged")
    os.remove(f"{path}-wal")
    with pytest.raises(StoreGone):
        start(store, "lost")
    store.close()

    again = Store(SqliteDatabase(path, driver=driver))
    assert again.runs.get("acknowledged") is not None
    assert again.check() == []
    again.close()


def test_closing_does_not_delete_the_wal_of_the_file_that_took_its_place(path, driver):
    old = Store(SqliteDatabase(path, driver=driver))
    start(old, "old")
    delete_all(path)
    new = Store(SqliteDatabase(path, driver=driver))
    start(new, "new")

    old.close()

    assert os.path.exists(f"{path}-wal")
    start(new, "newer")
    new.close()
    again = Store(SqliteDatabase(path, driver=driver))
    assert [again.runs.get(name) is not None for name in ("old", "new", "newer")] == [
        False,
        True,
        True,
    ]
    again.close()


def test_a_link_that_leads_elsewhere_is_noticed(tmp_path, driver):
    link, first, second = (str(tmp_path / name) for name in ("link.db", "first.db", "second.db"))
    os.symlink(first, link)
    store = Store(SqliteDatabase(link, driver=driver))
    start(store, "first")
    Store(SqliteDatabase(second, driver=driver)).close()
    os.remove(link)
    os.symlink(second, link)

    with pytest.raises(StoreGone, match="leads to another file"):
        start(store, "lost")
    store.close()


def test_ordinary_work_of_others_is_no_loss(store, path, driver):
    start(store, "one")
    other = Store(SqliteDatabase(path, driver=driver))
    start(other, "two")
    other.database._db.rows("PRAGMA wal_checkpoint(TRUNCATE)")
    other.database._db.rows("VACUUM")
    other.close()
    open(os.path.join(os.path.dirname(path), "another file"), "w").close()

    start(store, "three")
    assert store.changed() is True
