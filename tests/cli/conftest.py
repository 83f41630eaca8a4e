"""A folder with workflows, a database of its own for each test, and the command line to call."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import signal
import subprocess
import sys
import termios
import threading
from pathlib import Path

import pytest
from click.testing import CliRunner

import holdfast
from holdfast.authoring import registry
from holdfast.cli.main import cli

PATIENCE = 60
SOURCE = Path(holdfast.__file__).parents[1]

SHOP = """
import sys
import holdfast
from holdfast import compensate, gather, sleep, step, wait_signal, workflow

@step(retries=3, delay="1ms")
def charge(amount: int) -> str:
    if holdfast.info().attempt == 1:
        raise ValueError("no route to bank")
    return f"paid {amount}"

@step
async def pack(item: str) -> str:
    return f"packed {item}"

@step
def hang() -> str:
    print("began", flush=True)
    return sys.stdin.readline().strip()

def refund(payment: str) -> None:
    pass

@workflow
async def checkout(amount: int = 1, items: list[str] = ["a"]) -> dict:
    payment = await charge(amount)
    compensate(refund, payment)
    parcels = await gather(*(pack(item) for item in items))
    return {"payment": payment, "parcels": parcels}

@workflow
async def parcel(item: str) -> str:
    return await pack(item)

@workflow
async def family(items: list[str]) -> list[str]:
    one = await parcel(items[0])
    return [one, *await holdfast.map(parcel, items)]

async def branch(item: str) -> str:
    return await pack(item)

@workflow
async def branches(items: list[str]) -> list[str]:
    return await gather(*(branch(item) for item in items))

@workflow
async def failing() -> None:
    payment = await charge(5)
    compensate(refund, payment)
    raise ValueError("out of stock")

@workflow
async def calling() -> None:
    await failing()

@workflow
async def listener(name: str = "paid", timeout: str | None = None) -> object:
    return await wait_signal(name, timeout=timeout)

@workflow
async def sleeper(length: str) -> None:
    await sleep(length)

@workflow
async def hanging() -> list[str]:
    first = await hang()
    return [first, await pack("second")]

some = [parcel, listener]
not_a_workflow = 42
"""


@pytest.fixture(scope="session")
def folder(tmp_path_factory) -> Path:
    """One folder for all tests: a process must not define a workflow in two places."""
    made = tmp_path_factory.mktemp("shop")
    (made / "shop.py").write_text(SHOP)
    (made / "broken.py").write_text("import holdfast\nraise ValueError('half-written')\n")
    (made / "needy.py").write_text("import no_such_thing\n")
    (made / "syntax.py").write_text("def (\n")
    (made / "empty.py").write_text("x = 1\n")
    return made


_shop: dict[str, list] = {}
"""The workflows of the folder, which are registered when its modules are imported, once."""


@pytest.fixture(autouse=True)
def _shop_is_known(folder):
    """Let the tests of this package alone know the workflows of the folder."""
    registry._registered = {**registry._registered, **_shop}
    yield
    for name, registrations in registry._registered.items():
        if Path(registrations[-1].source.file).parent == folder:
            _shop[name] = registrations


@pytest.fixture
def database(tmp_path) -> Path:
    return tmp_path / "test.db"


class CommandLine:
    """Calls ``holdfast`` in this process, and reads what it prints."""

    def __call__(self, *words, code=0, input=None):
        result = CliRunner().invoke(cli, [str(word) for word in words], input=input)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        assert result.exit_code == code, result.output
        return result

    def text(self, *words, **options) -> str:
        return self(*words, **options).stdout

    def json(self, *words, **options):
        return json.loads(self(*words, "--json", **options).stdout)

    def items(self, *words, **options):
        """The items of the only page of a list."""
        page = self.json(*words, **options)
        assert set(page) == {"items", "next"}
        assert page["next"] is None
        return page["items"]

    def error(self, *words, code=1) -> str:
        """The one line on stderr, and nothing on stdout."""
        result = self(*words, code=code)
        assert result.stdout == ""
        assert result.stderr.startswith("holdfast: ")
        assert result.stderr.count("\n") == 1
        return result.stderr.strip()

    def start(self, target, *words) -> str:
        """Start a run, let nobody work on it, and return its id."""
        return self.text("run", target, *words, "--detach").strip()

    def run(self, target, *words):
        """Start a run, work until it has ended, and return its result."""
        return json.loads(self.text("run", target, *words))


@pytest.fixture
def call(folder, database, monkeypatch) -> CommandLine:
    monkeypatch.chdir(folder)
    monkeypatch.setenv("HOLDFAST_DB", str(database))
    monkeypatch.delenv("HOLDFAST_DEBUG", raising=False)
    monkeypatch.setattr(sys, "path", [*sys.path])
    return CommandLine()


class Process:
    """``holdfast`` in a process of its own, heard line by line."""

    def __init__(self, *words, cwd, env=None, **options):
        self.process = subprocess.Popen(
            [sys.executable, "-m", "holdfast", *map(str, words)],
            cwd=cwd,
            env={**environment(), **(env or {})},
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            **options,
        )
        self.lines: list[str] = []
        self.heard = threading.Condition()
        streams = (self.process.stdout, self.process.stderr)
        self.ears = [
            threading.Thread(target=self.listen, args=(stream,), daemon=True) for stream in streams
        ]
        for ear in self.ears:
            ear.start()

    def listen(self, stream):
        for line in stream:
            with self.heard:
                self.lines.append(line)
                self.heard.notify_all()

    def wait_for(self, words):
        with self.heard:
            found = self.heard.wait_for(lambda: any(words in line for line in self.lines), PATIENCE)
        assert found, (words, self.lines)

    def tell(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def send(self, number=signal.SIGTERM):
        self.process.send_signal(number)

    def ended(self) -> int:
        """Wait for its end, and until all that it has said was heard."""
        code = self.process.wait(PATIENCE)
        for ear in self.ears:
            ear.join(PATIENCE)
        return code

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(PATIENCE)
        for ear in self.ears:
            ear.join(PATIENCE)
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            stream.close()


def environment() -> dict[str, str]:
    """The environment of a process that finds the same Holdfast as this one."""
    path = os.pathsep.join([str(SOURCE), os.environ.get("PYTHONPATH", "")])
    return {**os.environ, "PYTHONPATH": path, "PYTHONIOENCODING": "utf-8"}


@pytest.fixture
def env(database) -> dict[str, str]:
    return {**environment(), "HOLDFAST_DB": str(database)}


@pytest.fixture
def process(folder, database):
    """Start ``holdfast`` with these words in a process of its own."""
    if (
        signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    ):  # a shell's background: what it ignores, its children would ignore
        signal.signal(signal.SIGINT, signal.default_int_handler)
    started: list[Process] = []

    def start(*words, **options):
        options.setdefault("cwd", folder)
        made = Process(*words, env={"HOLDFAST_DB": str(database)}, **options)
        started.append(made)
        return made

    yield start
    for made in started:
        made.close()


@pytest.fixture
def execute(folder, database):
    """Run ``holdfast`` with these words in a process of its own and return when it has ended."""

    def run(*words, env=None, **options):
        options.setdefault("cwd", folder)
        return subprocess.run(
            [sys.executable, "-m", "holdfast", *map(str, words)],
            env={**environment(), "HOLDFAST_DB": str(database), **(env or {})},
            capture_output=True,
            text=True,
            timeout=200,
            encoding="utf-8",
            **options,
        )

    return run


@pytest.fixture
def terminal(folder, database):
    """Run ``holdfast`` with these words on a terminal and return what it shows; with *until*, press
    Ctrl-C when it shows that text."""

    def run(*words, until=None):
        ours, theirs = pty.openpty()
        process = subprocess.Popen(
            [sys.executable, "-m", "holdfast", *words],
            cwd=folder,
            env={**environment(), "HOLDFAST_DB": str(database), "TERM": "xterm-256color"},
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        os.close(theirs)
        said = _read_all(ours, until)
        assert process.wait(PATIENCE) == 0, said
        return said

    return run


def _read_all(descriptor: int, until: str | None = None) -> str:
    said = b""
    pressed = until is None
    try:
        while chunk := os.read(descriptor, 4096):
            said += chunk
            if not pressed and until.encode() in said:
                os.write(descriptor, b"\x03")
                pressed = True
    except OSError:  # the other side was closed
        pass
    os.close(descriptor)
    return said.decode()
