"""Fenced writes to an object store, by compare-and-swap on the entity tag.

A write first reads the metadata of the object, refuses to replace the object of a newer generation
or another run, and then writes on condition that the entity tag has not changed. The store must
offer an entity tag, metadata, and writes with ``If-Match`` and ``If-None-Match``, as S3 and
compatible stores do. An object belongs to the run that wrote it first.
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
from holdfast.fencing.fence import Fence, fence_or_current
from holdfast.fencing.http import plain

RUN = "holdfast-run"
GENERATION = "holdfast-generation"
KEY = "holdfast-key"
"""The names of the metadata that hold the fence of the last write."""


class StoredObject(NamedTuple):
    """The entity tag and the metadata of an object."""

    etag: str
    metadata: Mapping[str, str]


class TooLate(Exception):
    """The object has changed since its tag was read. Raised by ``Objects.write``."""


class Objects(Protocol):
    """The interface of an object store."""

    def look(self, name: str) -> StoredObject | None:
        """Return the tag and the metadata of an object; None if it does not exist."""
        ...

    def write(self, name: str, data: bytes, metadata: Mapping[str, str], seen: str | None) -> str:
        """Write an object if its tag is still *seen* or, for None, if it does not exist. Return its
        new tag. Raises TooLate."""
        ...


def put(
    objects: Objects, name: str, data: bytes, *, fence: Fence | None = None, seen: str | None = None
) -> str:
    """Write an object of this run, replacing what an earlier attempt has written, and return its
    tag.

    With *seen* the object is written only if it still has that tag, regardless of the run it
    belongs to. Raises Fenced."""
    own = fence_or_current(fence)
    if not isinstance(name, str) or not name or not is_storable(name):
        raise BadOption(option="name", value=name, why="an object must have a name")
    if not isinstance(data, bytes | bytearray | memoryview):
        raise BadOption(
            option="data", value=type(data).__name__, why="the data of an object must be bytes"
        )
    metadata = {RUN: plain(own.run_id), GENERATION: str(own.generation), KEY: plain(own.key)}
    while True:
        stored = objects.look(name)
        tag = None if stored is None else _tag_to_replace(name, stored, own, seen)
        if seen is not None and stored is None:
            raise Fenced(
                object=name, run=own.run_id, generation=own.generation, why="the object is gone"
            )
        try:
            return objects.write(name, bytes(data), metadata, tag)
        except TooLate:
            continue  # another writer was faster: check again whether it is newer


def _tag_to_replace(name: str, stored: StoredObject, own: Fence, seen: str | None) -> str:
    """Return the tag that the object must still have when it is replaced. Raises Fenced."""
    metadata = {key.lower(): value for key, value in stored.metadata.items()}
    facts: dict[str, Any] = {"object": name, "run": own.run_id, "generation": own.generation}
    owner = metadata.get(RUN)
    if owner == plain(own.run_id):
        generation = metadata.get(GENERATION, "")
        stored_generation = int(generation) if generation.isdigit() else 0
        if stored_generation > own.generation:
            raise Fenced(**facts, newer=stored_generation)
        if metadata.get(KEY) == plain(own.key):
            return stored.etag  # an earlier attempt at this write
    if seen is not None:
        if stored.etag != seen:
            raise Fenced(**facts, why="the object has changed since its tag was read")
    elif owner != plain(own.run_id):
        raise Fenced(**facts, belongs_to=owner)
    return stored.etag


class Files:
    """Objects as files in a folder. The metadata of each object is in a hidden file beside it."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)

    def look(self, name: str) -> StoredObject | None:
        """Return the tag and the metadata of a file; None if neither file exists."""
        path = self._path(name)
        metadata = _read(self._beside(path, "fence"))
        data = _read(path)
        if metadata is None and data is None:
            return None
        return StoredObject(_tag(metadata or b"{}", data), json.loads(metadata or b"{}"))

    def write(self, name: str, data: bytes, metadata: Mapping[str, str], seen: str | None) -> str:
        """Write a file atomically, under a lock of this machine. Raises TooLate."""
        path = self._path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        with _locked(self._beside(path, "lock")):
            stored = self.look(name)
            if (None if stored is None else stored.etag) != seen:
                raise TooLate(name)
            encoded = json.dumps(dict(metadata)).encode()
            # before the data: after a crash between the two, an older holder is still refused
            self._replace(self._beside(path, "fence"), encoded)
            self._replace(path, data)
        return _tag(encoded, data)

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


def _tag(metadata: bytes, data: bytes | None) -> str:
    """Return a tag of data and metadata: the same data written by another holder has another
    tag."""
    digest_of_data = b"" if data is None else hashlib.sha256(data).digest()
    return hashlib.sha256(hashlib.sha256(metadata).digest() + digest_of_data).hexdigest()


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold an exclusive lock among all processes of this machine."""
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
"""Send a request (method, URL, headers, body); return the status and the headers of the
response."""


class HttpObjects:
    """Objects behind HTTP, as in S3 and compatible stores. *send* makes the requests with the
    caller's own client, and signs them."""

    def __init__(self, url: str, *, send: Send | None = None, prefix: str = "x-amz-meta-") -> None:
        self.url: str = url.rstrip("/")
        self._send: Send = send or _send
        self._prefix: str = prefix

    def look(self, name: str) -> StoredObject | None:
        """Request the headers of an object; None if it does not exist."""
        status, response_headers = self._send("HEAD", self._url_of(name), {}, None)
        if status == 404:
            return None
        _check_status(status, name)
        by_name = {key.lower(): value for key, value in response_headers.items()}
        metadata = {
            key.removeprefix(self._prefix): value
            for key, value in by_name.items()
            if self._prefix in key
        }
        return StoredObject(by_name["etag"], metadata)

    def write(self, name: str, data: bytes, metadata: Mapping[str, str], seen: str | None) -> str:
        """Write an object on condition that its tag is *seen*. Raises TooLate."""
        condition = {"If-None-Match": "*"} if seen is None else {"If-Match": seen}
        meta = {self._prefix + key: value for key, value in metadata.items()}
        status, response_headers = self._send(
            "PUT", self._url_of(name), {**condition, **meta}, data
        )
        # 409: a concurrent write; 412: the tag has changed; 404: the object was deleted
        if status in (409, 412) or (status == 404 and seen is not None):
            raise TooLate(name)
        _check_status(status, name)
        return {key.lower(): value for key, value in response_headers.items()}["etag"]

    def _url_of(self, name: str) -> str:
        if {"", ".", ".."} & set(name.split("/")):
            raise BadOption(
                option="name", value=name, why="its parts must be names, neither empty nor . or .."
            )
        return f"{self.url}/{urllib.parse.quote(name)}"


def _check_status(status: int, name: str) -> None:
    if not 200 <= status < 300:
        raise OSError(f"the object store answered {status} for {name!r}")


def _send(method: str, url: str, headers: Mapping[str, str], body: bytes | None) -> Sent:
    request = urllib.request.Request(url, data=body, headers=dict(headers), method=method)
    try:
        with urllib.request.urlopen(request, timeout=60) as response:
            return response.status, dict(response.headers)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, dict(error.headers)
