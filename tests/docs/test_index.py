"""The index of the documentation lists every page."""

from __future__ import annotations

import re

from tests.docs.pages import ROOT

DOCS = ROOT / "docs"
INDEX = DOCS / "README.md"
NOT_OF_A_FEATURE = {"deployment.md", "performance.md", "scaling.md"}


def test_the_index_lists_every_page():
    targets = re.findall(r"\]\(([^)#]+)", INDEX.read_text("utf-8"))
    listed = {(DOCS / target).resolve() for target in targets}
    pages = [page for page in sorted(DOCS.rglob("*.md")) if page != INDEX]

    assert [page.relative_to(DOCS).as_posix() for page in pages if page not in listed] == []


def test_a_guide_of_a_feature_ends_with_how_it_works():
    endings = {
        page.name: re.findall(r"^## (.+)$", page.read_text("utf-8"), re.MULTILINE)[-1]
        for page in sorted((DOCS / "guides").glob("*.md"))
        if page.name not in NOT_OF_A_FEATURE
    }

    assert {name for name, heading in endings.items() if heading != "How it works"} == set()


def test_the_list_of_examples_has_each_of_them():
    examples = ROOT / "examples"
    text = (examples / "README.md").read_text("utf-8")
    listed = {target.split("/")[0] for target in re.findall(r"\]\(([^)#]+)", text)}

    assert listed == {path.parent.name for path in examples.glob("*/test_*.py")}
