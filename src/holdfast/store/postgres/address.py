"""Where a database is: what libpq understands of a URL, what we do, and the URL without its
password."""

from __future__ import annotations

import os
import re
from typing import NamedTuple
from urllib.parse import parse_qsl, quote, urlencode

from psycopg import ProgrammingError
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from holdfast.core.redaction import redacted, unquoted
from holdfast.errors import BadUrl

SCHEMES = ("postgresql", "postgres", "postgresql+psycopg")
OURS = ("listen", "notify", "prepare")
"""Options of the URL that are ours and not libpq's."""

DEFAULTS = {
    "application_name": "holdfast",
    "connect_timeout": "10",
    # A peer that vanished is noticed within half a minute, not after the hours that the system
    # takes.
    "keepalives_idle": "20",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "30000",
}
_FLAGS = {
    "on": True,
    "1": True,
    "true": True,
    "yes": True,
    "off": False,
    "0": False,
    "false": False,
    "no": False,
}


class Address(NamedTuple):
    """A database, and how we talk to it."""

    conninfo: str
    shown: str
    """The URL as it may be shown to anybody."""
    listen: str
    """Where wake-ups are listened to: a direct connection, when the other one goes through a
    pooler."""
    notify: bool
    """Whether to listen at all."""
    prepare: bool
    """Whether statements may be prepared where the connection is direct."""


def read(url: str, *, listen: str | None = None, notify: bool | None = None) -> Address:
    """Understand a URL. Raises BadUrl, without any password in it."""
    plain, ours = _split(url)
    conninfo = _conninfo(plain)
    there = listen or ours.get("listen") or os.environ.get("HOLDFAST_LISTEN")
    return Address(
        conninfo=conninfo,
        shown=redacted(plain),
        listen=_conninfo(_split(there)[0]) if there else conninfo,
        notify=_flag(plain, "notify", ours) if notify is None else notify,
        prepare=_flag(plain, "prepare", ours),
    )


def _split(url: str) -> tuple[str, dict[str, str]]:
    """Take our own options out of a URL."""
    scheme, _, rest = url.partition("://")
    place, _, options = rest.partition("?")
    given = parse_qsl(options, keep_blank_values=True)
    others = [(name, value) for name, value in given if name not in OURS]
    plain = f"postgresql://{place}" if scheme in SCHEMES else url
    if others:
        plain += "?" + urlencode(others, quote_via=quote, safe="/")
    return plain, {name: value for name, value in given if name in OURS}


def _flag(url: str, name: str, given: dict[str, str]) -> bool:
    value = given.get(name, "on").lower()
    if value not in _FLAGS:
        raise BadUrl(url=redacted(url), why=f"{name} is on or off")
    return _FLAGS[value]


def _conninfo(url: str) -> str:
    try:
        given = conninfo_to_dict(url)
        if not re.fullmatch(r"[\d,]*", str(given.get("port") or "")):
            raise BadUrl(url=redacted(url), why="a port is a number")
        if "@" in str(given.get("host") or ""):
            raise BadUrl(url=redacted(url), why="in a password, @ is written %40")
        return make_conninfo("", **{**DEFAULTS, **given})
    except ProgrammingError as error:
        raise BadUrl(url=redacted(url), why=unquoted(redacted(str(error).strip()))) from None
