"""README.md and the guide show one set of figures, which ``make figures`` writes."""

from __future__ import annotations

import pathlib
import shutil

import pytest

from bench import publish, report
from bench.rounds import Contestant, Rounds, contestants
from bench.scenario import PEERS, Scenario, Target

ROOT = pathlib.Path(__file__).parent.parent
PAGES = ("README.md", "docs/guides/performance.md")


def results(rate: float = 4000.0):
    scenario = Scenario(
        "s1", "steps", "rate", "steps/s", targets=(Target("sqlite", "rate", 2, "raw"),)
    )
    rounds = [
        {
            "holdfast/sqlite": {"rate": rate, "all_cpu_ms_per_step": 0.2},
            "holdfast/postgres": {"rate": 2000.0, "all_cpu_ms_per_step": 0.4},
            "raw/sqlite": {"rate": 5000.0, "all_cpu_ms_per_step": 0.1},
            "restate/own": {"rate": 500.0, "all_cpu_ms_per_step": 1.5},
        }
    ]
    return {
        "date": "2030-01-02",
        "machine": {"cpus": 2, "cpu": "a processor", "system": "Linux 6", "python": "3.11.7"},
        "versions": {"holdfast": "0.1.0", "restate": "1.7.12"},
        "scenarios": {
            "s1": {
                "title": scenario.title,
                "rounds": rounds,
                "medians": report.medians(rounds),
                "targets": report.verdicts(scenario, rounds),
            }
        },
    }


@pytest.fixture
def copied(tmp_path):
    """A folder with the pages, and without figures."""
    for page in PAGES:
        (tmp_path / page).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / page, tmp_path / page)
    (tmp_path / publish.FILE).parent.mkdir(parents=True)
    return tmp_path


def test_the_pages_show_the_figures_of_the_file():
    assert publish.stale(ROOT) == []


def test_published_figures_have_their_date_their_machine_and_every_peer(copied):
    publish.publish(results(), copied)

    for page in PAGES:
        text = (copied / page).read_text("utf-8")
        assert "Measured on 2030-01-02 on 2 cores (a processor)" in text
        assert "Compared: Restate 1.7.12." in text
        assert "| | Holdfast | Restate | bare driver |" in text
        assert "| steps in sequence per second | 4,000 / 2,000 | 500 | 5,000 / - |" in text
    guide = (copied / PAGES[1]).read_text("utf-8")
    assert (
        "| S1 rate, of bare driver | sqlite | 0.8 | 0.8 to 0.8 | at least 2.00 | not reached |"
        in guide
    )
    assert publish.stale(copied) == []


def test_a_page_with_other_figures_than_the_file_is_stale(copied):
    publish.publish(results(), copied)
    page = copied / "README.md"
    page.write_text(page.read_text("utf-8").replace("4,000 / 2,000", "9,000 / 2,000"), "utf-8")

    assert publish.stale(copied) == ["README.md"]


def test_figures_of_a_later_run_replace_all_earlier_ones(copied):
    publish.publish(results(), copied)
    publish.publish(results(rate=4500.0), copied)

    text = (copied / "README.md").read_text("utf-8")
    assert "4,500 / 2,000" in text
    assert "4,000 / 2,000" not in text
    assert text.count(publish.BEGIN) == text.count(publish.END) == 1


def test_a_peer_with_a_store_of_its_own_takes_part_whichever_store_is_asked_for():
    from bench.scenarios import s1

    taking_part = contestants(s1, {*PEERS}, {"sqlite"})

    assert Contestant("restate", "own") in taking_part
    assert Contestant("openworkflow", "sqlite") in taking_part
    assert {one.store for one in taking_part} == {"sqlite", "own"}


def test_a_ratio_to_a_peer_with_its_own_store_is_of_the_same_round():
    target = Target("sqlite", "rate", 1, "restate")

    assert report.ratios(results()["scenarios"]["s1"]["rounds"], target) == [8.0]


def test_no_round_begins_that_would_not_end_in_time(tmp_path):
    lines: list[str] = []
    measuring = Rounds(None, tmp_path, lines.append)
    scenario = Scenario("none", "nothing", "rate", "per s")

    rounds = measuring.run(scenario, report, [], 3, {}, seconds=-1.0)

    assert rounds == [{}]
    assert lines == ["  no time for more than 1 of 3 rounds"]
