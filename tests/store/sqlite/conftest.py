"""A SQLite store on a file of its own, with each driver."""

from contextlib import closing

import pytest

from holdfast.store.sqlite import SqliteDatabase
from holdfast.store.store import Store
from tests.store.sqlite.helpers import DRIVERS


@pytest.fixture(params=DRIVERS)
def driver(request):
    return request.param


@pytest.fixture
def path(tmp_path):
    return tmp_path / "holdfast.db"


@pytest.fixture
def store(path, driver):
    with closing(Store(SqliteDatabase(path, driver=driver))) as store:
        yield store
