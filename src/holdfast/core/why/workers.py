"""The workers that could serve a run: their offers, their liveness, and what each of them lacks.
Pure."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from enum import StrEnum

import msgspec

from holdfast.core import typed_json
from holdfast.core.runs import DEFAULT_NAMESPACE, Route
from holdfast.core.sessions import Session


class Liveness(StrEnum):
    """The liveness of a session."""

    ALIVE = "alive"
    SILENT = "silent"
    GONE = "gone"


class WorkerOffer(msgspec.Struct, kw_only=True):
    """The offer of a worker, as its session declares it. None for the workflows, lanes, versions or
    the namespace means all of them."""

    workflows: dict[str, list[str] | None] | None = {}
    lanes: list[str] | None = None
    capabilities: list[str] = []
    namespace: str | None = None
    concurrency: int = 1
    claims: bool = True
    """False for a holder that keeps its leases but does not claim more runs."""


class WorkerFacts(msgspec.Struct, kw_only=True):
    """A worker as other processes see it; ``at_work`` is the number of its runs that do not
    wait."""

    session: Session
    offer: WorkerOffer
    life: Liveness
    at_work: int = 0

    @property
    def name(self) -> str:
        return self.session.worker

    @property
    def place(self) -> str:
        process = f"pid {self.session.pid}" if self.session.pid else "a holder of leases"
        return f"worker {self.session.worker} ({process} on {self.session.host})"


class UnservedRoute(msgspec.Struct, kw_only=True):
    """Claimable runs that no live worker serves: their number, one of them, the part of the route
    that no worker offers, and the command that helps."""

    route: Route
    runs: int
    example: str
    missing: str
    remedy: str

    @property
    def text(self) -> str:
        needs = "run needs" if self.runs == 1 else "runs need"
        return (
            f"{self.runs} {needs} a worker, and no live one serves {self.missing} (such as"
            f" {self.example})"
        )


def offer_of(session: Session) -> WorkerOffer:
    """Return the offer that a session declares; an empty one if it cannot be decoded."""
    try:
        return typed_json.decode(session.serves, WorkerOffer)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return WorkerOffer()


def life_of(session: Session, *, process: bool | None, now: int) -> Liveness:
    """Return the liveness of a session. *process* tells whether its process lives; None if that is
    not known, as for a process on another host.

    A worker sends a heartbeat every third of the session's lifetime, so a session that has missed a
    second one is silent until it expires. A holder of leases has no process and no regular
    heartbeat: it is alive until it expires."""
    if process is False or session.expires_at < now:
        return Liveness.GONE
    if not session.pid:
        return Liveness.ALIVE
    lifetime = session.expires_at - session.beat_at
    if now - session.beat_at > lifetime * 2 // 3:
        return Liveness.SILENT
    return Liveness.ALIVE


def lacks(offer: WorkerOffer, route: Route) -> list[str]:
    """Return the reasons, as texts, why a worker does not serve a route; empty if it does."""
    if not offer.claims:
        return ["it only holds what it has leased, and claims nothing more"]
    if not _knows(offer, route):
        return [f"it does not know the workflow, only {_names(sorted(offer.workflows or ()))}"]
    reasons = []
    versions = _versions(offer, route)
    if versions is not None and route.version not in versions:
        reasons.append(f"it serves only {_names(versions)} of the versions")
    if offer.lanes is not None and route.lane not in offer.lanes:
        reasons.append(f"it serves only {_names(offer.lanes)} of the lanes")
    missing = sorted(set(route.capabilities) - set(offer.capabilities))
    if missing:
        reasons.append(
            f"it lacks {_names(missing)} and offers {_names(offer.capabilities)} of the"
            " capabilities"
        )
    if offer.namespace is not None and offer.namespace != route.namespace:
        reasons.append(f"it serves only the namespace {offer.namespace}")
    return reasons


def unserved(offers: Sequence[WorkerOffer], route: Route) -> str:
    """Name the parts of the route that none of the *offers* serves; if each part is served by one
    of them, the whole route. No offer may serve the whole route."""
    knowing = [offer for offer in offers if _knows(offer, route)]
    if not knowing:
        return f"the workflow {route.workflow}"
    parts = {
        f"version {route.version} of {route.workflow}": [
            _any_or(_versions(offer, route), route.version) for offer in knowing
        ],
        f"the lane {route.lane}": [_any_or(offer.lanes, route.lane) for offer in knowing],
        f"the namespace {route.namespace}": [
            offer.namespace in (None, route.namespace) for offer in knowing
        ],
        **{
            f"the capability {name}": [name in offer.capabilities for offer in knowing]
            for name in route.capabilities
        },
    }
    missing = [part for part, served in parts.items() if not any(served)]
    return " and ".join(missing) or f"{', '.join(parts)}, all at once"


def start_command(offers: Sequence[WorkerOffer], route: Route) -> str:
    """Return the command that starts a worker for a route; MODULE stands for the module that
    defines the workflow."""
    command = "holdfast worker MODULE"
    if offers and not any(_any_or(offer.lanes, route.lane) for offer in offers):
        command += f" --lane {route.lane}"
    if route.capabilities:
        command += f" --capability {','.join(route.capabilities)}"
    return command


def lease_command(route: Route) -> str:
    """Return the command that leases a run of a route."""
    words = [
        command_in(route.namespace, "tasks claim"),
        f"--workflow {shlex.quote(route.workflow)}",
    ]
    return " ".join([*words, *(f"--capability {shlex.quote(name)}" for name in route.capabilities)])


def command_in(namespace: str, *words: str) -> str:
    """Return a command of the CLI with the option that selects the namespace, if it needs one."""
    option = "" if namespace == DEFAULT_NAMESPACE else f" --namespace {shlex.quote(namespace)}"
    return " ".join([f"holdfast{option}", *words])


def _knows(offer: WorkerOffer, route: Route) -> bool:
    """Return whether the offer includes the workflow; the offer of a holder of leases may have
    lanes only."""
    return offer.workflows is None or route.workflow in offer.workflows


def _versions(offer: WorkerOffer, route: Route) -> list[str] | None:
    if offer.workflows is None:
        return None
    return offer.workflows[route.workflow]


def _any_or(allowed: Sequence[str] | None, name: str) -> bool:
    return allowed is None or name in allowed


def _names(names: Sequence[str]) -> str:
    listed = ", ".join(names[:8])
    if len(names) > 8:
        return f"{listed} and {len(names) - 8} more"
    return listed or "none"
