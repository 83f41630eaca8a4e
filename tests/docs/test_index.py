"""The index of the documentation lists every page."""

from __future__ import annotations

import re

from tests.docs.pages import ROOT

DOCS = ROOT / "docs"
INDEX = DOCS / "README.md"


def test_the_index_lists_every_page():
    targets = re.findall(r"\]\(([^)#]+)", INDEX.read_text("utf-8"))
    listed = {(DOCS / target).resolve() for target in targets}
    pages = [page for page in sorted(DOCS.rglob("*.md")) if page != INDEX]

    assert [page.relative_to(DOCS).as_posix() for page in pages if page not in listed] == []
