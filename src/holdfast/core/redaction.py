"""Remove passwords from URLs and messages before they are shown. From malformed URLs it removes too
much rather than too little."""

from __future__ import annotations

import re

_HIDDEN = "***"
_RULES = (
    # The password of a URL ends at the last @: one that is not encoded may contain @, / and blanks.
    (re.compile(r"(\bpostgres[\w+]*:/*|//)([^:/?@\s]*):.*@", re.DOTALL | re.IGNORECASE), r"\1\2@"),
    # Without any @ the host was forgotten, and what looks like its port is the password; a port is
    # a number.
    (re.compile(r"//([^:/?@\s\[\]]*):(?!\d+(?:[/?,\"'\s]|$))[^/?\s\"']+"), rf"//\1:{_HIDDEN}"),
    # Options of a URL, and keywords of libpq, whose values may be quoted.
    (
        re.compile(r"(\w*pass(?:word|wd)?\s*=\s*)(?:'(?:[^'\\]|\\.)*'?|[^&\s]*)", re.IGNORECASE),
        rf"\1{_HIDDEN}",
    ),
)
_QUOTED = re.compile(r"\"[^\"]*\"?|'[^']*'?")


def redacted(text: str) -> str:
    """Return *text* without passwords."""
    for pattern, replacement in _RULES:
        text = pattern.sub(replacement, text)
    return text


def unquoted(message: str) -> str:
    """Return a parser's message without its quotations: of a malformed URL it may quote a part of
    the password."""
    return _QUOTED.sub(f'"{_HIDDEN}"', message)
