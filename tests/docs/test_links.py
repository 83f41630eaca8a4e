"""A link leads somewhere."""

from __future__ import annotations

import re

import pytest

from tests.docs.pages import PAGES, ROOT, label

ALL = [*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]


@pytest.mark.parametrize("page", ALL, ids=label)
def test_every_link_to_a_file_leads_to_one(page):
    targets = re.findall(r"\]\(([^)#]+)", page.read_text("utf-8"))
    local = [target for target in targets if "://" not in target]

    assert [target for target in local if not (page.parent / target).exists()] == []


@pytest.mark.parametrize("page", ALL, ids=label)
def test_every_link_within_a_page_leads_to_a_heading(page):
    text = page.read_text("utf-8")
    anchors = {anchor(line.lstrip("# ")) for line in text.splitlines() if line.startswith("#")}

    assert [target for target in re.findall(r"\]\(#([^)]+)\)", text) if target not in anchors] == []


def anchor(heading: str) -> str:
    return re.sub(r"[^\w\- ]", "", heading).lower().replace(" ", "-")
