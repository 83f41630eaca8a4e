"""Which codec a command reads and writes with: the one that is named, else one with the keys of the
environment, else plain.

Keys are never told on the command line, where others could see them.
"""

from __future__ import annotations

import os
from typing import Any

import click

from holdfast.cli.loading import load_name
from holdfast.core.codec import Codec

NAMED = "HOLDFAST_CODEC"


def codec_of(named: str | None) -> Codec | None:
    """Return the codec that MODULE:NAME, or the environment, names; None when nothing is said."""
    target = named or os.environ.get(NAMED)
    if target:
        return _loaded(target)
    from holdfast.payloads.codecs import KEYS, Encrypted

    return Encrypted.from_environment() if os.environ.get(KEYS) else None


def _loaded(target: str) -> Codec:
    """Import a codec, or call what makes one."""
    _, found = load_name(target)
    codec: Any = found
    if isinstance(found, type) or not hasattr(found, "decode"):
        if not callable(found):
            raise click.UsageError(f"{target} is neither a codec nor a function that makes one")
        codec = found()
    if not all(hasattr(codec, name) for name in ("name", "encode", "decode")):
        raise click.UsageError(f"{target} makes a {type(codec).__name__}, which is no codec")
    checked: Codec = codec
    return checked
