"""Print the measures of the code base: sizes, shapes, names, prose. ``make measure`` runs it.

Each measure is a function that reads the package and returns a figure. The tests in
``tests/test_project.py`` keep some of them from getting worse.
"""

from __future__ import annotations

import ast
import functools
import io
import re
import statistics
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "holdfast"

BANNED = re.compile(
    r"\b(whoever|nobody|somebody|anew|in vain|for good|those that|those who|what is|what was)\b",
    re.IGNORECASE,
)
"""Words that hide the subject of a sentence, or that a reader must decode."""

Function = ast.FunctionDef | ast.AsyncFunctionDef


def modules(folder: Path = PACKAGE) -> Iterator[tuple[Path, str, ast.Module]]:
    """Yield each module of the package: its path, its text, its syntax tree."""
    for path in sorted(folder.rglob("*.py")):
        text = path.read_text("utf-8")
        yield path, text, _parsed(path, text)


@functools.cache
def _parsed(path: Path, text: str) -> ast.Module:
    return ast.parse(text, filename=str(path))


def functions(tree: ast.AST) -> Iterator[Function]:
    """Yield the functions of a module, methods and nested functions included."""
    for node in ast.walk(tree):
        if isinstance(node, Function):
            yield node


def classes(tree: ast.AST) -> Iterator[ast.ClassDef]:
    """Yield the classes of a module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            yield node


def docstrings(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield the docstrings of a module and of all that it defines, with their lines."""
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        for statement in body if isinstance(body, list) else ():
            match statement:
                case ast.Expr(ast.Constant(str() as text)):
                    yield statement.lineno, text


def comments(text: str) -> Iterator[tuple[int, str]]:
    """Yield the comments of a module, with their lines; directives to tools are not comments."""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        directive = re.match(r"# ?(type:|noqa|fmt:|pragma)", token.string)
        if token.type == tokenize.COMMENT and not directive:
            yield token.start[0], token.string


def class_names_used_twice() -> dict[str, list[str]]:
    """Return each class name that several modules define, with these modules."""
    places: dict[str, list[str]] = {}
    for path, _, tree in modules():
        for node in tree.body:
            if isinstance(node, ast.ClassDef):
                places.setdefault(node.name, []).append(path.relative_to(PACKAGE).as_posix())
    return {name: found for name, found in sorted(places.items()) if len(found) > 1}


def banned_words(package: str = "") -> list[str]:
    """Return each place of the package whose prose has a banned word."""
    found = []
    for path, text, tree in modules(PACKAGE / package):
        for line, prose in (*docstrings(tree), *comments(text)):
            if BANNED.search(prose):
                found.append(f"{path.relative_to(PACKAGE).as_posix()}:{line}")
    return found


def share_of_docstrings_with_banned_words() -> str:
    """Return how many docstrings have a banned word, of all."""
    texts = [text for _, _, tree in modules() for _, text in docstrings(tree)]
    bad = sum(bool(BANNED.search(text)) for text in texts)
    return f"{bad} of {len(texts)} ({bad / len(texts):.1%})"


def function_lines() -> str:
    """Return the median, the 90th percentile and the maximum of the lines of a function."""
    lengths = sorted(
        (node.end_lineno or 0) - node.lineno + 1
        for _, _, tree in modules()
        for node in functions(tree)
    )
    p90 = lengths[int(len(lengths) * 0.9)]
    return f"{statistics.median(lengths):.0f} / {p90} / {lengths[-1]}"


def long_functions(limit: int = 60) -> list[str]:
    """Return the functions whose code has more lines than *limit*, signature and docstring
    excluded: these document the face of the package."""
    return sorted(
        f"{_shown(path)}: {node.name}"
        for path, _, tree in modules()
        for node in functions(tree)
        if _code_lines(node) > limit
    )


def _code_lines(function: Function) -> int:
    body = function.body
    if ast.get_docstring(function, clean=False) is not None and len(body) > 1:
        body = body[1:]
    return (body[-1].end_lineno or 0) - body[0].lineno + 1


def file_lines() -> str:
    """Return the median, the 90th percentile and the maximum of the lines of a file."""
    lengths = sorted(len(text.splitlines()) for _, text, _ in modules())
    return f"{statistics.median(lengths):.0f} / {lengths[int(len(lengths) * 0.9)]} / {lengths[-1]}"


def longest_chain() -> str:
    """Return the longest chain of classes that inherit from each other.

    Errors and conformance tests do not count: there a chain is a classification.
    """
    bases: dict[str, list[str]] = {}
    for path, _, tree in modules():
        if {"errors", "conformance"} & set(path.relative_to(PACKAGE).parts):
            continue
        for node in classes(tree):
            bases[node.name] = [base.id for base in node.bases if isinstance(base, ast.Name)]

    def chain(name: str) -> list[str]:
        above = [chain(base) for base in bases.get(name, ()) if base in bases and base != name]
        return [name, *max(above, key=len, default=[])]

    longest = max((chain(name) for name in bases), key=len)
    return f"{len(longest)} ({' < '.join(longest)})"


def adapter_verbs() -> dict[str, int]:
    """Return how many methods a database adapter and its transaction must implement."""
    tree = ast.parse((PACKAGE / "store" / "database.py").read_text("utf-8"))
    counts = {node.name: _verbs(node) for node in classes(tree)}
    return {
        "database": counts["RowSource"] + counts["Database"],
        "transaction": counts["Transaction"],
        "transaction of a batch": counts["BatchTransaction"],
    }


def _verbs(node: ast.ClassDef) -> int:
    """Return the number of methods of a protocol; properties are no verbs."""
    return sum(isinstance(item, Function) and not item.decorator_list for item in node.body)


def largest_object() -> str:
    """Return the class with the most methods of its own."""
    counts = {
        node.name: sum(isinstance(item, Function) for item in node.body)
        for path, _, tree in modules()
        if "conformance" not in path.parts
        for node in classes(tree)
    }
    name = max(counts, key=lambda key: counts[key])
    return f"{counts[name]} ({name})"


def fields_of(name: str) -> int:
    """Return how many fields a struct has."""
    for _, _, tree in modules():
        for node in classes(tree):
            if node.name == name:
                return sum(isinstance(item, ast.AnnAssign) for item in node.body)
    return 0


def per_thousand_lines(kind: str) -> float:
    """Return how many tuple assignments, or conditional expressions, a thousand lines have."""
    count = lines = 0
    for _, text, tree in modules():
        lines += len(text.splitlines())
        for node in ast.walk(tree):
            if kind == "conditional":
                count += isinstance(node, ast.IfExp)
            else:
                count += (
                    isinstance(node, ast.Assign)
                    and isinstance(node.targets[0], ast.Tuple)
                    and isinstance(node.value, ast.Tuple)
                )
    return round(count * 1000 / lines, 1)


def comments_per_hundred_lines(package: str) -> float:
    """Return how many lines of a package have a comment, of a hundred."""
    count = lines = 0
    for _, text, _ in modules(PACKAGE / package):
        lines += len(text.splitlines())
        count += sum(1 for _ in comments(text))
    return round(count * 100 / lines, 1)


VAGUE = {"told", "one", "what", "given"}
"""Names of local variables that say nothing about their content. ``found`` is for booleans only."""


def vague_names(folder: Path = PACKAGE) -> list[str]:
    """Return each local variable with a vague name: its place and the name."""
    places = []
    for path, _, tree in modules(folder):
        for nodes in _bodies(tree):
            booleans = _boolean_assignments(nodes)
            for node in nodes:
                if not (isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)):
                    continue
                if node.id in VAGUE or (node.id == "found" and node not in booleans):
                    places.append(f"{_shown(path, folder)}:{node.lineno}: {node.id}")
    return sorted(set(places))


def _bodies(tree: ast.AST) -> Iterator[list[ast.AST]]:
    """Yield the nodes of each function that is not inside another one."""
    for child in ast.iter_child_nodes(tree):
        if isinstance(child, Function):
            yield list(ast.walk(child))
        elif isinstance(child, ast.stmt):
            yield from _bodies(child)


def _boolean_assignments(nodes: list[ast.AST]) -> set[ast.expr]:
    """Return the targets of assignments whose value is a boolean by its form or annotation."""
    targets: set[ast.expr] = set()
    for node in nodes:
        match node:
            case ast.Assign(assigned, value) if _is_boolean(value):
                targets.update(assigned)
            case ast.AnnAssign(target, ast.Name("bool")):
                targets.add(target)
    return targets


def _is_boolean(value: ast.expr) -> bool:
    match value:
        case ast.Compare() | ast.UnaryOp(ast.Not()) | ast.Constant(bool()):
            return True
        case ast.Call(ast.Name("any" | "all" | "bool" | "isinstance" | "hasattr")):
            return True
        case ast.BoolOp(_, parts):
            return all(_is_boolean(part) for part in parts)
    return False


def _shown(path: Path, folder: Path = PACKAGE) -> str:
    return path.relative_to(folder).as_posix()


# The public surface


def literal(path: str, name: str) -> Any:
    """Return the value that a module of the package assigns to *name*; None if it has none."""
    file = PACKAGE / path
    tree = ast.parse(file.read_text("utf-8") if file.exists() else "")
    for node in tree.body:
        match node:
            case ast.Assign([ast.Name(target)], value) | ast.AnnAssign(ast.Name(target), _, value):
                if target == name and value is not None:
                    return ast.literal_eval(value)
    return None


def exports() -> int:
    """Return how many names ``holdfast`` exports: those of its lazy table, ``errors`` and
    ``sync``."""
    homes: dict[str, str] = literal("__init__.py", "_HOMES") or {}
    return sum(len(names.split()) for names in homes.values()) + 2


def top_level_commands() -> int:
    """Return how many commands ``holdfast`` has at its top level."""
    return len(literal("cli/main.py", "COMMANDS") or ())


@functools.cache
def class_table() -> dict[str, ast.ClassDef]:
    """Return the classes of the package by name; the names are unique."""
    return {node.name: node for _, _, tree in modules() for node in classes(tree)}


def public_methods(name: str) -> set[str]:
    """Return the public methods of a class, inherited ones included."""
    table = class_table()
    if name not in table:
        return set()
    own = {
        item.name
        for item in table[name].body
        if isinstance(item, Function) and not item.name.startswith("_")
    }
    bases = [base.id for base in table[name].bases if isinstance(base, ast.Name)]
    return own.union(*(public_methods(base) for base in bases if base != name))


def lines_of_twins() -> int:
    """Return the lines of hand-written methods that a class ``AsyncX`` has beside the class ``X``.

    Generated files do not count: no person writes or reviews them.
    """
    table = {
        node.name: node
        for _, text, tree in modules()
        if not text.startswith("# Generated")
        for node in classes(tree)
    }
    lines = 0
    for name, node in table.items():
        twin = table.get(f"Async{name}")
        if twin is not None:
            methods = {item.name for item in node.body if isinstance(item, Function)}
            lines += sum(
                (item.end_lineno or 0) - item.lineno + 1
                for item in twin.body
                if isinstance(item, Function) and item.name in methods
            )
    return lines


# Imports


def import_graph() -> dict[str, set[str]]:
    """Return the modules of the package that each module imports, imports in functions included."""
    names = {_module_name(path): (path, tree) for path, _, tree in modules()}
    graph: dict[str, set[str]] = {}
    for name, (_, tree) in names.items():
        imported: set[str] = set()
        for node in ast.walk(tree):
            match node:
                case ast.Import(aliases):
                    imported.update(alias.name for alias in aliases)
                case ast.ImportFrom(str() as module, aliases, 0):
                    inner = {f"{module}.{alias.name}" for alias in aliases} & names.keys()
                    imported |= inner or {module}
        graph[name] = (imported & names.keys()) - {name}
    return graph


def _module_name(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def largest_import_cycle() -> int:
    """Return the size of the largest set of modules that import each other in a circle."""
    graph = import_graph()
    graph.pop("holdfast", None)  # the front door imports for type checkers only, and lazily
    importers = _reversed(graph)
    return max(len(_reachable(graph, name) & _reachable(importers, name)) for name in graph)


def _reachable(graph: dict[str, set[str]], start: str) -> set[str]:
    """Return *start* and all modules that it imports, directly or not."""
    seen = {start}
    queue = [start]
    while queue:
        for name in graph.get(queue.pop(), set()) - seen:
            seen.add(name)
            queue.append(name)
    return seen


def _reversed(graph: dict[str, set[str]]) -> dict[str, set[str]]:
    """Return the modules that import each module."""
    reverse: dict[str, set[str]] = {name: set() for name in graph}
    for name, imported in graph.items():
        for other in imported & graph.keys():
            reverse[other].add(name)
    return reverse


def python_calls() -> str:
    """Return the Python calls of a step in sequence, and how many of them change the file."""
    from count_calls import calls_per_step  # imports the package, which nothing else here does

    return "{:.0f}, {:.0f}".format(*calls_per_step())


def main() -> None:
    """Print each measure."""
    rows: list[tuple[str, object]] = [
        ("files", sum(1 for _ in modules())),
        ("lines", sum(len(text.splitlines()) for _, text, _ in modules())),
        ("largest import cycle", largest_import_cycle()),
        ("lines of a function: median / p90 / longest", function_lines()),
        ("functions with more than 60 lines of code", len(long_functions())),
        ("lines of a file: median / p90 / longest", file_lines()),
        ("class names used twice", len(class_names_used_twice())),
        ("longest chain of classes", longest_chain()),
        ("methods of the largest class", largest_object()),
        ("verbs of an adapter", adapter_verbs()),
        ("fields of Advance", fields_of("Advance")),
        ("lines of hand-written twins", lines_of_twins()),
        ("exports of holdfast", exports()),
        ("public methods of AsyncEngine", len(public_methods("AsyncEngine"))),
        ("top-level commands", top_level_commands()),
        ("docstrings with banned words", share_of_docstrings_with_banned_words()),
        (
            "comments per 100 lines: engine, store",
            f"{comments_per_hundred_lines('engine')}, {comments_per_hundred_lines('store')}",
        ),
        ("tuple assignments per 1,000 lines", per_thousand_lines("tuple")),
        ("conditional expressions per 1,000 lines", per_thousand_lines("conditional")),
        ("local variables with vague names", len(vague_names())),
        ("files for a new kind of command", "add one and count: see ARCHITECTURE.md"),
        ("calls of a step, changes of file", python_calls()),
        ("benchmark ratios", "make bench BEFORE=REVISION"),
    ]
    width = max(len(name) for name, _ in rows)
    for name, value in rows:
        print(f"{name:{width}}  {value}")


if __name__ == "__main__":
    main()
