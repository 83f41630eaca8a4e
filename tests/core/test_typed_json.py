"""JSON and plain data as typed values."""

from __future__ import annotations

import subprocess
import sys

import msgspec
import pytest

from holdfast.core import typed_json

FIRST_USES = """
import sys, threading, msgspec
from holdfast.core.codec import JsonCodec
from holdfast.core import typed_json

sys.setswitchinterval(1e-6)
JSON = b'{"a": {"a": 1}, "b": [{"a": 2, "c": [1]}], "d": "k"}'
PLAIN = msgspec.json.decode(JSON)
USES = {
    "decode": lambda kind: typed_json.decode(JSON, kind),
    "convert": lambda kind: typed_json.convert(PLAIN, kind),
    "codec": lambda kind: JsonCodec().decode(JSON, kind),
}
use = USES[sys.argv[1]]

for _ in range(100):
    class Inner(msgspec.Struct):
        a: int
        b: str = "x"
        c: list[int] = []

    class Outer(msgspec.Struct):
        a: Inner
        b: list[Inner]
        d: str | None = None

    together = threading.Barrier(4)

    def first_use(kind=Outer):
        together.wait()
        assert use(kind).b[0].c == [1]

    threads = [threading.Thread(target=first_use) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
"""


@pytest.mark.parametrize("use", ["decode", "convert", "codec"])
def test_many_threads_may_use_a_type_for_the_first_time(use):
    process = subprocess.run(
        [sys.executable, "-c", FIRST_USES, use], capture_output=True, check=False, timeout=100
    )
    assert (process.returncode, process.stderr) == (0, b"")


def test_data_of_another_type_is_refused():
    with pytest.raises(msgspec.ValidationError):
        typed_json.decode(b'{"a": 1}', list[int])
    with pytest.raises(msgspec.ValidationError):
        typed_json.convert("1", int)
    assert typed_json.convert("1", int, strict=False) == 1
    with pytest.raises(TypeError):
        typed_json.decoder(list[int] | tuple[int, ...])
