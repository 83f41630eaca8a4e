"""Build the documentation as a site with search and navigation (``make docs``).

The pages of ``docs/`` are written for a reader of the repository. ``prepare`` copies them to a
folder, leads links to files outside of it to the repository, and adds a page of docstrings, a page
of the HTTP API and the OpenAPI document. The navigation is the index, ``docs/README.md``. Zensical
then makes the site; everything before it needs Python alone, so that tests check it.
"""

from __future__ import annotations

import inspect
import json
import os
import posixpath
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
REPOSITORY = "https://github.com/holdfast-py/holdfast/blob/main/"
PAGES = {
    "docs/README.md": "index.md",
    "ARCHITECTURE.md": "architecture.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
}
"""The pages of the site whose place is not their place below ``docs/``."""

DOCSTRINGS = "reference/docstrings.md"
HTTP = "reference/http.md"
OPENAPI = "reference/openapi.json"

_LINK = re.compile(r"(!?\[(?:[^\]\[]|\[[^\]]*\])*\])\(([^)\s#]*)(#[^)\s]*)?\)")
_CODE = re.compile(r"(^```.*?^```)", re.MULTILINE | re.DOTALL)


def prepare(target: Path) -> Path:
    """Write the pages of the site below *target*, and return the file with its settings."""
    shutil.rmtree(target, ignore_errors=True)
    places = _places()
    for source, place in places.items():
        path = target / "pages" / place
        path.parent.mkdir(parents=True, exist_ok=True)
        if source.endswith(".md"):
            text = (ROOT / source).read_text("utf-8")
            path.write_text(_relinked(text, source, places), "utf-8")
        else:
            shutil.copyfile(ROOT / source, path)
    _add_generated(target / "pages")
    settings = target / "zensical.toml"
    settings.write_text(_settings(), "utf-8")
    return settings


def _places() -> dict[str, str]:
    """Return the place in the site of each file, by its path in the repository."""
    files = [path for path in sorted((ROOT / "docs").rglob("*")) if path.is_file()]
    below = {path.relative_to(ROOT).as_posix(): "" for path in files}
    return {source: source.removeprefix("docs/") for source in below} | PAGES


def _relinked(text: str, source: str, places: dict[str, str]) -> str:
    """Return a page with links that are right in the site; code stays as it is."""
    parts = _CODE.split(text)
    for index in range(0, len(parts), 2):
        parts[index] = _LINK.sub(lambda link: _link(link, source, places), parts[index])
    return "".join(parts)


def _link(link: re.Match[str], source: str, places: dict[str, str]) -> str:
    label, target, anchor = link[1], link[2], link[3] or ""
    if not target or "://" in target or target.startswith("mailto:"):
        return link[0]
    path = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
    if path not in places:
        return f"{label}({REPOSITORY}{path}{anchor})"
    start = posixpath.dirname(places[source])
    return f"{label}({posixpath.relpath(places[path], start or '.')}{anchor})"


# The navigation


def navigation() -> list[Any]:
    """Return the navigation: the sections of the index with the titles of their pages."""
    sections: dict[str, list[Any]] = {}
    section = ""
    for line in (ROOT / "docs" / "README.md").read_text("utf-8").splitlines():
        heading = re.fullmatch(r"## (.+)|([A-Z][^|]*):", line)
        row = re.match(r"\| \[([^\]]+)\]\(([^)#]+\.md)\) \| (.*) \|", line)
        if heading:
            section = heading[1] or heading[2]
        elif row:
            title = row[1] if not row[1].isdigit() else f"{row[1]}. {row[3]}"
            place = PAGES.get(posixpath.normpath(f"docs/{row[2]}"), row[2])
            sections.setdefault(section, []).append({title: place})
    sections["Reference"] += [{"Docstrings": DOCSTRINGS}, {"HTTP API": HTTP}]
    more = [{"Contributing": "contributing.md"}, {"Changelog": "changelog.md"}]
    parts = [{title: pages} for title, pages in sections.items()]
    return [{"Documentation": "index.md"}, *parts, {"Project": more}]


def _settings() -> str:
    return f"""[project]
site_name = "Holdfast"
site_description = "Durable workflows in one import."
docs_dir = "pages"
site_dir = "site"
use_directory_urls = false
nav = {_toml(navigation())}

[project.theme]
features = ["content.code.copy", "navigation.instant", "navigation.top", "search.highlight"]

[[project.theme.palette]]
media = "(prefers-color-scheme: light)"
scheme = "default"

[[project.theme.palette]]
media = "(prefers-color-scheme: dark)"
scheme = "slate"
"""


def _toml(value: Any) -> str:
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    pairs = ", ".join(f"{_toml(key)} = {_toml(part)}" for key, part in value.items())
    return f"{{ {pairs} }}"


# Generated pages


def _add_generated(pages: Path) -> None:
    (pages / DOCSTRINGS).write_text(docstrings(), "utf-8")
    document = _openapi()
    (pages / OPENAPI).write_text(json.dumps(document, indent=1), "utf-8")
    (pages / HTTP).write_text(_http(document), "utf-8")


def docstrings() -> str:
    """Return a page with the docstring of every name of the front door, and of its methods."""
    import holdfast

    lines = ["# Docstrings", "", "Every name of `holdfast`, as `help()` shows it.", ""]
    for name in sorted(holdfast.__all__):
        value = getattr(holdfast, name)
        lines += [f"## {name}", "", *_described(name, value)]
        for method, function in _methods(value):
            lines += [f"### {name}.{method}", "", *_described(method, function)]
    return "\n".join(lines)


def _methods(value: Any) -> Iterator[tuple[str, Any]]:
    if inspect.isclass(value):
        for name, function in inspect.getmembers(value, inspect.isfunction):
            if not name.startswith("_") and function.__doc__:
                yield name, function


def _described(name: str, value: Any) -> list[str]:
    try:
        signature = str(inspect.signature(value))
    except (TypeError, ValueError):
        signature = ""
    text = inspect.getdoc(value) or ""
    head = ["```text", f"{name}{signature}", "```", ""] if signature else []
    return [*head, text.replace("``", "`"), ""]


def _openapi() -> dict[str, Any]:
    from importlib.metadata import version

    from holdfast.server.openapi import document
    from holdfast.server.operation_table import OPERATIONS

    return document(OPERATIONS, version("holdfast"))


def _http(document: dict[str, Any]) -> str:
    lines = ["# HTTP API", "", "The [OpenAPI document](openapi.json) has parameters and answers."]
    lines += ["", "| operation | |", "|---|---|"]
    for path, methods in sorted(document["paths"].items()):
        for method, operation in methods.items():
            if isinstance(operation, dict) and "responses" in operation:
                words = str(operation.get("description") or operation.get("summary", "")).split()
                text = " ".join(words).replace("``", "`").replace("|", "&#124;")
                lines.append(f"| `{method.upper()} {path}` | {text} |")
    return "\n".join([*lines, ""])


# Checks


def broken_links(pages: Path) -> list[str]:
    """Return the links of prepared pages that lead to no file of the site."""
    broken = []
    for page in sorted(pages.rglob("*.md")):
        text = "".join(_CODE.split(page.read_text("utf-8"))[::2])
        for link in _LINK.finditer(text):
            target = link[2]
            is_local = bool(target) and "://" not in target and not target.startswith("mailto:")
            if is_local and not (page.parent / target).is_file():
                broken.append(f"{page.relative_to(pages)}: {target}")
    return broken


def main() -> int:
    """Build the site below ``build/docs``; return the exit code."""
    target = ROOT / "build" / "docs"
    settings = prepare(target)
    broken = broken_links(target / "pages")
    if broken:
        print("\n".join(["links that lead nowhere:", *broken]))
        return 1
    command = [
        sys.executable,
        "-m",
        "zensical",
        "build",
        "--strict",
        "--config-file",
        str(settings),
    ]
    code = subprocess.run(command, cwd=target, env=os.environ, check=False).returncode
    if code == 0:
        print(f"built {target / 'site' / 'index.html'}")
    return code


if __name__ == "__main__":
    sys.exit(main())
