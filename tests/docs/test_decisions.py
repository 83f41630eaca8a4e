"""Decision records have unique numbers without gaps, one form, and are short."""

from __future__ import annotations

import re

import pytest

from tests.docs.pages import ROOT, label

RECORDS = sorted((ROOT / "docs" / "decisions").glob("*.md"))


def test_the_numbers_are_unique_and_without_gaps():
    numbers = [int(record.name.split("-")[0]) for record in RECORDS]

    assert numbers == list(range(1, len(RECORDS) + 1))


@pytest.mark.parametrize("record", RECORDS, ids=label)
def test_a_record_has_context_decision_and_price(record):
    text = record.read_text("utf-8")

    assert text.startswith(f"# {int(record.name.split('-')[0])}. ")
    assert re.findall(r"^\*\*(.+?)\.\*\*", text, re.MULTILINE) == [
        "Context",
        "Decision",
        "What we gave up",
    ]


@pytest.mark.parametrize("record", RECORDS, ids=label)
def test_a_record_is_short(record):
    assert len(record.read_text("utf-8").splitlines()) <= 15
