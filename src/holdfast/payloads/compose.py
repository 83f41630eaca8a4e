"""Compose the inputs of graph members from stored results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from holdfast.core import associated_data
from holdfast.core.codec import Codec
from holdfast.core.graphs.builder import filled
from holdfast.core.graphs.model import (
    GraphPatch,
    NewMember,
    run_of,
)
from holdfast.core.payload import Fetch, Payload
from holdfast.payloads.sealer import PayloadSealer
from holdfast.store.contract.growing import Compose


def composer(sealer: PayloadSealer, codec: Codec) -> Compose:
    """Return what makes inputs of what is stored and of results, whatever seal any of them is
    in."""

    def compose(
        run_id: str, data: bytes, results: Mapping[str, tuple[str, bytes]], fetch: Fetch
    ) -> tuple[bytes, Sequence[Payload]]:
        def fill(plain: bytes) -> bytes:
            if _PLACE not in plain:
                return plain
            values = {
                name: codec.decode(sealer.result(source, one, fetch, f"the result of {name}"))
                for name, (source, one) in results.items()
            }
            return codec.encode(filled(codec.decode(plain), values), what="the arguments")

        return sealer.remake(data, fill, fetch, run_id, place=associated_data.member_input(run_id))

    return compose


_PLACE = b"$holdfast.result"


def sealed(patch: GraphPatch, graph_id: str, sealer: PayloadSealer) -> GraphPatch:
    """Return what is to be added to a graph with its inputs sealed. Raises KeyMissing."""

    def seal(member: NewMember) -> NewMember:
        place = associated_data.member_input(run_of(graph_id, member.name))
        return msgspec.structs.replace(member, input=sealer.values.inline(member.input, place))

    members = tuple(map(seal, patch.members))
    return GraphPatch(members, patch.groups)
