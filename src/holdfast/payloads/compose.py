"""Compose the inputs of graph members from stored results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from holdfast.core import associated_data
from holdfast.core.codec import Codec
from holdfast.core.graphs.builder import fill_places
from holdfast.core.graphs.model import (
    GraphPatch,
    NewMember,
    run_of,
)
from holdfast.core.payload import Fetch, Payload
from holdfast.payloads.sealer import PayloadSealer
from holdfast.store.graphs.operations import Compose


def composer(sealer: PayloadSealer, codec: Codec) -> Compose:
    """Return a function that fills a member's stored input with the results of its upstreams.

    The input and the results may be sealed under different keys, or not at all; the composed input
    is sealed as the input of the member's run."""

    def compose(
        run_id: str, data: bytes, results: Mapping[str, tuple[str, bytes]], fetch: Fetch
    ) -> tuple[bytes, Sequence[Payload]]:
        def fill(plain: bytes) -> bytes:
            if _PLACEHOLDER not in plain:  # saves decoding an input that has nothing to fill
                return plain
            values = {
                name: codec.decode(
                    sealer.opener.result(source, result, fetch, f"the result of {name}")
                )
                for name, (source, result) in results.items()
            }
            return codec.encode(fill_places(codec.decode(plain), values), label="the arguments")

        return sealer.reseal_input(
            data, fill, fetch, run_id, place=associated_data.member_input(run_id)
        )

    return compose


_PLACEHOLDER = b"$holdfast.result"
"""The key of a placeholder for the result of an upstream member, in an encoded input."""


def seal_patch(patch: GraphPatch, graph_id: str, sealer: PayloadSealer) -> GraphPatch:
    """Return *patch* with the inputs of its members sealed. Raises KeyMissing."""

    def seal(member: NewMember) -> NewMember:
        place = associated_data.member_input(run_of(graph_id, member.name))
        return msgspec.structs.replace(member, input=sealer.values.seal_inline(member.input, place))

    members = tuple(map(seal, patch.members))
    return GraphPatch(members, patch.groups, patch.joins)
