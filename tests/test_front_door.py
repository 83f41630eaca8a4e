"""``import holdfast`` names everything and loads only what is used."""

import ast
import pkgutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

import holdfast
from holdfast import errors, sync
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
    "logs": "JsonFormatter RunFields",
    "schedules": "schedule scheduled_time",
    "sql": "connection sqlalchemy_connection",
    "streams": "Stream emit null progress stream",
    "versions": "patched version",
    "waits": "Received Wait Waited all_of any_of any_signal count create_wait matching wait_for",
}

PACKAGES = {"agents", "fencing", "otel", "testing"}


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
    for name in public_names(api_shared):
        assert getattr(holdfast, name) is getattr(api_shared, name)
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


LOADED = {
    "": "authoring connect core errors service store",
    "authoring": "python registry replay",
    "authoring.python": "children source step workflow",
    "authoring.replay": (
        "async_program call event_loop identity leftovers replay source sync_program"
    ),
    "connect": "blocking start_options",
    "connect.blocking": "engine namespaces",
    "core": (
        "budgets codec commands conditions definitions duration encoding_errors event_table events"
        " exits lazy_parts payload program pydantic_models retry runs signature status step_info"
        " text typed_json unset validation waits"
    ),
    "core.budgets": "ledger",
    "core.conditions": "model",
    "errors": "arguments base problems runs steps store tasks workflows",
    "service": "instants",
    "store": "clock",
}
"""The modules of the package that a program loads that defines workflows and names the engine; a
further one must be needed for that. The rest is loaded when an engine is opened, and the parts that
few programs use when they are first used (``core/lazy_parts.py``)."""

BESIDE = {"_blake2", "_hashlib", "copy", "hashlib"}
"""The modules of Python that it loads beside those that asyncio and msgspec load."""


def test_a_program_loads_only_these_modules_before_it_opens_an_engine():
    code = (
        "import sys, asyncio, msgspec\n"
        "before = set(sys.modules)\n"
        "from holdfast import Engine, step, workflow\n"
        "print(*sorted(set(sys.modules) - before))\n"
    )
    allowed = {"holdfast"} | {
        f"holdfast.{package}.{name}".replace("..", ".")
        for package, names in LOADED.items()
        for name in names.split()
    }

    loaded = set(loaded_by(code))

    assert sorted(name for name in loaded - allowed if name.startswith("holdfast")) == []
    assert sorted(name for name in allowed - loaded) == []
    assert {name for name in loaded if not name.startswith("holdfast")} <= BESIDE


UNUSED = (
    "agents authoring.bpmn authoring.dmn authoring.wf cli core.expressions fencing otel server"
    " store.postgres testing connect.migrations connect.run_drawings connect.run_procedures"
    " connect.token_check service.audit service.flows service.gates service.messages service.tasks"
)


def test_a_first_run_on_a_file_loads_no_part_that_it_does_not_use(tmp_path):
    code = (
        "import sys\n"
        "from holdfast import Engine, step, workflow\n"
        "@step\nasync def one(n): return n\n"
        "@workflow\nasync def first_run(n): return await one(n)\n"
        f"with Engine({str(tmp_path / 'first.db')!r}) as engine:\n"
        "    assert engine.start(first_run, 1).result(timeout=60) == 1\n"
        "    print(*sorted(sys.modules))\n"
    )

    loaded = loaded_by(code)

    for part in UNUSED.split():
        name = f"holdfast.{part}"
        assert [each for each in loaded if f"{each}.".startswith(f"{name}.")] == []


def loaded_by(code: str) -> list[str]:
    """Return the modules that a program prints."""
    ended = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    return ended.stdout.split()


def test_every_error_is_found_where_it_is_said_to_be():
    assert len({*errors.__all__}) == len(errors.__all__)
    for name in errors.__all__:
        error = getattr(errors, name)
        assert error.__name__ == name
        assert error.__module__ == f"holdfast.errors.{errors._HOME[name]}"


def test_every_error_class_has_a_name_in_the_package_of_errors():
    classes = {
        name
        for module in pkgutil.iter_modules(errors.__path__)
        for name, kind in vars(import_module(f"holdfast.errors.{module.name}")).items()
        if isinstance(kind, type) and issubclass(kind, errors.HoldfastError)
    }

    assert classes == {*errors.__all__}


def test_an_unknown_error_is_refused_as_in_any_module():
    with pytest.raises(AttributeError, match=r"^module 'holdfast.errors' has no attribute 'Bad'$"):
        _ = errors.Bad
