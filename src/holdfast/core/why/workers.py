"""Who could go on with a run: what the workers offer, whether they live, and what each of them
lacks. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from enum import StrEnum

import msgspec

from holdfast.core.runs import DEFAULT_NAMESPACE, Route
from holdfast.core.sessions import Session


class Liveness(StrEnum):
    """How a session stands."""

    ALIVE = "alive"
    SILENT = "silent"
    GONE = "gone"


class WorkerOffer(msgspec.Struct, kw_only=True):
    """What a worker serves, as its session says. None for the workflows, lanes, versions or
    namespaces means all of them."""

    workflows: dict[str, list[str] | None] | None = {}
    lanes: list[str] | None = None
    capabilities: list[str] = []
    namespace: str | None = None
    concurrency: int = 1
    claims: bool = True
    """False for one who only holds what it has leased, and asks for nothing more."""


class WorkerView(msgspec.Struct, kw_only=True):
    """A worker, as others see it; ``at_work`` is how many runs it holds that do not wait."""

    session: Session
    offer: WorkerOffer
    life: Liveness
    at_work: int = 0

    @property
    def name(self) -> str:
        return self.session.worker

    @property
    def place(self) -> str:
        where = (
            f"pid {self.session.pid} on {self.session.host}"
            if self.session.pid
            else f"a holder of leases on {self.session.host}"
        )
        return f"worker {self.session.worker} ({where})"


class UnservedRoute(msgspec.Struct, kw_only=True):
    """Runs that could go on now, if somebody served them: how many, one of them, what nobody
    offers, and what helps."""

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
    """Return what a session says that it serves; one that cannot be read serves nothing."""
    try:
        return msgspec.json.decode(session.serves, type=WorkerOffer)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return WorkerOffer()


def life_of(session: Session, *, process: bool | None, now: int) -> Liveness:
    """Say how a session stands. *process* says whether its process lives, None when nobody can
    tell.

    It beats every third of its lifetime, so one that has missed a second beat is silent, until it
    expires. A holder of leases, which has no process, renews them when it likes."""
    if process is False or session.expires_at < now:
        return Liveness.GONE
    if not session.pid:
        return Liveness.ALIVE
    lifetime = session.expires_at - session.beat_at
    return Liveness.SILENT if now - session.beat_at > lifetime * 2 // 3 else Liveness.ALIVE


def lacks(offer: WorkerOffer, route: Route) -> list[str]:
    """Say, in words, what keeps a worker from serving a route; nothing when it serves it."""
    if not offer.claims:
        return ["it only holds what it has leased, and claims nothing more"]
    if not _knows(offer, route):
        return [f"it does not know the workflow, only {_names(sorted(offer.workflows or ()))}"]
    found = []
    versions = _versions(offer, route)
    if versions is not None and route.version not in versions:
        found.append(f"it serves only {_names(versions)} of the versions")
    if offer.lanes is not None and route.lane not in offer.lanes:
        found.append(f"it serves only {_names(offer.lanes)} of the lanes")
    missing = sorted(set(route.capabilities) - set(offer.capabilities))
    if missing:
        found.append(
            f"it lacks {_names(missing)} and offers {_names(offer.capabilities)} of the"
            " capabilities"
        )
    if offer.namespace is not None and offer.namespace != route.namespace:
        found.append(f"it serves only the namespace {offer.namespace}")
    return found


def unserved(offers: Sequence[WorkerOffer], route: Route) -> str:
    """Name what nobody of *offers* serves, given that none of them serves the whole route."""
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
            f"the capability {one}": [one in offer.capabilities for offer in knowing]
            for one in route.capabilities
        },
    }
    nobody = [part for part, served in parts.items() if not any(served)]
    return " and ".join(nobody) or f"{', '.join(parts)}, all at once"


def start_command(offers: Sequence[WorkerOffer], route: Route) -> str:
    """Return the command that starts a worker for a route; MODULE stands for the module that
    defines the workflow."""
    command = "holdfast worker MODULE"
    if offers and not any(_any_or(offer.lanes, route.lane) for offer in offers):
        command += f" --lanes {route.lane}"
    if route.capabilities:
        command += f" --capabilities {','.join(route.capabilities)}"
    return command


def lease_command(route: Route) -> str:
    """Return the command that leases a run of a route."""
    words = [
        command_in(route.namespace, "tasks claim"),
        f"--workflow {shlex.quote(route.workflow)}",
    ]
    return " ".join([*words, *(f"--capability {shlex.quote(one)}" for one in route.capabilities)])


def command_in(namespace: str, *words: str) -> str:
    """Return a command about what is of one namespace, such as tasks and flows."""
    where = "" if namespace == DEFAULT_NAMESPACE else f" --namespace {shlex.quote(namespace)}"
    return " ".join([f"holdfast{where}", *words])


def _knows(offer: WorkerOffer, route: Route) -> bool:
    """Say whether the workflow is among those offered; a holder of leases may name lanes alone."""
    return offer.workflows is None or route.workflow in offer.workflows


def _versions(offer: WorkerOffer, route: Route) -> list[str] | None:
    return None if offer.workflows is None else offer.workflows[route.workflow]


def _any_or(allowed: Sequence[str] | None, one: str) -> bool:
    return allowed is None or one in allowed


def _names(names: Sequence[str]) -> str:
    shown = ", ".join(names[:8])
    return f"{shown} and {len(names) - 8} more" if len(names) > 8 else shown or "none"
