"""Parse the URL of a database: options of libpq, options of Holdfast, and a form without
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
"""Options of the URL that belong to Holdfast, not to libpq."""

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
    """A database, and how to connect to it."""

    conninfo: str
    shown: str
    """The URL without its password."""
    listen: str
    """Where to listen for notifications: a direct connection, if the other one goes through a
    pooler."""
    notify: bool
    """Whether to listen at all."""
    prepare: bool
    """Whether statements may be prepared on direct connections."""


def read(url: str, *, listen: str | None = None, notify: bool | None = None) -> Address:
    """Parse a URL. Raises BadUrl, without any password in it."""
    plain, ours = _split(url)
    conninfo = _conninfo(plain)
    listen_url = listen or ours.get("listen") or os.environ.get("HOLDFAST_LISTEN")
    if notify is None:
        notify = _flag(plain, "notify", ours)
    return Address(
        conninfo=conninfo,
        shown=redacted(plain),
        listen=_conninfo(_split(listen_url)[0]) if listen_url else conninfo,
        notify=notify,
        prepare=_flag(plain, "prepare", ours),
    )


def _split(url: str) -> tuple[str, dict[str, str]]:
    """Separate our own options from a URL."""
    scheme, _, rest = url.partition("://")
    place, _, options = rest.partition("?")
    pairs = parse_qsl(options, keep_blank_values=True)
    others = [(name, value) for name, value in pairs if name not in OURS]
    plain = f"postgresql://{place}" if scheme in SCHEMES else url
    if others:
        plain += "?" + urlencode(others, quote_via=quote, safe="/")
    return plain, {name: value for name, value in pairs if name in OURS}


def _flag(url: str, name: str, options: dict[str, str]) -> bool:
    value = options.get(name, "on").lower()
    if value not in _FLAGS:
        raise BadUrl(url=redacted(url), why=f"{name} must be on or off")
    return _FLAGS[value]


def _conninfo(url: str) -> str:
    try:
        options = conninfo_to_dict(url)
        if not re.fullmatch(r"[\d,]*", str(options.get("port") or "")):
            raise BadUrl(url=redacted(url), why="the port must be a number")
        if "@" in str(options.get("host") or ""):
            raise BadUrl(url=redacted(url), why="an @ in the password must be written as %40")
        return make_conninfo("", **{**DEFAULTS, **options})
    except ProgrammingError as error:
        raise BadUrl(url=redacted(url), why=unquoted(redacted(str(error).strip()))) from None
