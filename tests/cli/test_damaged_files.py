"""Files with flipped bits: no command shows a raw error, and `db check` calls none of them sound
that SQLite rejects."""

from __future__ import annotations

import random
import sqlite3
from contextlib import closing

import pytest
from click.testing import CliRunner

from holdfast.cli import main
from holdfast.errors import HoldfastError
from holdfast.testing.clock import VirtualClock
from tests.engine import every_feature

PAGE = 4096
SEEDS = range(12)
COMMANDS = [
    "runs",
    "show sleeper",
    "why sleeper",
    "tail sleeper",
    "gates",
    "waits",
    "budgets",
    "schedules",
    "lanes",
    "workers",
    "flows",
    "graphs",
    "graphs show graph",
    "graphs why graph c",
    "events",
    "db retention",
    "events subscriptions",
    "db info",
    "db prune --older-than 1s --dry-run",
    "signal listener paid 1",
    "cancel delayed",
    "flows wake",
]


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    path = tmp_path_factory.mktemp("files") / "sound.db"
    every_feature.populate(str(path), VirtualClock())
    return path.read_bytes()


def flipped(content: bytes, seed: int) -> bytes:
    """Return the content with one page damaged: bits, its header, or all of it."""
    dice = random.Random(seed)
    damaged = bytearray(content)
    begin = dice.randrange(len(damaged) // PAGE) * PAGE
    way = dice.randrange(4)
    if way == 0:
        damaged[begin : begin + PAGE] = bytes(PAGE)
    elif way == 1:
        other = dice.randrange(len(damaged) // PAGE) * PAGE
        damaged[begin : begin + PAGE] = damaged[other : other + PAGE]
    else:
        span = PAGE if way == 2 else 12
        for _ in range(20):
            damaged[begin + dice.randrange(span)] ^= 1 << dice.randrange(8)
    return bytes(damaged)


def is_rejected(path) -> bool:
    try:
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as db:
            return db.execute("PRAGMA integrity_check").fetchall() != [("ok",)]
    except sqlite3.Error:
        return True


def raised_by(path, command: str) -> BaseException | None:
    """Return what a command raises besides errors of ours and its exit."""
    error = (
        CliRunner()
        .invoke(main.cli, ["--db", str(path), *command.split()], standalone_mode=False)
        .exception
    )
    return None if isinstance(error, HoldfastError | SystemExit) else error


@pytest.mark.parametrize("seed", SEEDS)
def test_no_command_shows_a_raw_error_for_a_damaged_file(sound, tmp_path, seed):
    path = tmp_path / "damaged.db"
    path.write_bytes(flipped(sound, seed))
    rejected = is_rejected(path)

    checked = CliRunner().invoke(main.cli, ["--db", str(path), "db", "check"])

    assert checked.exit_code == 1 or not rejected
    assert {
        command: error for command in COMMANDS if (error := raised_by(path, command)) is not None
    } == {}
