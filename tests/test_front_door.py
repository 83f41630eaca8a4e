"""``import holdfast`` names everything and loads only what is used."""

import ast
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import holdfast
from holdfast import sync
from holdfast.authoring.python import api_async, api_shared, api_sync

EXPORTS = {
    "engines": "AsyncEngine AsyncRun Engine Run",
    "definitions": "workflow step task schedule",
    "verbs": "sleep wait_signal gate gather first map start timeout compensate info now",
    "values": "Graph Fail Retry HoldfastError",
    "modules": "sync errors",
}
NAMES = [name for names in EXPORTS.values() for name in names.split()]

NAMESPACES = {
    "budgets": "record reserve spend",
    "codecs": "Compressed Encrypted generate_key",
    "deterministic": "now random uuid",
    "gates": "Answer",
    "graphs": "Graph extend",
    "schedules": "schedule scheduled_time",
    "sql": "connection sqlalchemy_connection",
    "streams": "Stream emit null progress stream",
    "versions": "patched version",
    "waits": "Received Wait Waited all_of any_of any_signal count create_wait matching wait_for",
}

PACKAGES = {"agents", "fencing", "testing"}


def public_names(module: ModuleType) -> set[str]:
    return {name for name in vars(module) if not name.startswith("_")}


def test_the_front_door_has_these_names_and_no_more():
    assert len(NAMES) == 25
    assert sorted(holdfast.__all__) == sorted(NAMES)


def test_every_name_is_where_it_is_said_to_be():
    for name in (*holdfast.__all__, *NAMESPACES, *PACKAGES):
        assert getattr(holdfast, name) is not None
    assert {*holdfast.__all__, *NAMESPACES, *PACKAGES} <= {*dir(holdfast)}


def test_the_lazy_table_and_the_modules_agree():
    names = {home: set(names.split()) for home, names in holdfast._HOMES.items()}

    assert names["authoring.python.api_async"] == set(api_async.__all__)
    assert names["authoring.python.api_shared"] == public_names(api_shared)
    assert set(api_sync.__all__) == set(api_async.__all__)


def test_type_checkers_see_every_name_that_is_loaded_lazily():
    tree = ast.parse(Path(holdfast.__file__).read_text("utf-8"))
    block = next(node for node in tree.body if isinstance(node, ast.If))
    imported = {
        alias.asname for node in ast.walk(block) for alias in getattr(node, "names", ())
    } - {None}

    assert imported == {
        *holdfast._NAMESPACES,
        "AsyncEngine",
        "AsyncRun",
        "Engine",
        "Run",
    }


@pytest.mark.parametrize("namespace", NAMESPACES)
def test_a_namespace_has_these_names_and_no_more(namespace):
    assert public_names(getattr(holdfast, namespace)) == set(NAMESPACES[namespace].split())


def test_plain_functions_find_the_same_names():
    expected = {*NAMES, *NAMESPACES} - {"AsyncEngine", "AsyncRun", "sync"}

    assert public_names(sync) == expected


@pytest.mark.parametrize("namespace", NAMESPACES)
def test_plain_functions_find_the_same_namespaces(namespace):
    own = {"graphs": {"extend"}, "waits": {"create_wait", "wait_for"}}.get(namespace, set())
    shared = public_names(getattr(holdfast, namespace)) - own

    for name in own:
        assert getattr(getattr(sync, namespace), name) is getattr(api_sync, name)
    for name in shared:
        assert getattr(getattr(sync, namespace), name) is getattr(
            getattr(holdfast, namespace), name
        )


def test_an_unknown_name_is_refused_as_in_any_module():
    with pytest.raises(AttributeError, match=r"^module 'holdfast' has no attribute 'Engin'$"):
        _ = holdfast.Engin


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("wait_for", "waits.wait_for"),
        ("spent", "budgets.record"),
        ("grow", "graphs.extend"),
        ("uuid", "deterministic.uuid"),
    ],
)
def test_a_name_of_a_namespace_says_where_it_is(name, place):
    with pytest.raises(AttributeError, match=f"no attribute '{name}': it is holdfast.{place}$"):
        getattr(holdfast, name)


def test_every_name_of_a_namespace_says_where_it_is():
    for namespace, names in NAMESPACES.items():
        for name in set(names.split()) - set(NAMES):
            assert holdfast._hint(name) == f": it is holdfast.{namespace}.{name}"


def test_a_module_of_workflows_loads_no_engine():
    code = (
        "import sys, holdfast\n"
        "assert not any(name.startswith('holdfast.') for name in sys.modules)\n"
        "@holdfast.step\ndef add(n): return n + 1\n"
        "@holdfast.workflow\nasync def adding(n):\n"
        "    await holdfast.waits.wait_for('paid')\n"
        "    return add(n) + holdfast.deterministic.random()\n"
        "assert holdfast.budgets.spend and holdfast.versions.patched and holdfast.gate\n"
        "for ring in ('engine', 'service', 'connect', 'payloads'):\n"
        "    assert f'holdfast.{ring}' not in sys.modules, f'{ring} was loaded'\n"
        "from holdfast import *\n"
        "assert Engine is holdfast.Engine and errors.RunFailed and sync.waits.wait_for\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
