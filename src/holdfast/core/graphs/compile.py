"""GraphCompiler: turn a graph that a user has built into the additions that are stored. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from holdfast.core import duration
from holdfast.core.budgets import rules as budget_rules
from holdfast.core.codec import Codec
from holdfast.core.graphs.builder import OPTIONS, Graph, Member, with_places
from holdfast.core.graphs.model import GraphPatch, JoiningRun, MemberSpec, NewMember, run_of
from holdfast.core.runs import Route
from holdfast.core.signature import encode_arguments
from holdfast.core.tasks.policy import policy_of
from holdfast.core.validation import checked_tags, checked_text, priority_of
from holdfast.errors import BadGraph, BadOption, HoldfastError

Encode = Callable[[Any, Sequence[Any], Mapping[str, Any]], bytes]
"""A function that encodes the arguments of a workflow."""


class GraphCompiler:
    """Turn a graph that a user has built into additions to store. Inputs are not sealed yet.

    *route* returns the route of a workflow with the given options. *encode* checks arguments
    against the signature and encodes them; *unchecked* encodes arguments with placeholders, whose
    types are not known yet.
    """

    def __init__(
        self, route: Callable[[Any, Mapping[str, Any]], Any], encode: Encode, unchecked: Encode
    ) -> None:
        self._route = route
        self._encode = encode
        self._unchecked = unchecked

    def patch(self, graph: Graph, graph_id: str) -> tuple[GraphPatch, str]:
        """Return the additions to store, and their fingerprint, by which a repeated request is
        recognised. Raises BadGraph, WrongType, NotEncodable."""
        if not isinstance(graph, Graph):
            raise BadGraph(given=type(graph).__name__, why="build the graph with holdfast.Graph()")
        if not graph.members and not any(member.groups for member in graph.existing.values()):
            raise BadGraph(name=graph.name, why="the graph has no members: add at least one")
        fingerprint = hashlib.sha256(graph.name.encode())
        routes: dict[int, Route] = {}
        members = tuple(
            self._checked_member(member, graph_id, fingerprint, routes)
            for member in graph.members.values()
            if member.joins is None
        )
        joins = tuple(
            JoiningRun(member.name, member.joins)
            for member in graph.members.values()
            if member.joins is not None
        )
        if joins:
            fingerprint.update(msgspec.json.encode(joins))
        groups = tuple(
            (member.name, group) for member in graph.existing.values() for group in member.groups
        )
        return GraphPatch(members, groups, joins), fingerprint.hexdigest()[:32]

    def _checked_member(
        self, member: Member, graph_id: str, fingerprint: Any, routes: dict[int, Route]
    ) -> NewMember:
        """Return a member to store. An error about it has its name among the facts."""
        try:
            return self._member(member, graph_id, fingerprint, routes)
        except HoldfastError as error:
            raise type(error)(**{"member": member.name, **error.facts}) from error
        except RecursionError:
            raise BadGraph(
                member=member.name, why="its arguments are nested too deeply to be stored"
            ) from None

    def _member(
        self, member: Member, graph_id: str, fingerprint: Any, routes: dict[int, Route]
    ) -> NewMember:
        takes = tuple(dict.fromkeys(member.takes()))
        if member.options:
            spec = self._spec(member, run_of(graph_id, member.name), takes)
        else:
            spec = self._default_spec(member, takes, routes)
        groups = tuple(member.needs(takes))
        if takes:
            args = with_places(list(member.args))
            data = self._unchecked(member.workflow, args, with_places(member.kwargs))
        else:
            data = self._encode(member.workflow, member.args, member.kwargs)
        fingerprint.update(msgspec.json.encode([member.name, spec.route, groups]) + data)
        return NewMember(name=member.name, spec=spec, input=data, groups=groups)

    def _default_spec(
        self, member: Member, takes: tuple[str, ...], routes: dict[int, Route]
    ) -> MemberSpec:
        """Return the spec of a member without options. *routes* caches the route of each workflow,
        which saves computing it for each of many members."""
        route = routes.get(id(member.workflow))
        if route is None:
            route = self._route(member.workflow, {})
            routes[id(member.workflow)] = route
        return MemberSpec(route=route, takes=takes)

    def _spec(self, member: Member, run_id: str, takes: tuple[str, ...]) -> MemberSpec:
        """Return the spec of a member with options. Raises BadOption, BadDuration."""
        options = member.options
        unknown = set(options) - set(OPTIONS)
        if unknown:
            raise BadOption(option=sorted(unknown)[0], known=", ".join(OPTIONS))
        budgets, limits = budget_rules.budgets_of_start(options.get("budget"), run_id)
        policy = options.get("policy")
        return MemberSpec(
            route=self._route(member.workflow, options),
            priority=priority_of(options.get("priority", 0)),
            tags=checked_tags(options.get("tags")),
            delay=duration.parse_optional(options.get("delay")),
            deadline=duration.parse_optional(options.get("deadline")),
            policy=None if policy is None else policy_of(policy),
            budgets=budgets,
            limits=limits,
            share=checked_text("share", options.get("share")),
            takes=takes,
        )


def encode_unchecked(
    codec: Codec, workflow: Any, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> bytes:
    """Return encoded arguments that may have placeholders, bound to the signature of the workflow
    if it is known. Their types are not checked."""
    signature = getattr(workflow, "signature", None)
    if signature is None:
        return encode_arguments(codec, args, kwargs)
    data: bytes = signature.encode_args(codec, tuple(args), dict(kwargs))
    return data
