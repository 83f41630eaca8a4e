"""The project keeps its own rules, those that neither ruff nor the import contracts can see."""

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "holdfast"

sys.path.insert(0, str(ROOT / "tools"))
import measure  # noqa: E402

LONGEST = 500
"""No source file has more lines. The number goes down, never up."""

MOST_CONDITIONALS = 9.1
"""Conditional expressions per thousand lines. The number goes down, never up."""

MOST_METHODS = 30
"""Methods of the largest class. The number goes down, never up."""

IMPURE_ANYWHERE = {"now", "utcnow", "today", "time", "monotonic", "uuid4", "random"}
IMPURE_BUILTINS = {"open", "print"}  # as methods they may be words of the domain: a gate opens


def test_the_core_asks_neither_the_clock_nor_the_dice_nor_the_world():
    offences = [place(path, call) for path, call in calls(SOURCE / "core") if is_impure(call.func)]

    assert offences == []


def test_a_source_file_can_be_held_in_mind():
    lengths = {
        path.relative_to(SOURCE).as_posix(): len(path.read_text("utf-8").splitlines())
        for path in SOURCE.rglob("*.py")
    }

    assert {name: length for name, length in lengths.items() if length > LONGEST} == {}


def test_a_line_has_at_most_100_columns_and_the_formatter_lays_it_out():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["ruff"]
    exempt = re.compile(r"# ?(?:noqa: *E501|fmt: *(?:skip|off))")
    places = [
        f"{path.relative_to(ROOT).as_posix()}:{number}"
        for folder in ("src", "tests", "tools", "torture", "bench", "examples")
        for path in sorted((ROOT / folder).rglob("*.py"))
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1)
        if exempt.search(line) and path != Path(__file__)
    ]

    assert settings["line-length"] == 100 and "E" in settings["lint"]["select"]
    assert "E501" not in settings["lint"].get("ignore", [])
    assert places == []


def test_a_local_variable_has_the_name_of_its_content():
    """``told``, ``one``, ``what`` and ``given`` say nothing; ``found`` is for booleans."""
    assert measure.vague_names() == []


def test_a_line_seldom_decides_and_computes_at_once():
    assert measure.per_thousand_lines("conditional") <= MOST_CONDITIONALS


def test_a_class_is_composed_of_parts_before_it_grows():
    assert int(measure.largest_object().split()[0]) <= MOST_METHODS


def test_a_function_fits_on_a_screen():
    """The constructor of an engine passes each of its options on."""
    constructors = {"connect/async_engine.py: __init__", "connect/blocking/engine.py: __init__"}

    assert set(measure.long_functions()) <= constructors


def test_the_front_door_has_at_most_25_names():
    assert measure.exports() <= 25


def test_no_two_classes_share_a_name():
    assert measure.class_names_used_twice() == {}


@pytest.mark.parametrize(
    "package",
    sorted(path.name for path in SOURCE.iterdir() if (path / "__init__.py").exists()),
)
def test_prose_names_its_subject(package):
    """Words such as "whoever" and "what is" hide the subject of a sentence."""
    assert measure.banned_words(package) == []


def test_objects_are_composed_not_split_by_inheritance():
    assert int(measure.longest_chain().split()[0]) <= 2


def test_a_database_adapter_implements_few_verbs():
    """Operations, effects and queries are written once, above the adapters."""
    verbs = measure.adapter_verbs()

    assert verbs["database"] <= 16
    assert verbs["transaction"] <= 8
    assert verbs["transaction of a batch"] <= 5


def test_private_names_of_asyncio_are_used_in_one_file():
    """Each of them may change with any version of Python."""
    private = re.compile(
        r"\b(?:asyncio|tasks)\.(?:\w+\.)?_\w|from asyncio\S* import \(?\s*_"
        r"|loop\._(?:ready|scheduled|selector|run_once)\b|_asyncio_future_blocking|\"_ready\""
    )
    users = {
        path.relative_to(SOURCE).as_posix()
        for path in SOURCE.rglob("*.py")
        if private.search(path.read_text("utf-8"))
    }

    assert users == {"engine/runtime/eager_task.py"}


def test_one_file_converts_to_types():
    """Elsewhere, two threads that use a type of msgspec for the first time end the process."""
    converting = re.compile(
        r"msgspec\.convert\b|msgspec\.json\.Decoder\([^)]"
        r"|msgspec\.json\.decode\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\btype="
    )
    users = {
        path.relative_to(SOURCE).as_posix()
        for path in SOURCE.rglob("*.py")
        if converting.search(path.read_text("utf-8"))
    }

    assert users == {"core/typed_json.py"}


def test_a_workflow_of_tests_and_examples_has_a_name_of_its_own():
    """They meet in one process, where a name that two of them have is served by none."""
    places: dict[str, set[str]] = {}
    for folder in ("tests", "examples"):
        for path in (ROOT / folder).rglob("*.py"):
            for name in workflows(path) if "typing" not in path.parts else ():
                places.setdefault(name, set()).add(path.relative_to(ROOT).as_posix())

    assert {name: sorted(found) for name, found in places.items() if len(found) > 1} == {}


def test_no_test_waits_and_hopes():
    found = [*naps(ROOT / "tests"), *naps(ROOT / "examples", "test_*.py")]

    assert found == []


def is_impure(function: ast.expr) -> bool:
    match function:
        case ast.Name(name):
            return name in IMPURE_ANYWHERE | IMPURE_BUILTINS
        case ast.Attribute(_, name):
            return name in IMPURE_ANYWHERE
    return False


def naps(folder: Path, pattern: str = "*.py") -> Iterator[str]:
    """Every place where *folder* gets hold of the sleep of time or asyncio, under whatever name."""
    for path, tree in trees(folder, pattern):
        sleepers = {
            alias.asname or alias.name
            for node in ast.walk(tree)
            if isinstance(node, ast.Import)
            for alias in node.names
            if alias.name in ("time", "asyncio")
        }
        for node in ast.walk(tree):
            match node:
                case ast.ImportFrom("time" | "asyncio", names) if any(
                    alias.name == "sleep" for alias in names
                ):
                    yield place(path, node)
                case ast.Attribute(ast.Name(module), "sleep") if module in sleepers:
                    yield place(path, node)


def calls(folder: Path) -> Iterator[tuple[Path, ast.Call]]:
    for path, tree in trees(folder):
        for node in ast.walk(tree):
            if isinstance(node, ast.Call):
                yield path, node


def trees(folder: Path, pattern: str = "*.py") -> Iterator[tuple[Path, ast.Module]]:
    for path in sorted(folder.rglob(pattern)):
        yield path, ast.parse(path.read_text("utf-8"), filename=str(path))


def place(path: Path, node: ast.stmt | ast.expr) -> str:
    return f"{path.relative_to(ROOT).as_posix()}:{node.lineno}: {ast.unparse(node)}"


def workflows(path: Path) -> Iterator[str]:
    """The names of the workflows and tasks that a module defines."""
    for node in ast.parse(path.read_text("utf-8")).body:
        for mark in getattr(node, "decorator_list", []):
            call = mark if isinstance(mark, ast.Call) else None
            if ast.unparse(call.func if call else mark).rpartition(".")[2] in ("workflow", "task"):
                given = (
                    [word.value.value for word in call.keywords if word.arg == "name"]
                    if call
                    else []
                )
                yield given[0] if given else node.name


@pytest.mark.parametrize(
    ("code", "vague"),
    [
        ("told = f()", ["told"]),
        ("for one in many: pass", ["one"]),
        ("[what for what in many]", ["what"]),
        ("with f() as given: pass", ["given"]),
        ("found = find()", ["found"]),
        ("for found in many: pass", ["found"]),
        ("found = name in many and not other", []),
        ("found: bool = find()", []),
        ("found = any(many)", []),
        ("budget = find()", []),
    ],
)
def test_the_check_of_names_sees_vague_ones(tmp_path, code, vague):
    (tmp_path / "module.py").write_text(f"def function():\n    {code}\n", "utf-8")

    assert [place.split(": ")[1] for place in measure.vague_names(tmp_path)] == vague
