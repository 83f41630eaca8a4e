"""Open and decode the result of a finished run, or raise the error with which it ended."""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.core.codec import Codec
from holdfast.core.runs import RunRecord, child_record
from holdfast.core.signature import Signature
from holdfast.core.status import Status
from holdfast.engine.runtime.error_data import error_from_data
from holdfast.payloads.sealer import PayloadSealer


def result_value(
    run: RunRecord, sealer: PayloadSealer, codec: Codec, signature: Signature | None
) -> Any:
    """Return the result of a finished run. Raises the error with which the run ended, KeyMissing,
    BadData."""
    (opened,) = sealer.opener.children([child_record(run)])
    if run.status is not Status.COMPLETED:
        raise error_from_data(msgspec.structs.replace(run, error=opened.error))
    if signature is None:
        return codec.decode(opened.result or b"null")
    return signature.decode_result(codec, opened.result or b"null")
