"""A trusted proxy tells the person, the client and the prefix; other clients cannot."""

import asyncio

import httpx
import pytest

from holdfast.errors import BadOption
from holdfast.server import app
from holdfast.server.proxies import TrustedProxies, user_of_header

USER = {"X-Forwarded-User": "ann"}


def ask(asgi, path, headers, client):
    async def send():
        transport = httpx.ASGITransport(app=asgi, client=(client, 1))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as http:
            return await http.get(path, headers=headers)

    return asyncio.run(send())


@pytest.fixture
def proxied(engine):
    who = user_of_header("X-Forwarded-User", ["operator"])
    return TrustedProxies(app(engine, who=who), "10.0.0.0/8, 192.168.1.7")


def test_a_trusted_proxy_names_the_person(proxied):
    trusted = ask(proxied, "/api/v1/me", USER, "10.1.2.3")
    spoofed = ask(proxied, "/api/v1/me", USER, "172.16.0.1")
    nameless = ask(proxied, "/api/v1/me", {}, "192.168.1.7")

    assert (trusted.status_code, trusted.json()["name"]) == (200, "ann")
    assert trusted.json()["roles"] == ["operator"]
    assert (spoofed.status_code, nameless.status_code) == (401, 401)


def test_a_trusted_proxy_tells_the_prefix(proxied):
    headers = {**USER, "X-Forwarded-Prefix": "/flows/", "X-Forwarded-Proto": "https"}

    below = ask(proxied, "/flows/api/v1/openapi.json", headers, "10.1.2.3")
    stripped = ask(proxied, "/api/v1/me", headers, "10.1.2.3")

    assert below.json()["servers"] == [{"url": "/flows/api/v1"}]
    assert stripped.status_code == 200


def test_wrong_networks_and_roles_are_refused(engine):
    with pytest.raises(BadOption):
        TrustedProxies(app(engine), "example.org")
    with pytest.raises(BadOption):
        user_of_header("X-User", ["boss"])
