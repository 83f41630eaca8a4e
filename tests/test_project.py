"""The project keeps its own rules, those that neither ruff nor the import contracts can see."""

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "holdfast"

LONGEST = 500
MAY_BE_LONGER = {"testing/conformance/runs.py"}

IMPURE_ANYWHERE = {"now", "utcnow", "today", "time", "monotonic", "uuid4", "random"}
IMPURE_BUILTINS = {"open", "print"}  # as methods they may be words of the domain: a gate opens


def test_the_core_asks_neither_the_clock_nor_the_dice_nor_the_world():
    offences = [place(path, call) for path, call in calls(SOURCE / "core") if is_impure(call.func)]

    assert offences == []


def test_a_source_file_can_be_held_in_mind():
    lengths = {path.relative_to(SOURCE).as_posix(): len(path.read_text("utf-8").splitlines()) for path in SOURCE.rglob("*.py")}

    assert {name: length for name, length in lengths.items() if length > LONGEST and name not in MAY_BE_LONGER} == {}


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
                case ast.ImportFrom("time" | "asyncio", names) if any(alias.name == "sleep" for alias in names):
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
