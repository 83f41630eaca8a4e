"""``engine.lanes``: the limits of the named queues of runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast.connect.async_calls import AsyncCalls
from holdfast.connect.components import Components
from holdfast.core.unset import UNSET, without_unset
from holdfast.service import lanes
from holdfast.service.requests import Request
from holdfast.views import lanes as views
from holdfast.views.lanes import LaneUse, LaneView


class AsyncLanes:
    """The lanes of an ``AsyncEngine``."""

    def __init__(self, calls: AsyncCalls) -> None:
        self._calls: AsyncCalls = calls

    async def set(
        self,
        name: str,
        *,
        concurrency: int | None = UNSET,
        rate: str | None = UNSET,
        paused: bool = UNSET,
        per_share: int | None = UNSET,
        rate_per_share: str | None = UNSET,
        weights: Mapping[str, float | None] | None = UNSET,
        draining: bool = UNSET,
        by: str | None = None,
    ) -> None:
        """Create a lane or change it. Settings that are not passed stay as they are; None removes a
        limit.

        *concurrency* limits the runs that are executed at the same time, *rate* the runs that begin
        per period ("10/s"); *per_share* and *rate_per_share* limit each share likewise. *weights*
        are the weights of shares; other shares keep theirs, and a weight of None removes it. A
        *paused* lane starts no runs; a *draining* lane accepts no new runs. With *by*, the person
        or program that asks, the change is recorded in ``engine.audit``. Raises BadOption,
        NamespaceBound.
        """
        settings: dict[str, Any] = {
            "concurrency": concurrency,
            "rate": rate,
            "paused": paused,
            "per_share": per_share,
            "rate_per_share": rate_per_share,
            "weights": weights,
            "draining": draining,
        }

        def make_request(parts: Components) -> Request[None]:
            request = lanes.set_lane(parts.client, name, **settings)
            return parts.audit.record(request, by, "lanes.set", name, **without_unset(settings))

        await self._calls.call(lambda parts: parts.merge(lambda: make_request(parts)))

    async def get(self, name: str) -> LaneView:
        """Return a lane. Without settings it has no limits. Raises NamespaceBound."""

        def read(parts: Components) -> LaneView:
            return views.of(lanes.get_lane(parts.client, name), _use(parts))

        return await self._calls.call(read)

    async def list(self, *, after: str | None = None, limit: int = 100) -> list[LaneView]:
        """Return a page of the lanes that have settings or that runs were started in, by name: the
        first *limit*, or those after the name *after*. Raises BadOption, NamespaceBound."""

        def read(parts: Components) -> list[LaneView]:
            parts.client.require_unbound("lanes.list")
            use = _use(parts)
            return [views.of(lane, use) for lane in lanes.known_lanes(parts.store, after, limit)]

        return await self._calls.call(read)

    async def remove(self, name: str, *, force: bool = False, by: str | None = None) -> None:
        """Delete the settings of a lane, so that it has no limits. While runs of the lane have not
        ended, this is refused; with *force* they continue without limits. The lane stays listed as
        long as runs of it are stored. Raises LaneInUse, LaneNotFound, NamespaceBound."""
        await self._calls.commit(
            lambda parts: parts.audit.record(
                lanes.remove_lane(parts.client, name, force=force), by, "lanes.remove", name
            )
        )

    async def pause(self, name: str, *, by: str | None = None) -> None:
        """Let a lane start no runs until it is resumed. Raises NamespaceBound."""
        await self.set(name, paused=True, by=by)

    async def resume(self, name: str, *, by: str | None = None) -> None:
        """Let a lane start runs again, and accept new ones. Raises NamespaceBound."""
        await self.set(name, paused=False, draining=False, by=by)

    async def drain(self, name: str, *, by: str | None = None) -> None:
        """Let a lane accept no new runs, and finish the runs that it has. Raises NamespaceBound."""
        await self.set(name, draining=True, by=by)


def _use(parts: Components) -> LaneUse:
    store = parts.store
    return LaneUse(
        running=store.lanes.running(),
        shares=store.lanes.running_by_share(),
        ready=store.lanes.ready(),
        oldest_ready=store.gauges.oldest_by_lane(),
    )
