import pytest
from examples.order_saga.workflow import Order, World, buy, main, world

from holdfast.errors import RunFailed


@pytest.fixture(autouse=True)
def clean_world():
    reset()


def reset():
    vars(world).update(vars(World()))


def test_a_good_order_is_shipped(holdfast_lab):
    assert holdfast_lab.run_to_end(buy, Order("good", ["tea"], "visa")) == "parcel of good"

    assert len(world.reserved) == len(world.charged) == 1
    assert world.shipped == ["good"]


def test_a_refused_card_is_not_tried_again_and_frees_what_was_reserved(holdfast_lab):
    run = holdfast_lab.start(buy, Order("poor", ["tea"], "refused"))

    with pytest.raises(RunFailed):
        holdfast_lab.finish(run)

    assert world == World()
    assert [event.step for event in holdfast_lab.history(run) if event.step] == [
        "reserve",
        "charge",
        "undo release",
    ]


def test_what_cannot_be_shipped_is_refunded_first_and_then_released(holdfast_lab):
    run = holdfast_lab.start(buy, Order("odd", ["unicorn"], "visa"))

    with pytest.raises(RunFailed):
        holdfast_lab.finish(run)

    assert world == World()
    assert [event.step for event in holdfast_lab.history(run) if event.step][-2:] == [
        "undo refund",
        "undo release",
    ]


@pytest.mark.parametrize(
    "order",
    [Order("good", ["tea"], "visa"), Order("odd", ["unicorn"], "visa")],
    ids=lambda order: order.id,
)
def test_a_crash_anywhere_changes_nothing(order, crash_everywhere):
    def check(lab):
        assert len(world.reserved) == len(world.charged) == (1 if order.id == "good" else 0)

    crash_everywhere(buy, order, setup=reset, check=check)


def test_the_program_runs(tmp_path, capsys):
    main(str(tmp_path / "shop.db"))

    assert capsys.readouterr().out.splitlines()[-1] == "reserved: 1, charged: 1, shipped: 1"
