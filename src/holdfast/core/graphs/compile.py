"""From a graph that was drawn up to what is stored. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from holdfast.core import duration
from holdfast.core.budgets import rules as budget_rules
from holdfast.core.codec import Codec
from holdfast.core.graphs.builder import OPTIONS, Graph, Member, with_places
from holdfast.core.graphs.model import GraphPatch, MemberSpec, NewMember, run_of
from holdfast.core.runs import Route
from holdfast.core.tasks.policy import policy_of
from holdfast.core.validation import checked_tags, checked_text, priority_of
from holdfast.errors import BadGraph, BadOption, HoldfastError

Encode = Callable[[Any, Sequence[Any], Mapping[str, Any]], bytes]


class GraphCompiler:
    """Turns a graph that was drawn up into what is stored; its inputs are not sealed yet. *route*
    says where a workflow runs, *encode* checks arguments and makes bytes of them, *unchecked* does
    so when some of them are still to come."""

    def __init__(
        self, route: Callable[[Any, Mapping[str, Any]], Any], encode: Encode, unchecked: Encode
    ) -> None:
        self._route, self._encode, self._unchecked = route, encode, unchecked

    def patch(self, graph: Graph, graph_id: str) -> tuple[GraphPatch, str]:
        """Return what is to be stored, and what it is recognised by. Raises BadGraph, WrongType,
        NotEncodable."""
        if not isinstance(graph, Graph):
            raise BadGraph(given=type(graph).__name__, why="draw it up with holdfast.Graph()")
        if not graph.members and not any(member.groups for member in graph.there.values()):
            raise BadGraph(name=graph.name, why="it has no members")
        seen = hashlib.sha256(graph.name.encode())
        routes: dict[int, Route] = {}
        members = tuple(
            self._named(member, graph_id, seen, routes) for member in graph.members.values()
        )
        groups = tuple(
            (member.name, group) for member in graph.there.values() for group in member.groups
        )
        return GraphPatch(members, groups), seen.hexdigest()[:32]

    def _named(
        self, member: Member, graph_id: str, seen: Any, routes: dict[int, Route]
    ) -> NewMember:
        """Say whose, when something is wrong with a member."""
        try:
            return self._member(member, graph_id, seen, routes)
        except HoldfastError as wrong:
            raise type(wrong)(**{"member": member.name, **wrong.facts}) from wrong
        except RecursionError:
            raise BadGraph(
                member=member.name, why="its arguments are nested too deeply to be stored"
            ) from None

    def _member(
        self, member: Member, graph_id: str, seen: Any, routes: dict[int, Route]
    ) -> NewMember:
        takes = tuple(dict.fromkeys(member.takes()))
        spec = (
            self._spec(member, run_of(graph_id, member.name), takes)
            if member.options
            else self._plain(member, takes, routes)
        )
        groups = tuple(member.needs(takes))
        args, kwargs = (
            (with_places(list(member.args)), with_places(member.kwargs))
            if takes
            else (member.args, member.kwargs)
        )
        data = (self._unchecked if spec.takes else self._encode)(member.workflow, args, kwargs)
        seen.update(msgspec.json.encode([member.name, spec.route, groups]) + data)
        return NewMember(name=member.name, spec=spec, input=data, groups=groups)

    def _plain(
        self, member: Member, takes: tuple[str, ...], routes: dict[int, Route]
    ) -> MemberSpec:
        """Return what a member without options is started with; where its workflow runs is asked
        once."""
        route = routes.get(id(member.workflow))
        if route is None:
            route = routes[id(member.workflow)] = self._route(member.workflow, {})
        return MemberSpec(route=route, takes=takes)

    def _spec(self, member: Member, run_id: str, takes: tuple[str, ...]) -> MemberSpec:
        options = member.options
        unknown = set(options) - set(OPTIONS)
        if unknown:
            raise BadOption(option=sorted(unknown)[0], known=", ".join(OPTIONS))
        drawn, limits = budget_rules.drawn_on(options.get("budget"), run_id)
        policy = options.get("policy")
        return MemberSpec(
            route=self._route(member.workflow, options),
            priority=priority_of(options.get("priority", 0)),
            tags=checked_tags(options.get("tags")),
            delay=None if options.get("delay") is None else duration.parse(options["delay"]),
            deadline=None
            if options.get("deadline") is None
            else duration.parse(options["deadline"]),
            policy=None if policy is None else policy_of(policy),
            budgets=drawn,
            limits=limits,
            share=checked_text("share", options.get("share")),
            takes=takes,
        )


def encoded_unchecked(
    codec: Codec, workflow: Any, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> bytes:
    """Return arguments that still have places for results, bound to the signature if it is
    known."""
    signature = getattr(workflow, "signature", None)
    if signature is None:
        return codec.encode(
            {"args": list(args), "kwargs": dict(kwargs)} if kwargs else list(args),
            what="the arguments",
        )
    data: bytes = signature.encode_args(codec, tuple(args), dict(kwargs))
    return data
