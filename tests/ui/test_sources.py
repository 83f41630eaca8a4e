"""The sources of the web UI: no markup from text, nothing from outside, small, typed."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from tools import npm

ROOT = Path(__file__).parents[2]
UI = ROOT / "src" / "holdfast" / "server" / "ui"
TSC = ROOT / ".tools" / "node_modules" / "typescript" / "bin" / "tsc"
SCRIPTS = sorted(UI.rglob("*.js"))
FORBIDDEN = re.compile(
    r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function|DOMParser"
)


def test_there_are_scripts():
    assert len(SCRIPTS) > 15


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: str(path.relative_to(UI)))
def test_a_script_never_parses_markup(script):
    assert FORBIDDEN.search(script.read_text()) is None


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: str(path.relative_to(UI)))
def test_a_script_imports_only_its_neighbours(script):
    for target in re.findall(r"(?:\} from |import\()'([^']+)'", script.read_text()):
        assert target.startswith(("./", "../"))
        assert (script.parent / target).resolve().is_relative_to(UI)
        assert (script.parent / target).is_file()


def test_the_page_loads_nothing_from_outside_and_has_no_inline_script():
    page = (UI / "index.html").read_text()

    assert "http" not in page
    assert re.findall(r"<script(?![^>]*\bsrc=)", page) == []
    assert "style=" not in page


def test_the_first_screen_is_small():
    first = [UI / "app.js", UI / "app.css", UI / "index.html", UI / "icon.svg"]
    first += [*(UI / "lib").glob("*.js"), *(UI / "parts").glob("*.js")]
    first += [UI / "screens" / "index.js", UI / "screens" / "overview.js"]

    assert len(first) <= 40
    assert sum(path.stat().st_size for path in first) <= 150_000


@pytest.mark.needs_tool("typescript")
def test_the_types_of_the_scripts_agree():
    options = "--noEmit --checkJs --allowJs --strict --target es2022 --module es2022"
    options += " --moduleResolution bundler --lib es2023,dom,dom.iterable"

    checked = subprocess.run(
        ["node", str(TSC), *options.split(), *map(str, SCRIPTS)],
        env=npm.environment(),
        capture_output=True,
        text=True,
        check=False,
    )

    assert checked.stdout == ""
    assert checked.returncode == 0
