"""One delivery to a webhook: it ends by its deadline, and reaches only public addresses unless the
host is allowed by name."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from holdfast import AsyncEngine, Engine, workflow
from holdfast.engine.maintenance import webhook_delivery
from holdfast.engine.maintenance.webhook_delivery import Delivery
from holdfast.engine.runtime.notifier import Committed
from holdfast.engine.runtime.thread_pool import ThreadPool
from holdfast.errors import BadOption
from holdfast.testing import internals
from tests.engine.receiver import Receiver
from tests.engine.waiting import wait_until

PUBLIC = "93.184.216.34"
HOST = "hook.test"


@workflow(name="delivery.plain")
async def plain() -> int:
    return 1


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    receiver = Receiver()
    yield receiver
    receiver.close()


class Resolver:
    """The answers of the system's resolver for the names of these tests; it notes the lookups."""

    def __init__(self) -> None:
        self.answers: list[list[str]] = []
        self.lookups: list[str] = []
        self.may_answer = threading.Event()
        self.may_answer.set()
        self._system = socket.getaddrinfo

    def __call__(self, host, port, *args, **options):
        if not str(host).endswith(".test"):
            return self._system(host, port, *args, **options)
        self.lookups.append(host)
        self.may_answer.wait(60)
        addresses = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return [
            entry
            for address in addresses
            for entry in self._system(address, port, *args, **options)
        ]


@pytest.fixture
def resolver(monkeypatch) -> Resolver:
    resolver = Resolver()
    monkeypatch.setattr(socket, "getaddrinfo", resolver)
    return resolver


def attempt(url: str, *allowed: str, body: bytes = b"{}") -> str | None:
    """Deliver once; return what went wrong."""
    threads = ThreadPool()
    try:
        return asyncio.run(
            webhook_delivery.deliver(
                Delivery(url, "s" * 16, "hook", "r:1", 1, body, 0), allowed, threads
            )
        )
    finally:
        threads.close()


@contextmanager
def server(serve: Callable[[socket.socket], None]) -> Iterator[str]:
    """Serve one connection in a thread; the address is its URL."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def accept() -> None:
            peer, _ = listening.accept()
            with peer, contextlib.suppress(OSError):
                serve(peer)

        thread = threading.Thread(target=accept)
        thread.start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/"
        thread.join()


def drip(peer: socket.socket) -> None:
    """Send a header that never ends, a byte at a time."""
    peer.sendall(b"HTTP/1.1 100 Continue\r\nX: ")
    pause = threading.Event()
    while True:
        peer.sendall(b"x")
        pause.wait(0.02)


# The deadline


def test_a_receiver_that_never_comes_to_its_answer_is_given_up(monkeypatch):
    monkeypatch.setattr(webhook_delivery, "TIMEOUT", 0.3)
    with server(drip) as url:
        assert attempt(url, "127.0.0.1") == "the receiver took longer than 0.3 s"


def test_a_receiver_that_continues_for_ever_is_given_up_at_once():
    def serve(peer: socket.socket) -> None:
        while True:
            peer.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")

    with server(serve) as url:
        assert attempt(url, "127.0.0.1") == "the receiver sent more than 10 interim answers (1xx)"


def test_a_receiver_that_sends_endless_headers_is_given_up():
    def serve(peer: socket.socket) -> None:
        peer.sendall(b"HTTP/1.1 100 Continue\r\n")
        while True:
            peer.sendall(b"X: y\r\n" * 1000)

    with server(serve) as url:
        assert (
            attempt(url, "127.0.0.1") == "the receiver sent more than 65536 bytes before its answer"
        )


def test_a_handshake_that_drips_is_given_up(monkeypatch):
    monkeypatch.setattr(webhook_delivery, "TIMEOUT", 0.3)
    with server(drip_handshake) as url:
        assert (
            attempt(url.replace("http:", "https:"), "127.0.0.1")
            == "the receiver took longer than 0.3 s"
        )


def drip_handshake(peer: socket.socket) -> None:
    """Begin a TLS record of 16 KiB and send it a byte at a time."""
    peer.sendall(b"\x16\x03\x03\x40\x00\x02\x00\x3f\xfc")
    pause = threading.Event()
    while True:
        peer.sendall(b"\x03")
        pause.wait(0.02)


def test_a_receiver_that_reads_nothing_is_given_up(monkeypatch):
    monkeypatch.setattr(webhook_delivery, "TIMEOUT", 0.3)
    over = threading.Event()
    with server(lambda peer: over.wait(60) and None) as url:
        assert (
            attempt(url, "127.0.0.1", body=b"x" * 50_000_000)
            == "the receiver took longer than 0.3 s"
        )
        over.set()


def test_a_lookup_that_hangs_is_given_up(monkeypatch, resolver):
    monkeypatch.setattr(webhook_delivery, "TIMEOUT", 0.3)
    resolver.answers = [[PUBLIC]]
    resolver.may_answer.clear()

    assert attempt(f"http://{HOST}/") == "the receiver took longer than 0.3 s"

    resolver.may_answer.set()


def test_an_answer_after_interim_ones_counts(resolver):
    def serve(peer: socket.socket) -> None:
        peer.sendall(
            b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" * 3
            + b"HTTP/1.1 204 No Content\r\n\r\n"
        )
        peer.recv(65536)

    with server(serve) as url:
        assert attempt(url, "127.0.0.1") is None


@pytest.mark.parametrize(
    ("answer", "failed"),
    [
        (b"SSH-2.0-OpenSSH_9.6\r\n", "the receiver did not answer as HTTP/1.1 requires"),
        (b"HTTP/1.1 twohundred OK\r\n", "the receiver did not answer as HTTP/1.1 requires"),
        (b"", "the receiver closed the connection without an answer"),
        (
            b"HTTP/1.1 307 Temporary Redirect\r\nLocation: http://127.0.0.1/\r\n\r\n",
            "the receiver answered 307",
        ),
        (b"HTTP/1.1 101 Switching Protocols\r\n\r\n", "the receiver answered 101"),
    ],
)
def test_what_is_no_success_is_named(answer, failed):
    def serve(peer: socket.socket) -> None:
        peer.recv(65536)
        peer.sendall(answer)

    with server(serve) as url:
        assert attempt(url, "127.0.0.1") == failed


# Addresses


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "10.1.2.3",
        "169.254.169.254",
        "100.64.0.1",
        "0.0.0.0",
        "224.0.0.1",
        "::1",
        "fe80::1",
        "::ffff:127.0.0.1",
    ],
)
def test_a_name_of_an_address_that_is_not_public_is_refused(resolver, address):
    resolver.answers = [[PUBLIC, address]]

    failed = attempt(f"http://{HOST}/")

    assert failed is not None
    assert f"host {HOST} has the address {address}, which is" in failed
    assert f'webhook_hosts=["{HOST}"]' in failed
    assert "HOLDFAST_WEBHOOK_HOSTS" in failed


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "127.1",
        "2130706433",
        "0x7f000001",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "localhost",
        "LocalHost",
    ],
)
def test_no_spelling_of_loopback_is_public(receiver, host):
    failed = attempt(f"http://{host}:{receiver.port}/")

    assert failed is not None
    assert "loopback" in failed
    assert receiver.heard == []


def test_an_allowed_host_is_reached_at_its_address_under_its_name(receiver, resolver):
    resolver.answers = [["127.0.0.1"], ["192.0.2.1"]]

    assert attempt(f"http://{HOST.upper()}:{receiver.port}/a%20b/é?q=ü", HOST) is None

    ((headers, body),) = receiver.heard
    assert (headers["Host"], body) == (f"{HOST}:{receiver.port}", b"{}")
    assert resolver.lookups == [HOST]


def test_a_name_that_changes_its_address_is_looked_up_once(receiver, resolver):
    url = f"http://{HOST}:{receiver.port}/"
    resolver.answers = [[PUBLIC], ["127.0.0.1"]]

    assert webhook_delivery.resolve(url, ()) == [(socket.AF_INET, (PUBLIC, receiver.port))]
    checked = [(socket.AF_INET, ("127.0.0.1", receiver.port))]
    attempted = Delivery(url, "s" * 16, "hook", "r:1", 1, b"{}", 0)
    assert (
        webhook_delivery.exchange(attempted, checked, webhook_delivery.until(time.monotonic() + 60))
        is None
    )

    assert resolver.lookups == [HOST]
    assert receiver.heard[0][0]["Host"] == f"{HOST}:{receiver.port}"


def test_allowing_one_host_allows_no_other(receiver, resolver):
    resolver.answers = [["127.0.0.1"]]

    assert "loopback" in (attempt(f"http://sub.{HOST}:{receiver.port}/", HOST) or "")


def test_the_next_address_is_tried_when_one_refuses(receiver, resolver):
    resolver.answers = [["127.0.0.2", "127.0.0.1"]]

    assert attempt(f"http://{HOST}:{receiver.port}/", HOST) is None


def test_the_next_address_is_tried_when_the_machine_has_no_such_family(receiver, monkeypatch):
    port = int(receiver.url.split(":")[2].split("/")[0])
    none = 250  # a family that no machine has, as IPv6 where it is switched off
    answers = [
        (none, socket.SOCK_STREAM, 6, "", ("::1", port)),
        (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port)),
    ]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: answers)

    assert attempt(f"http://{HOST}:{port}/", HOST) is None
    assert len(receiver.heard) == 1


@pytest.mark.parametrize("url", ["http://a:99999/", "http://a:x/", "http://[::1/"])
def test_a_stored_url_that_is_damaged_is_named(url):
    failed = attempt(url)

    assert failed is not None
    assert failed.startswith("ValueError: ")


@pytest.mark.parametrize(
    "url",
    [
        "https://me:hush@a/ b",
        "https://me:hush@a/\n",
        "ftp://me:hush@a",
        "https://me:hush@a:x",
        "me:hush@a#b",
    ],
)
def test_a_url_that_is_refused_shows_no_password(tmp_path, url):
    with (
        contextlib.closing(Engine(tmp_path / "x.db")) as engine,
        pytest.raises(BadOption) as raised,
    ):
        engine.webhooks.set("hook", url)

    assert "hush" not in str(raised.value) + repr(raised.value.facts)


def test_a_header_cannot_be_smuggled_in(receiver):
    smuggled = Delivery(receiver.url, "s" * 16, "hook\r\nX-Evil: 1", "r\n1", 1, b"{}", 0)

    assert (
        webhook_delivery.exchange(
            smuggled,
            webhook_delivery.resolve(receiver.url, ["127.0.0.1"]),
            webhook_delivery.until(time.monotonic() + 60),
        )
        is None
    )

    ((headers, _),) = receiver.heard
    assert "X-Evil" not in headers
    assert headers["Holdfast-Subscription"] == "hook\\r\\nX-Evil: 1"


# TLS


@pytest.fixture
def certificate(tmp_path, monkeypatch):
    """Make certificates that this process trusts."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    def make(host: str) -> ssl.SSLContext:
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "holdfast test")])
        now = datetime.datetime.now(datetime.UTC)
        made = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=1))
            .not_valid_after(now + datetime.timedelta(days=1))
            .add_extension(x509.SubjectAlternativeName([x509.DNSName(host)]), critical=False)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .sign(key, hashes.SHA256())
        )
        pem = tmp_path / f"{host}.pem"
        private = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        pem.write_bytes(made.public_bytes(serialization.Encoding.PEM) + private)
        monkeypatch.setenv("SSL_CERT_FILE", str(pem))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(pem)
        return context

    return make


def test_the_certificate_is_checked_for_the_name_and_not_for_the_address(resolver, certificate):
    resolver.answers = [["127.0.0.1"]]
    asked: list[str] = []
    context = certificate(HOST)
    context.sni_callback = lambda connection, name, _: asked.append(name)
    receiver = Receiver(tls=context)
    try:
        assert attempt(f"https://{HOST}:{receiver.port}/", HOST) is None
    finally:
        receiver.close()

    assert asked == [HOST]
    assert len(receiver.heard) == 1


def test_a_certificate_of_another_name_is_refused(resolver, certificate):
    resolver.answers = [["127.0.0.1"]]
    receiver = Receiver(tls=certificate("other.test"))
    try:
        assert "certificate" in (attempt(f"https://{HOST}:{receiver.port}/", HOST) or "")
    finally:
        receiver.close()

    assert receiver.heard == []


# Through an engine


def test_an_engine_delivers_to_loopback_only_if_the_host_is_allowed(database, receiver):
    with Engine(database, shutdown_timeout=1) as engine:
        engine.webhooks.set(
            "hook", receiver.url, kind="completions", workflow=plain.name, attempts=1
        )
        engine.start(plain).result(timeout=20)
        wait_until(engine, lambda: len(engine.webhooks.dead_letters("hook")) == 1)
        (letter,) = engine.webhooks.dead_letters("hook")

        assert "127.0.0.1 is loopback and not public" in letter.error
        assert "holdfast worker --webhook-host 127.0.0.1" in letter.error
        assert receiver.heard == []

    with Engine(database, shutdown_timeout=1, webhook_hosts=["127.0.0.1"]) as engine:
        engine.webhooks.redeliver("hook")
        wait_until(engine, lambda: engine.webhooks.dead_letters("hook") == [])

        assert len(receiver.heard) == 1


def test_an_asynchronous_engine_does_too(database, receiver):
    async def deliver(**options) -> list[str]:
        async with AsyncEngine(database, shutdown_timeout=1, **options) as engine:
            await engine.webhooks.set(
                "hook",
                receiver.url,
                kind="completions",
                workflow=plain.name,
                attempts=1,
                after="beginning",
            )
            await (await engine.start(plain)).result(timeout=20)
            parts = internals(engine)
            last = parts.store.subscriptions.place("now")
            reached = asyncio.Event()
            loop = asyncio.get_running_loop()

            def look() -> None:
                if parts.store.subscriptions.get("hook").place >= last:
                    loop.call_soon_threadsafe(reached.set)

            parts.notifier.add(Committed, look)
            look()
            await asyncio.wait_for(reached.wait(), 60)
            return [letter.error for letter in await engine.webhooks.dead_letters("hook")]

    (error,) = asyncio.run(deliver())
    assert "127.0.0.1 is loopback and not public" in error
    assert receiver.heard == []

    assert len(asyncio.run(deliver(webhook_hosts="127.0.0.1"))) == 1
    assert len(receiver.heard) == 1


def test_hosts_are_allowed_by_the_environment_where_the_engine_names_none(tmp_path, monkeypatch):
    monkeypatch.setenv("HOLDFAST_WEBHOOK_HOSTS", "hooks.internal, other.internal")
    for options, hosts in [({}, ("hooks.internal", "other.internal")), ({"webhook_hosts": []}, ())]:
        engine = Engine(tmp_path / "test.db", **options)
        assert internals(engine).settings.webhook_hosts == hosts
        engine.close()

    monkeypatch.setenv("HOLDFAST_WEBHOOK_HOSTS", "http://hooks.internal")
    with pytest.raises(BadOption, match="webhook_hosts"):
        Engine(tmp_path / "test.db")
