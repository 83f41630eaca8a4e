"""Choose the codec of a command: ``--codec``, else HOLDFAST_CODEC, else keys of the environment.

Encryption keys are read from the environment only: the arguments of a process are visible to other
users of the machine.
"""

from __future__ import annotations

import os
from typing import Any

import click

from holdfast.cli.loading import load_name
from holdfast.core.codec import Codec

CODEC_VARIABLE = "HOLDFAST_CODEC"


def codec_of(target: str | None) -> Codec | None:
    """Return the codec of *target* (MODULE:NAME) or of the environment; None for plain JSON."""
    target = target or os.environ.get(CODEC_VARIABLE)
    if target:
        return _load_codec(target)
    from holdfast.payloads.codecs import KEYS, Encrypted

    return Encrypted.from_environment() if os.environ.get(KEYS) else None


def _load_codec(target: str) -> Codec:
    """Import a codec, or import and call its factory. Raises UsageError for any other object."""
    _, imported = load_name(target)
    codec: Any = imported
    if isinstance(imported, type) or not hasattr(imported, "decode"):
        if not callable(imported):
            raise click.UsageError(f"{target} is neither a codec nor a function that returns one")
        codec = imported()
    if not all(hasattr(codec, name) for name in ("name", "encode", "decode")):
        raise click.UsageError(
            f"{target} returns a {type(codec).__name__}, which is not a codec: a codec has name,"
            " encode and decode"
        )
    checked: Codec = codec
    return checked
