"""Whatever the package offers is in the reference."""

from __future__ import annotations

import inspect
import re
from contextlib import closing

import msgspec
import pytest

import holdfast
from holdfast import errors
from holdfast.authoring.python.children import OPTIONS as CHILD_OPTIONS
from holdfast.cli.main import cli
from holdfast.connect.blocking.namespaces import Namespaces
from holdfast.connect.blocking.runs import RunQuery
from holdfast.connect.start_options import START_OPTIONS
from holdfast.core.events import EventKind
from holdfast.core.lazy_parts import part_names
from holdfast.engine.runtime.settings import WorkerSettings
from holdfast.service.schedules import OPTIONS as SCHEDULE_OPTIONS
from holdfast.views import (
    budgets,
    events,
    gates,
    lanes,
    runs,
    schedules,
    steps,
    streams,
    subscriptions,
    waits,
    why,
    workers,
)
from tests.docs.pages import REFERENCE, ROOT

TEXT = "\n".join(page.read_text("utf-8") for page in REFERENCE)
HEADINGS = set(
    re.findall(r"\w+", " ".join(line for line in TEXT.splitlines() if line.startswith("#")))
)
ERRORS = errors.__all__
NAMESPACES = [name for name in holdfast._NAMESPACES if holdfast._NAMESPACES[name]]
RECORDS = [
    record
    for feature in (
        budgets,
        events,
        gates,
        lanes,
        runs,
        schedules,
        steps,
        streams,
        subscriptions,
        waits,
        why,
        workers,
    )
    for record in vars(feature).values()
    if inspect.isclass(record) and issubclass(record, msgspec.Struct)
    if record.__module__ == feature.__name__
    if record not in (budgets.ReservationView, runs.ChildView, runs.RunDetailView)
]
"""The records that the namespaces of an engine return."""

HANDLES = [holdfast.Engine, holdfast.Run, RunQuery]


def methods(handle):
    return sorted(f"{handle.__name__}.{name}" for name in public(handle))


def public(handle):
    return {name for name in vars(handle) if not name.startswith("_")}


def namespaces(engine):
    """Return the public methods of the namespaces of an engine, by the name of the namespace."""
    return {name: public(type(getattr(engine, name))) for name in part_names(Namespaces)}


@pytest.mark.parametrize("name", holdfast.__all__)
def test_every_public_name_has_a_heading(name):
    assert name in HEADINGS


@pytest.mark.parametrize("namespace", NAMESPACES)
def test_every_name_of_a_namespace_has_a_heading(namespace):
    names = {name for name in vars(getattr(holdfast, namespace)) if not name.startswith("_")}

    assert f"| `holdfast.{namespace}` | " in TEXT
    assert [name for name in sorted(names) if name not in HEADINGS] == []


@pytest.mark.parametrize("name", [name for name in dir(holdfast.sync) if not name.startswith("_")])
def test_every_public_name_for_plain_functions_is_described(name):
    assert is_mentioned(f"sync.{name}") or f"`with sync.{name}(" in TEXT or f"`sync.{name}." in TEXT


@pytest.mark.parametrize("name", [name for handle in HANDLES for name in methods(handle)])
def test_every_method_is_described(name):
    assert is_mentioned(name)


def test_every_method_of_a_namespace_is_described(tmp_path):
    with closing(holdfast.Engine(tmp_path / "reference.db")) as engine:
        names = [
            f"engine.{name}.{verb}" for name, own in namespaces(engine).items() for verb in own
        ]

    assert [name for name in names if not is_mentioned(name)] == []


def test_the_asynchronous_engine_has_the_same_methods(tmp_path):
    with closing(holdfast.Engine(tmp_path / "reference.db")) as engine:
        asynchronous = holdfast.AsyncEngine(tmp_path / "reference.db")

        assert namespaces(asynchronous) == namespaces(engine)
        assert public(holdfast.AsyncEngine) == public(holdfast.Engine)
        assert public(holdfast.AsyncRun) == public(holdfast.Run)


@pytest.mark.parametrize("name", ERRORS)
def test_every_error_is_described(name):
    assert is_mentioned(name)


@pytest.mark.parametrize("option", CHILD_OPTIONS)
def test_every_option_of_a_child_is_described(option):
    signature = re.search(r"`await start\(workflow.*?\)`", TEXT)

    assert f"{option}=" in signature[0]


@pytest.mark.parametrize("option", START_OPTIONS)
def test_every_option_of_start_is_described(option):
    assert f"`{option}`" in guide("starting")


@pytest.mark.parametrize("option", sorted(SCHEDULE_OPTIONS))
def test_every_option_of_a_schedule_is_described(option):
    assert f"`{option}`" in guide("schedules")


@pytest.mark.parametrize("setting", WorkerSettings.__struct_fields__)
def test_every_setting_of_a_worker_is_described(setting):
    assert f"`{setting}`" in guide("workers")


@pytest.mark.parametrize("record", RECORDS)
def test_every_field_of_a_record_is_described(record):
    fields = [field.name for field in msgspec.structs.fields(record)]

    assert [name for name in fields if f"`{name}`" not in TEXT] == []


def test_every_kind_of_event_is_described():
    kinds = [kind for name, kind in vars(EventKind).items() if not name.startswith("_")]

    assert [kind for kind in kinds if f"`{kind}`" not in TEXT] == []


@pytest.mark.parametrize("command", cli.list_commands(None))
def test_every_command_is_described(command):
    assert re.search(rf"`holdfast {command}\b", TEXT)


def is_mentioned(name: str) -> bool:
    return re.search(rf"`{re.escape(name)}[`(]", TEXT) is not None


def guide(name: str) -> str:
    return (ROOT / "docs" / "guides" / f"{name}.md").read_text("utf-8")


@pytest.mark.parametrize("page", REFERENCE, ids=lambda page: page.name)
def test_no_table_has_two_rows_for_one_thing(page):
    for table in re.findall(r"(?:^\|.*\n)+", page.read_text("utf-8"), re.MULTILINE):
        things = [line.split("|")[1].strip() for line in table.splitlines()]
        named = [thing for thing in things if thing]
        assert sorted(set(named)) == sorted(named)
