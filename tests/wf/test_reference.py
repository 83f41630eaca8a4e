import sys

from tests.wf.cases import ROOT

sys.path.insert(0, str(ROOT / "tools"))
import wf_reference

TEXT = wf_reference.PAGE.read_text("utf-8")


def test_the_tables_of_the_reference_are_those_of_the_parser():
    """If this fails, run ``python tools/wf_reference.py``."""
    assert wf_reference.updated(TEXT) == TEXT
    assert wf_reference.missing_kinds(TEXT) == set()


def test_a_new_option_makes_the_page_stale(monkeypatch):
    rules = wf_reference.OPTIONS["call"]
    monkeypatch.delitem(rules, "retries")

    assert wf_reference.updated(TEXT) != TEXT
