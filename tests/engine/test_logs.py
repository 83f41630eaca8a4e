"""Log records of runs name their run, and log lines can be JSON."""

from __future__ import annotations

import asyncio
import json
import logging

from holdfast import step, workflow
from holdfast.logs import JsonFormatter, RunFields

LOG = logging.getLogger("shop.parcels")


@step
async def logs_a_line(number: int) -> int:
    LOG.warning("packed %d", number, extra={"shelf": 7})
    return number


@step
def logs_in_a_thread(number: int) -> int:
    LOG.warning("shipped %d", number)
    return number


@workflow
async def logs_lines() -> None:
    await logs_a_line(1)
    await logs_in_a_thread(2)


class Lines(logging.Handler):
    def __init__(self):
        super().__init__()
        self.addFilter(RunFields())
        self.setFormatter(JsonFormatter())
        self.lines = []

    def emit(self, record):
        self.lines.append(json.loads(self.format(record)))


def test_records_of_steps_name_their_run(engine):
    handler = Lines()
    LOG.addHandler(handler)
    try:
        run = engine.start(logs_lines)
        run.result(timeout="30s")
    finally:
        LOG.removeHandler(handler)

    packed, shipped = handler.lines
    assert packed["message"] == "packed 1" and packed["level"] == "warning"
    assert (packed["run"], packed["workflow"]) == (run.id, "logs_lines")
    assert (packed["step"], packed["attempt"], packed["shelf"]) == ("logs_a_line", 1, 7)
    assert shipped["step"] == "logs_in_a_thread"
    assert packed["time"].endswith("Z")


def test_records_of_the_engine_name_their_run(engine):
    handler = Lines()
    logging.getLogger("holdfast").addHandler(handler)

    @workflow(name="stuck_by_waiting")
    async def waits_for_nothing() -> None:
        await asyncio.get_running_loop().create_future()

    try:
        run = engine.start(waits_for_nothing)
        run.wait_until("stuck", timeout="30s")
    finally:
        logging.getLogger("holdfast").removeHandler(handler)

    (line,) = [line for line in handler.lines if line["level"] == "error"]
    assert (line["run"], line["workflow"]) == (run.id, "stuck_by_waiting")


def test_a_line_of_json_has_its_traceback_and_is_one_line():
    handler = Lines()
    logger = logging.getLogger("shop.single")
    logger.addHandler(handler)
    try:
        raise ValueError("two\nlines")
    except ValueError:
        logger.exception("failed")
    finally:
        logger.removeHandler(handler)

    (line,) = handler.lines
    assert line["error"].endswith("ValueError: two\nlines")
    assert "run" not in line
