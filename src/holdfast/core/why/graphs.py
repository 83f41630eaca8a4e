"""Explain why a member of a graph has no run yet, or never gets one."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence

from holdfast.core.graphs.model import (
    ENDED,
    GraphRecord,
    GroupRecord,
    GroupState,
    MemberRecord,
    MemberState,
    name_of,
)
from holdfast.core.why.model import Blocker, Why

MOST = 8
"""The maximum number of members that an explanation names."""


def explain_member(
    graph: GraphRecord,
    member: MemberRecord,
    groups: Sequence[GroupRecord],
    upstreams: Mapping[int, Sequence[MemberRecord]],
    damage: str | None = None,
    cause: str | None = None,
) -> Why:
    """Return what a member without a run waits for, or why it has none.

    *upstreams* are the upstream members of each group, by its number; *damage* is the fault of a
    damaged row of the graph; *cause* is the error of the failed member that it depends on."""
    blockers = _BY_STATE[member.state](graph, member, groups, upstreams)
    if cause is not None:
        blockers[0].text = f"{cause}; {blockers[0].text}"
    if damage is not None and member.state not in ENDED:
        text = f"its graph is not processed until a damaged row is repaired: {damage}"
        blockers.insert(0, Blocker(kind="damage", text=text, remedy="holdfast db check"))
    remedy = next((blocker.remedy for blocker in blockers if blocker.remedy is not None), None)
    since = graph.created_at if member.finished_at is None else member.finished_at
    return Why(
        run=member.run_id,
        workflow=member.workflow,
        status=member.state.value,
        reason=blockers[0].text,
        since=since,
        blockers=blockers,
        remedy=remedy,
    )


def _waiting(
    graph: GraphRecord,
    member: MemberRecord,
    groups: Sequence[GroupRecord],
    upstreams: Mapping[int, Sequence[MemberRecord]],
) -> list[Blocker]:
    missing = [
        _missing(group, upstreams.get(group.number, ()))
        for group in groups
        if group.state is not GroupState.SATISFIED
    ]
    return missing or [Blocker(kind="damage", text=_NOTHING, remedy="holdfast db check")]


_NOTHING = (
    "it waits for nothing, and is not started: rows of its graph are missing, or a worker is about"
    " to start it"
)


def _missing(group: GroupRecord, upstreams: Sequence[MemberRecord]) -> Blocker:
    left = group.need - group.done
    missing = [member for member in upstreams if member.state not in ENDED]
    not_completed = _not_completed(upstreams)
    needed = "all" if group.need == group.total else f"{group.need}"
    text = (
        f"it waits for {needed} of {group.total} to complete;"
        f" {left} more of: {_list_members(missing)}"
    )
    if not_completed:
        text += f"; did not complete: {_list_members(not_completed)}"
    blocker = Blocker(kind="dependency", text=text)
    if missing:
        blocker.holder = missing[0].run_id
        blocker.remedy = f"holdfast why {shlex.quote(missing[0].run_id)}"
    return blocker


def _not_completed(members: Sequence[MemberRecord]) -> list[MemberRecord]:
    """Return the members that ended without completing."""
    return [
        member
        for member in members
        if member.state in ENDED and member.state is not MemberState.COMPLETED
    ]


def _list_members(members: Sequence[MemberRecord]) -> str:
    names = ", ".join(
        f"{name_of(member.run_id)} ({member.state.value})" for member in members[:MOST]
    )
    if len(members) > MOST:
        names += f" and {len(members) - MOST} others"
    return names


def _over(
    graph: GraphRecord,
    member: MemberRecord,
    groups: Sequence[GroupRecord],
    upstreams: Mapping[int, Sequence[MemberRecord]],
) -> list[Blocker]:
    if member.started_at is not None:
        text = f"it was {member.state.value}; its run was pruned"
        return [Blocker(kind=member.state.value, text=text, since=member.finished_at)]
    why = member.note or "no reason was recorded"
    replay = f"holdfast graphs replay {shlex.quote(graph.id)} {shlex.quote(member.name)}"
    if member.state is MemberState.FAILED:
        text = f"it could not be started: {why}"
    else:
        text = f"it was {member.state.value}: {why}"
    blockers = [
        Blocker(kind=member.state.value, text=text, since=member.finished_at, remedy=replay)
    ]
    for group in groups:
        not_completed = _not_completed(upstreams.get(group.number, ()))
        if group.state is GroupState.IMPOSSIBLE and not_completed:
            blockers.append(
                Blocker(
                    kind="dependency",
                    text=f"did not complete: {_list_members(not_completed)}",
                    holder=not_completed[0].run_id,
                )
            )
    return blockers


_BY_STATE = {state: _waiting if state is MemberState.WAITING else _over for state in MemberState}
