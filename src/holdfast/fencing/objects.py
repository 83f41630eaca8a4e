"""Objects that an old generation cannot write: a look, then a write that holds only if nothing has
changed since.

What a store of objects must offer is small: an entity tag, metadata, and writes under ``If-Match``
and ``If-None-Match``, as S3 and those like it have them. An object belongs to the run that wrote it
first.
"""

from __future__ import annotations

import hashlib
import json
import os
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from holdfast.core.text import is_storable
from holdfast.errors import BadOption, Fenced
from holdfast.fencing.fence import Fence, given
from holdfast.fencing.http import plain

RUN, GENERATION, KEY = "holdfast-run", "holdfast-generation", "holdfast-key"


class StoredObject(NamedTuple):
    """What is known of an object without reading it."""

    etag: str
    metadata: Mapping[str, str]


class TooLate(Exception):
    """The object is no longer as it was when it was looked at. Raised by ``Objects.write``."""


class Objects(Protocol):
    """A place for objects."""

    def look(self, name: str) -> StoredObject | None:
        """Return what is known of an object, or None if there is none."""
        ...

    def write(self, name: str, data: bytes, metadata: Mapping[str, str], seen: str | None) -> str:
        """Write an object if it still has the tag *seen*, or, for None, if there is none. Return
        its new tag. Raises TooLate."""
        ...


def put(
    objects: Objects, name: str, data: bytes, *, fence: Fence | None = None, seen: str | None = None
) -> str:
    """Write an object of this run, over what an attempt before this one has written, and return its
    tag.

    With *seen* it is written only if it still has that tag, whosever it is. Raises Fenced."""
    mine = given(fence)
    if not isinstance(name, str) or not name or not is_storable(name):
        raise BadOption(option="name", value=name, why="an object has a name")
    if not isinstance(data, bytes | bytearray | memoryview):
        raise BadOption(option="data", value=type(data).__name__, why="an object is made of bytes")
    metadata = {RUN: plain(mine.run_id), GENERATION: str(mine.generation), KEY: plain(mine.key)}
    while True:
        found = objects.look(name)
        tag = None if found is None else _passed(name, found, mine, seen)
        if seen is not None and found is None:
            raise Fenced(object=name, run=mine.run_id, generation=mine.generation, why="it is gone")
        try:
            return objects.write(name, bytes(data), metadata, tag)
        except TooLate:
            continue  # somebody was faster: look who


def _passed(name: str, found: StoredObject, mine: Fence, seen: str | None) -> str:
    """Return the tag that the object must still have when it is written over. Raises Fenced."""
    told = {key.lower(): value for key, value in found.metadata.items()}
    facts: dict[str, Any] = {"object": name, "run": mine.run_id, "generation": mine.generation}
    owner, generation = told.get(RUN), told.get(GENERATION, "")
    if owner == plain(mine.run_id):
        newer = int(generation) if generation.isdigit() else 0
        if newer > mine.generation:
            raise Fenced(**facts, newer=newer)
        if told.get(KEY) == plain(mine.key):
            return found.etag  # an attempt before this one wrote it
    if seen is not None:
        if found.etag != seen:
            raise Fenced(**facts, why="it has changed since it was seen")
    elif owner != plain(mine.run_id):
        raise Fenced(**facts, belongs_to=owner)
    return found.etag


class Files:
    """Objects as files in a folder. What is known of each is in a file beside it."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)

    def look(self, name: str) -> StoredObject | None:
        """Return what is known of a file."""
        path = self._path(name)
        note, data = _read(self._beside(path, "fence")), _read(path)
        if note is None and data is None:
            return None
        return StoredObject(_tag(note or b"{}", data), json.loads(note or b"{}"))

    def write(self, name: str, data: bytes, metadata: Mapping[str, str], seen: str | None) -> str:
        """Write a file, whole or not at all. The note beside it comes first: a crash between the
        two lets nobody older in."""
        path = self._path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        with _locked(self._beside(path, "lock")):
            found = self.look(name)
            if (None if found is None else found.etag) != seen:
                raise TooLate(name)
            note = json.dumps(dict(metadata)).encode()
            self._replace(self._beside(path, "fence"), note)
            self._replace(path, data)
        return _tag(note, data)

    def _path(self, name: str) -> Path:
        path = self.folder / name
        parts = Path(name).parts
        if (
            not parts
            or Path(name).is_absolute()
            or any(part in ("..", ".") or part.startswith(".") for part in parts)
        ):
            raise BadOption(
                option="name",
                value=name,
                why="it must be a name within the folder that does not begin with a dot",
            )
        return path

    def _beside(self, path: Path, kind: str) -> Path:
        return path.with_name(f".{path.name}.{kind}")

    def _replace(self, path: Path, data: bytes) -> None:
        draft = path.with_name(f"{path.name}.{os.getpid()}.draft")
        with draft.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


def _tag(note: bytes, data: bytes | None) -> str:
    """Return a tag that tells the same contents apart when somebody else has written them."""
    return hashlib.sha256(
        hashlib.sha256(note).digest() + (b"" if data is None else hashlib.sha256(data).digest())
    ).hexdigest()


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold a lock among all processes of this machine."""
    with path.open("a+b") as file:
        if os.name == "nt":  # pragma: no cover
            import msvcrt

            msvcrt.locking(file.fileno(), msvcrt.LK_LOCK, 1)  # type: ignore[attr-defined,unused-ignore]
        else:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX)
        yield


Sent = tuple[int, Mapping[str, str]]
Send = Callable[[str, str, Mapping[str, str], bytes | None], Sent]
"""Sends a request: method, URL, headers, body; returns the status and the headers of the answer."""


class HttpObjects:
    """Objects behind HTTP, as S3 and those like it have them. *send* makes requests with your own
    client, and signs them."""

    def __init__(self, url: str, *, send: Send | None = None, prefix: str = "x-amz-meta-") -> None:
        self.url, self._send, self._prefix = url.rstrip("/"), send or _send, prefix

    def look(self, name: str) -> StoredObject | None:
        """Ask for the headers of an object."""
        status, told = self._send("HEAD", self._at(name), {}, None)
        if status == 404:
            return None
        _accept(status, name)
        own = {key.lower(): value for key, value in told.items()}
        return StoredObject(
            own["etag"],
            {
                key.removeprefix(self._prefix): value
                for key, value in own.items()
                if self._prefix in key
            },
        )

    def write(self, name: str, data: bytes, metadata: Mapping[str, str], seen: str | None) -> str:
        """Write an object under a condition."""
        condition = {"If-None-Match": "*"} if seen is None else {"If-Match": seen}
        meta = {self._prefix + key: value for key, value in metadata.items()}
        status, told = self._send("PUT", self._at(name), {**condition, **meta}, data)
        if status in (409, 412) or (
            status == 404 and seen is not None
        ):  # written by others at this moment, changed, or gone
            raise TooLate(name)
        _accept(status, name)
        return {key.lower(): value for key, value in told.items()}["etag"]

    def _at(self, name: str) -> str:
        if {"", ".", ".."} & set(name.split("/")):
            raise BadOption(option="name", value=name, why="its parts are names, not . or ..")
        return f"{self.url}/{urllib.parse.quote(name)}"


def _accept(status: int, name: str) -> None:
    if not 200 <= status < 300:
        raise OSError(f"the store of objects answered {status} for {name!r}")


def _send(method: str, url: str, headers: Mapping[str, str], body: bytes | None) -> Sent:
    request = urllib.request.Request(url, data=body, headers=dict(headers), method=method)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, dict(answer.headers)
    except urllib.error.HTTPError as refused:
        with refused:
            return refused.code, dict(refused.headers)
