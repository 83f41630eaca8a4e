"""Open and decode the result of a finished run, or raise the error that it ended with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from holdfast.core import places
from holdfast.core.codec import Codec
from holdfast.core.records import Run
from holdfast.core.signature import Signature
from holdfast.core.status import Status
from holdfast.engine.failure import as_error
from holdfast.engine.payloads.vault import Vault
from holdfast.errors import BadData


def result_value(run: Run, read: Callable[[str], Run], vault: Vault, codec: Codec, signature: Signature | None) -> Any:
    """Return the result of a finished run, or raise why there is none. If a payload is gone, *read* reads the run again:
    ``rekey`` may have replaced it since. Raises KeyMissing, BadData."""
    try:
        return _decoded(run, vault, codec, signature)
    except BadData as error:
        if "payload" not in error.facts:
            raise
        again = read(run.id)
        if (again.result, again.error) == (run.result, run.error):
            raise
    return result_value(again, read, vault, codec, signature)


def _decoded(run: Run, vault: Vault, codec: Codec, signature: Signature | None) -> Any:
    result = vault.values.maybe(run.result, f"the result of run {run.id}", places.run_result(run.id))
    if run.status is not Status.COMPLETED:
        error = vault.values.maybe(run.error, f"the error of run {run.id}", places.error(run.id))
        raise as_error(msgspec.structs.replace(run, error=error))
    if signature is None:
        return codec.decode(result or b"null")
    return signature.decode_result(codec, result or b"null")
