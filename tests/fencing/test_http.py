"""A real service over HTTP that refuses what an old generation asks for, and does once what is
asked twice."""

from __future__ import annotations

import json
import threading
import urllib.error
import urllib.request
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import quote

import pytest

from holdfast import Engine, fencing, step, workflow
from holdfast.errors import BadLease, BadOption, Fenced
from holdfast.fencing import Fence
from tests.engine.databases import connect


@contextmanager
def served(handler):
    """Serve on a port of this machine; the answer is its URL."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class Quiet(BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def body(self):
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def answer(self, status, text=b"", **headers):
        self.send_response(status)
        for name, value in {"Content-Length": str(len(text)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(text)


@pytest.fixture
def bank(outside):
    """A service with a database: what it is asked, it does once, and only for the newest
    generation."""

    class Bank(Quiet):
        def do_POST(self):
            amount = json.loads(self.body())["amount"]
            try:
                fence = fencing.read_headers(self.headers)
                with closing(connect(outside)) as db:
                    if fencing.first(db, fence):
                        db.execute(
                            f"INSERT INTO bill (id, amount) VALUES ('{fence.key}', {int(amount)})"
                        )
                    db.commit()
            except BadLease as error:
                return self.answer(400, str(error).encode())
            except Fenced as error:
                return self.answer(409, str(error).encode())
            self.answer(200, b"paid")

    with served(Bank) as url:
        yield url


def post(url, headers, amount=5):
    data = json.dumps({"amount": amount}).encode()
    try:
        with urllib.request.urlopen(
            urllib.request.Request(url, data=data, headers=headers), timeout=20
        ) as answer:
            return answer.status
    except urllib.error.HTTPError as refused:
        with refused:
            return refused.code


def payments(outside):
    with closing(connect(outside)) as db:
        return db.execute("SELECT id, amount FROM bill").fetchall()


@step(retries=2, delay="1ms")
def pay_over_http(url: str) -> str:
    made = fencing.headers()
    assert post(url, made) == 200
    if post(url, made) == 200 and "retried" not in attempts:
        attempts.append("retried")
        raise ConnectionError("the answer was lost")
    return made["Idempotency-Key"]


attempts: list[str] = []


@workflow
async def paying_over_http(url: str) -> str:
    return await pay_over_http.aio(url)


def test_what_is_asked_again_is_done_once(bank, outside, tmp_path):
    attempts.clear()
    with Engine(tmp_path / "engine.db", shutdown_timeout=1) as engine:
        run = engine.start(paying_over_http, bank)

        assert run.result(timeout="20s") == f"{run.id}:pay_over_http"
    assert payments(outside) == [(f"{run.id}:pay_over_http", 5)]


def test_a_service_refuses_the_holder_of_an_old_lease(bank, outside, tmp_path):
    with closing(Engine(tmp_path / "engine.db")) as engine:
        run = engine.start("fenced payment", 1)
        with engine.tasks.worker(workflows=["fenced payment"]) as leases:
            (old,) = leases.claim()
            engine.tasks.revoke(run.id)
            (new,) = leases.claim(wait="10s")
            assert post(bank, fencing.headers(fencing.fence(new))) == 200
            assert post(bank, fencing.headers(fencing.fence(old).part("more"))) == 409
            new.complete()
    assert payments(outside) == [(run.id, 5)]


def test_a_request_without_a_fence_is_refused(bank, outside):
    whole = fencing.headers(Fence("r1", 1, "r1:a"))

    assert whole == {"Idempotency-Key": "r1:a", "Holdfast-Run": "r1", "Holdfast-Generation": "1"}
    for broken in (
        {},
        {**whole, "Holdfast-Generation": "x"},
        {**whole, "Holdfast-Generation": "9" * 30},
    ):
        assert post(bank, broken) == 400
    assert payments(outside) == []


def test_a_key_that_no_header_can_have_is_sent_as_its_digest():
    strange = [
        fencing.headers(Fence("r1", 1, key))["Idempotency-Key"]
        for key in ("r1:größe", "r1:a\nb", "r1:" + "x" * 300)
    ]

    assert len(set(strange)) == 3
    assert all(key.isascii() and key.startswith("sha256-") and len(key) < 100 for key in strange)


# Objects


@pytest.fixture
def bucket():
    """A store of objects like S3: entity tags, metadata, conditional writes."""
    found, lock = {}, threading.Lock()

    class Bucket(Quiet):
        def do_HEAD(self):
            with lock:
                stored = found.get(self.path)
            if stored is None:
                return self.answer(404)
            self.answer(200, ETag=stored[0], **stored[2])

        def do_PUT(self):
            data = self.body()
            with lock:
                stored = found.get(self.path)
                if self.headers.get("If-None-Match") == "*" and stored is not None:
                    return self.answer(412)
                if "If-Match" in self.headers and (
                    stored is None or stored[0] != self.headers["If-Match"]
                ):
                    return self.answer(404 if stored is None else 412)
                meta = {
                    key: value
                    for key, value in self.headers.items()
                    if key.lower().startswith("x-amz-meta-")
                }
                tag = f'"{hash(data)}-{hash(str(meta))}"'
                found[self.path] = (tag, data, meta)
            self.answer(200, ETag=tag)

    with served(Bucket) as url:
        objects = fencing.HttpObjects(url)
        objects.read = lambda name: found[f"/{quote(name)}"][1]
        yield objects


@pytest.fixture
def folder(tmp_path):
    objects = fencing.Files(tmp_path / "objects")
    objects.read = lambda name: (tmp_path / "objects" / name).read_bytes()
    return objects


@pytest.fixture(params=["folder", "bucket"])
def objects(request):
    return request.getfixturevalue(request.param)


OLD, NEW, OTHER = (
    Fence("r1", 1, "r1:report"),
    Fence("r1", 2, "r1:report"),
    Fence("r2", 7, "r2:report"),
)


def test_an_object_is_written_by_the_newest_holder_of_its_run(objects):
    fencing.put(objects, "report.csv", b"old", fence=OLD)
    fencing.put(objects, "report.csv", b"again", fence=OLD)
    fencing.put(objects, "report.csv", b"new", fence=NEW)

    with pytest.raises(Fenced) as refused:
        fencing.put(objects, "report.csv", b"zombie", fence=OLD)

    assert refused.value.facts["newer"] == 2
    assert objects.read("report.csv") == b"new"


def test_who_was_overtaken_after_a_look_writes_nothing_though_the_contents_are_what_they_were(
    objects, monkeypatch
):
    fencing.put(objects, "report.csv", b"same", fence=OLD)
    look = objects.look

    def overtaken(name):
        found = look(name)
        monkeypatch.setattr(objects, "look", look)
        fencing.put(objects, "report.csv", b"same", fence=NEW)
        return found

    monkeypatch.setattr(objects, "look", overtaken)
    with pytest.raises(Fenced):
        fencing.put(objects, "report.csv", b"zombie", fence=OLD)
    assert objects.read("report.csv") == b"same"


def test_an_object_of_another_run_is_written_over_only_if_it_is_as_it_was_seen(objects):
    fencing.put(objects, "day/report.csv", b"mine", fence=NEW)
    with pytest.raises(Fenced) as refused:
        fencing.put(objects, "day/report.csv", b"theirs", fence=OTHER)
    assert refused.value.facts["belongs_to"] == "r1"
    seen = objects.look("day/report.csv").etag

    fencing.put(objects, "day/report.csv", b"theirs", fence=OTHER, seen=seen)
    fencing.put(
        objects, "day/report.csv", b"theirs", fence=OTHER, seen=seen
    )  # the same attempt once more

    with pytest.raises(Fenced, match="changed since"):
        fencing.put(objects, "day/report.csv", b"late", fence=NEW, seen=seen)
    with pytest.raises(Fenced, match="gone"):
        fencing.put(objects, "day/other.csv", b"late", fence=NEW, seen=seen)
    assert objects.read("day/report.csv") == b"theirs"


def test_of_many_holders_at_once_the_newest_stays(objects):
    refused = []

    def write(generation):
        try:
            fencing.put(
                objects,
                "report.csv",
                str(generation).encode(),
                fence=Fence("r1", generation, "r1:report"),
            )
        except Fenced:
            refused.append(generation)

    threads = [threading.Thread(target=write, args=(generation,)) for generation in range(1, 9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert objects.read("report.csv") == b"8"
    assert 8 not in refused


def test_names_that_no_url_can_have_are_those_of_different_objects(objects):
    for name in ("a", "a b", "a#b", "a?b", "ü/a%20b"):
        fencing.put(objects, name, name.encode(), fence=OLD)
    assert objects.read("a") == b"a"
    assert objects.read("a#b") == b"a#b"
    assert objects.read("ü/a%20b") == "ü/a%20b".encode()


def test_a_run_that_no_header_can_name_is_fenced_too(objects):
    old, new = Fence("läuft", 1, "läuft:schritt\n"), Fence("läuft", 2, "läuft:schritt\n")
    fencing.put(objects, "report", b"new", fence=new)
    fencing.put(objects, "report", b"again", fence=new)
    for fence in (old, OTHER):
        with pytest.raises(Fenced):
            fencing.put(objects, "report", b"late", fence=fence)
    assert objects.read("report") == b"again"


def test_what_is_no_object_is_refused_and_nothing_is_written(objects):
    for name, data in (
        ("report", "text"),
        ("report", None),
        (None, b"x"),
        ("a\0b", b"x"),
        ("", b"x"),
        ("../out", b"x"),
    ):
        with pytest.raises(BadOption):
            fencing.put(objects, name, data, fence=OLD)
    assert objects.look("report") is None


@pytest.mark.parametrize("name", ["../out", "/etc/x", "", ".hidden", "a/../../b"])
def test_a_file_stays_in_its_folder(folder, name):
    with pytest.raises(BadOption):
        fencing.put(folder, name, b"x", fence=OLD)


def test_a_crash_between_the_note_and_the_file_lets_nobody_older_in(folder, monkeypatch):
    fencing.put(folder, "a", b"old", fence=OLD)
    replace, done = folder._replace, []

    def die(path, data):
        if done:
            raise KeyboardInterrupt
        done.append(path)
        replace(path, data)

    monkeypatch.setattr(folder, "_replace", die)
    with pytest.raises(KeyboardInterrupt):
        fencing.put(folder, "a", b"new", fence=NEW)
    monkeypatch.undo()

    with pytest.raises(Fenced):
        fencing.put(folder, "a", b"zombie", fence=OLD)
    fencing.put(folder, "a", b"new", fence=NEW)
    assert folder.read("a") == b"new"


def test_a_store_of_objects_in_trouble_says_so():
    broken = fencing.HttpObjects("http://x", send=lambda *_: (500, {}))
    with pytest.raises(OSError, match="answered 500"):
        fencing.put(broken, "a", b"x", fence=OLD)
    gone = fencing.HttpObjects("http://x", send=lambda *_: (404, {}))
    with pytest.raises(OSError, match="answered 404"):
        fencing.put(gone, "a", b"x", fence=OLD)
