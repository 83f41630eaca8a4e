"""Write the blocking engine, ``connect/blocking/``, from the asynchronous one.

Every namespace is written once, asynchronously. This script rewrites its tokens: it drops ``async``
and ``await``, renames ``AsyncX`` to ``X`` and ``async_x`` to ``x``, and imports the generated
modules. Tokens rather than the syntax tree, because docstrings and comments stay as they are.

``python tools/generate_blocking.py`` writes the files; with ``--check`` it only fails if a file is
stale.
"""

from __future__ import annotations

import io
import re
import subprocess
import sys
import tokenize
from pathlib import Path

CONNECT = Path(__file__).resolve().parent.parent / "src" / "holdfast" / "connect"
BLOCKING = CONNECT / "blocking"

SOURCES = {
    "async_engine": "engine",
    "async_run": "run",
    **{
        name: name
        for name in (
            "api_keys",
            "audit",
            "budgets",
            "database",
            "events",
            "flows",
            "gates",
            "graphs",
            "keys",
            "lanes",
            "lease",
            "models",
            "namespaces",
            "operations",
            "retention",
            "runs",
            "schedules",
            "streams",
            "tasks",
            "waits",
            "webhooks",
            "workers",
        )
    },
}
"""The asynchronous modules, and the names of the blocking ones."""

RENAMED = {
    "__aenter__": "__enter__",
    "__aexit__": "__exit__",
    "__aiter__": "__iter__",
    "aclosing": "closing",
    "asynccontextmanager": "contextmanager",
}

PROPERTY = re.compile(r"^( +)async def (status|record|cancel_reason)\(self\) ->", re.MULTILINE)
"""The calls without arguments that are properties of the blocking handles."""

IN_PROSE = (
    (re.compile(r"\b(async with|async for) "), lambda match: match[1].removeprefix("async ") + " "),
    (re.compile(r"\bawait "), lambda match: ""),
    (re.compile(r"\bAsync(?=[A-Z])"), lambda match: ""),
)
"""How strings, most of them docstrings, are rewritten."""


def main() -> int:
    """Write the files, or check them. Return the exit code."""
    wanted = {BLOCKING / f"{target}.py": generated(source) for source, target in SOURCES.items()}
    wanted[BLOCKING / "__init__.py"] = (
        '"""The blocking engine. ``tools/generate_blocking.py`` writes all files here."""\n'
    )
    if "--check" not in sys.argv[1:]:
        BLOCKING.mkdir(exist_ok=True)
        for path, text in wanted.items():
            path.write_text(text, "utf-8")
        return 0
    stale = [path for path, text in wanted.items() if not is_current(path, text)]
    stale += [path for path in BLOCKING.glob("*.py") if path not in wanted]
    for path in stale:
        print(f"{path.relative_to(CONNECT)} is stale: make generate", file=sys.stderr)
    return 1 if stale else 0


def is_current(path: Path, text: str) -> bool:
    """Return whether a generated file is as it should be."""
    return path.exists() and path.read_text("utf-8") == text


def generated(source: str) -> str:
    """Return the blocking module for an asynchronous one, sorted and formatted."""
    text = (CONNECT / f"{source}.py").read_text("utf-8")
    rewritten = rewrite(PROPERTY.sub(r"\1@property\n\1async def \2(self) ->", text))
    header = f"# Generated from connect/{source}.py by tools/generate_blocking.py: do not edit.\n"
    place = str(BLOCKING / f"{SOURCES[source]}.py")
    mended = ruff(
        "check",
        "--fix",
        "--unsafe-fixes",
        "--quiet",
        "--exit-zero",
        text=header + rewritten,
        place=place,
    )
    return ruff("format", "--quiet", text=mended, place=place)


def ruff(*command: str, text: str, place: str) -> str:
    """Return *text* as ruff rewrites it."""
    done = subprocess.run(
        [sys.executable, "-m", "ruff", *command, "--stdin-filename", place, "-"],
        input=text,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def rewrite(text: str) -> str:
    """Return the blocking form of asynchronous source code."""
    lines = text.splitlines(keepends=True)
    edits: list[tuple[int, int, int, str]] = []
    path: list[str] = []
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.NAME:
            path = [*path, token.string] if path and path[-1] == "." else [token.string]
            replaced = blocking_name(token.string, path)
        elif token.string == ".":
            path = [*path, "."]
            continue
        else:
            path = []
            replaced = token.string
        if token.type == tokenize.STRING:
            replaced = blocking_prose(token.string)
        if replaced != token.string:
            edits.append((token.start[0], token.start[1], token.end[1], replaced))
            if token.type == tokenize.STRING and token.end[0] != token.start[0]:
                edits[-1] = (token.start[0], token.start[1], -token.end[0], replaced)
    return apply(lines, edits)


def blocking_name(name: str, path: list[str]) -> str:
    """Return the blocking form of a name; *path* is the dotted name that it ends."""
    if name in ("async", "await"):
        return ""
    if name in SOURCES and path == ["holdfast", ".", "connect", ".", name]:
        return f"blocking.{SOURCES[name]}"
    if name in RENAMED:
        return RENAMED[name]
    return re.sub(r"^(_?)(Async(?=[A-Z])|async_)", r"\1", name)


def blocking_prose(text: str) -> str:
    """Return the blocking form of a string."""
    for pattern, replacement in IN_PROSE:
        text = pattern.sub(replacement, text)
    return text


def apply(lines: list[str], edits: list[tuple[int, int, int, str]]) -> str:
    """Apply edits, from the last to the first. A negative end is the last line of a string that
    spans several lines."""
    for row, start, end, replacement in reversed(edits):
        line = lines[row - 1]
        if end < 0:
            last = lines[-end - 1]
            lines[row - 1] = line[:start] + replacement + last[last.rindex('"""') + 3 :]
            lines[row:-end] = []
        elif replacement:
            lines[row - 1] = line[:start] + replacement + line[end:]
        else:
            lines[row - 1] = line[:start] + line[end:].removeprefix(" ")
    return "".join(lines)


if __name__ == "__main__":
    sys.exit(main())
