"""A link leads somewhere."""

from __future__ import annotations

import re
from pathlib import Path

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
    targets = re.findall(r"\]\(#([^)]+)\)", page.read_text("utf-8"))

    assert [target for target in targets if target not in anchors_of(page)] == []


@pytest.mark.parametrize("page", ALL, ids=label)
def test_every_link_into_another_page_leads_to_a_heading(page):
    links = re.findall(r"\]\(([^)#:]+\.md)#([^)]+)\)", page.read_text("utf-8"))

    assert [link for link in links if link[1] not in anchors_of(page.parent / link[0])] == []


def anchors_of(page: Path) -> set[str]:
    lines = page.read_text("utf-8").splitlines()
    return {anchor(line.lstrip("# ")) for line in lines if line.startswith("#")}


def anchor(heading: str) -> str:
    return re.sub(r"[^\w\- ]", "", heading).lower().replace(" ", "-")
