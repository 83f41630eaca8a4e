"""Open and decode the result of a finished run, or raise the error that it ended with."""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.core.codec import Codec
from holdfast.core.records import Run, as_child
from holdfast.core.signature import Signature
from holdfast.core.status import Status
from holdfast.engine.failure import as_error
from holdfast.engine.payloads.vault import Vault


def result_value(run: Run, vault: Vault, codec: Codec, signature: Signature | None) -> Any:
    """Return the result of a finished run, or raise why there is none. Raises KeyMissing, BadData."""
    (end,) = vault.children([as_child(run)])
    if run.status is not Status.COMPLETED:
        raise as_error(msgspec.structs.replace(run, error=end.error))
    if signature is None:
        return codec.decode(end.result or b"null")
    return signature.decode_result(codec, end.result or b"null")
