"""``import holdfast`` names everything and loads only what is used."""

import subprocess
import sys

import pytest

import holdfast


def test_every_name_is_where_it_is_said_to_be():
    assert {*holdfast._HOME, "sync"} == {*holdfast.__all__}
    for name in holdfast.__all__:
        assert getattr(holdfast, name) is not None
    assert {*holdfast.__all__} <= {*dir(holdfast)}


def test_an_unknown_name_is_refused_as_in_any_module():
    with pytest.raises(AttributeError, match="module 'holdfast' has no attribute 'Engin'"):
        _ = holdfast.Engin


def test_a_module_of_workflows_loads_no_engine():
    code = (
        "import sys, holdfast\n"
        "assert not any(name.startswith('holdfast.') for name in sys.modules)\n"
        "@holdfast.step\ndef add(n): return n + 1\n"
        "@holdfast.workflow\ndef adding(n): return add(n)\n"
        "assert 'holdfast.engine' not in sys.modules, 'the engine was loaded'\n"
        "from holdfast import *\n"
        "assert Engine is holdfast.Engine and holdfast.errors.RunFailed\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
