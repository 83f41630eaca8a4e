from datetime import UTC, datetime

import pytest
from examples.scheduled_invoices.workflow import main, write_invoices

from holdfast.authoring import registry
from holdfast.testing import Lab, VirtualClock

registry._registered.pop(
    "write_invoices", None
)  # engines of other tests must not start it by themselves


@pytest.fixture
def lab():
    with Lab(
        clock=VirtualClock(datetime(2026, 2, 28, tzinfo=UTC)),
        workflows=[write_invoices],
        schedules=True,
    ) as lab:
        yield lab


def test_each_month_has_its_invoices_though_nobody_was_there_for_a_while(lab):
    lab.advance("65d")

    runs = sorted(lab.engine.runs(), key=lambda run: run.key)
    assert [lab.engine.run(run.id).result(timeout=60)[0][:7] for run in runs] == [
        "2026-02",
        "2026-03",
        "2026-04",
    ]


def test_it_is_six_in_the_morning_in_winter_and_in_summer(lab):
    hours = {
        tick.astimezone(UTC).hour for tick in lab.engine.schedules.next("monthly invoices", 12)
    }

    assert hours == {4, 5}


def test_a_crash_anywhere_changes_nothing(crash_everywhere):
    crash_everywhere(
        write_invoices, options={"key": "schedule monthly invoices 2026-03-01T05:00:00Z"}
    )


def test_the_program_runs(tmp_path, capsys):
    main(str(tmp_path / "invoices.db"))

    assert capsys.readouterr().out.splitlines() == [
        "the next twelve are all at 06:00 in Berlin",
        "2026-01: Anna owes 40",
        "2026-01: Ben owes 25",
        "2026-02: Anna owes 40",
        "2026-02: Ben owes 25",
    ]
