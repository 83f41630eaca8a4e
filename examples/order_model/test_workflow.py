import pytest
from examples.order_model import workflow as example
from examples.order_model.workflow import MODEL, ledger, main


@pytest.fixture
def lab(holdfast_lab):
    ledger.clear()
    holdfast_lab.engine.models.deploy(MODEL)
    return holdfast_lab


def test_an_order_is_shipped(lab):
    assert lab.run_to_end("order-model", {"item": "book", "amount": 30})["parcel"]
    assert ledger == ["reserve book", "charge 30", "ship book"]


def test_what_cannot_be_shipped_is_undone_in_reverse_order(lab):
    result = lab.run_to_end("order-model", {"item": "moon rock", "amount": 30})

    assert "parcel" not in result
    assert ledger[-2:] == ["refund p-30", "release r-moon rock"]


def test_a_large_order_waits_for_a_manager(lab):
    run = lab.start("order-model", {"item": "car", "amount": 20_000})
    lab.run_until_idle()

    (task,) = lab.engine.models.tasks(role="managers")
    lab.engine.models.complete(task.id, {"discount": 0.1}, by="eve")

    assert lab.finish(run)["discount"] == 0.1


def test_a_worker_that_is_killed_undoes_nothing_twice(lab):
    run = lab.start("order-model", {"item": "moon rock", "amount": 2000})
    lab.run_until_idle()
    (task,) = lab.engine.models.tasks()
    lab.engine.models.complete(task.id, by="eve")
    lab.crash()

    lab.finish(run)

    assert ledger.count("refund p-2000") == ledger.count("release r-moon rock") == 1


def test_the_program_runs(tmp_path, monkeypatch, capsys):
    ledger.clear()
    monkeypatch.chdir(tmp_path)

    main()

    assert "ship book" in capsys.readouterr().out
    assert example.MODEL.exists()
