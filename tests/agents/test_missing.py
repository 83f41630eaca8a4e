"""Frameworks are loaded by those who use them, and by nobody else; who lacks one is told what to
install."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest

from holdfast.errors import BadOption

LIBRARIES = {
    "pydantic_ai": ("pydantic_ai", "pydantic-ai"),
    "openai_agents": ("agents", "openai-agents"),
    "langgraph": ("langgraph", "langgraph"),
}


@pytest.mark.parametrize("module", LIBRARIES)
def test_who_lacks_a_library_is_told_what_to_install(module, monkeypatch):
    library, extra = LIBRARIES[module]
    for name in [name for name in sys.modules if name.partition(".")[0] == library]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, library, None)
    monkeypatch.delitem(sys.modules, f"holdfast.agents.{module}", raising=False)

    with pytest.raises(BadOption) as missing:
        importlib.import_module(f"holdfast.agents.{module}")

    assert f"pip install 'holdfast[{extra}]'" in str(missing.value)


def test_nobody_else_loads_them():
    names = sorted(library for library, _ in LIBRARIES.values())
    code = (
        f"import sys, holdfast, holdfast.agents, holdfast.fencing; assert not set({names}) &"
        " set(sys.modules)"
    )

    subprocess.run([sys.executable, "-c", code], check=True)
