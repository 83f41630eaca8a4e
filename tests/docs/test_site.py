"""The site of the documentation, as far as it is made without the program that draws it."""

from __future__ import annotations

import json
import tomllib

import pytest
from tools import docs_site

from tests.docs.pages import ROOT


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    target = tmp_path_factory.mktemp("site")
    settings = docs_site.prepare(target)
    return target / "pages", tomllib.loads(settings.read_text("utf-8"))["project"]


def places(entries):
    for entry in entries:
        for value in entry.values():
            yield from [value] if isinstance(value, str) else places(value)


def test_every_page_is_in_the_navigation_once(site):
    pages, settings = site

    named = list(places(settings["nav"]))

    assert len(named) == len(set(named))
    assert set(named) == {path.relative_to(pages).as_posix() for path in pages.rglob("*.md")}


def test_every_link_leads_to_a_file_of_the_site(site):
    pages, _ = site

    assert docs_site.broken_links(pages) == []
    (pages / "stray.md").write_text("[gone](guides/gone.md)")
    assert docs_site.broken_links(pages) == ["stray.md: guides/gone.md"]
    (pages / "stray.md").unlink()


def test_links_to_the_sources_lead_to_the_repository(site):
    pages, _ = site

    index = (pages / "index.md").read_text("utf-8")

    assert f"[Examples]({docs_site.REPOSITORY}examples)" in index
    assert "[Architecture](architecture.md)" in index
    assert "](../" not in index


def test_the_generated_pages_have_every_name_and_operation(site):
    pages, _ = site
    import holdfast
    from holdfast.server.operation_table import OPERATIONS

    names = (pages / docs_site.DOCSTRINGS).read_text("utf-8")
    http = (pages / docs_site.HTTP).read_text("utf-8")
    document = json.loads((pages / docs_site.OPENAPI).read_text("utf-8"))

    assert [name for name in holdfast.__all__ if f"## {name}\n" not in names] == []
    assert [each.path for each in OPERATIONS if f" {each.path}`" not in http] == []
    assert {each.path for each in OPERATIONS} <= set(document["paths"])


def test_the_site_needs_no_dependency_of_the_package():
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras = [line for lines in declared["optional-dependencies"].values() for line in lines]

    assert not any("zensical" in line for line in [*declared["dependencies"], *extras])
