"""What a blocking and an asynchronous engine are both made of."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from holdfast.authoring.code import registry
from holdfast.authoring.code.program import current_program
from holdfast.authoring.code.step import current_step
from holdfast.connect.store import open_store
from holdfast.core import duration
from holdfast.core.codec import Codec, JsonCodec
from holdfast.core.duration import Duration
from holdfast.core.options import checked_capabilities, checked_text, checked_words
from holdfast.core.records import NewRun, Route, Run
from holdfast.core.schedules.record import GONE
from holdfast.engine.client import Client
from holdfast.engine.frames import Frames
from holdfast.engine.news import News
from holdfast.engine.payloads.vault import LARGE, Vault
from holdfast.engine.results import DONE, Results
from holdfast.engine.scheduling import Schedules
from holdfast.engine.settings import Settings
from holdfast.engine.subscriptions import Subscriptions
from holdfast.engine.work import Work
from holdfast.engine.worker import Worker
from holdfast.engine.writer import Writer
from holdfast.errors import BadOption, CodecMismatch, UnknownWorkflow
from holdfast.store.clock import Clock
from holdfast.store.contract import ENCRYPTION, MOST_SIGNALS, PauseSchedule, SaveSetting, SetSchedule, Transition

if TYPE_CHECKING:
    from holdfast.core.why.facts import Why
    from holdfast.core.why.serving import Unserved

log = logging.getLogger("holdfast")

START_OPTIONS = (
    "id", "key", "lane", "priority", "delay", "deadline", "tags", "capabilities", "namespace", "version", "policy",
    "budget", "share", "debounce", "max_wait", "batch", "within",
)  # fmt: skip


UNEASY = 5.0
"""Seconds after which whoever waits for a run, and does not work on it, is told what holds it up."""


class Parts:
    """Store, writer, client and, while it works, the worker."""

    def __init__(
        self, url: str | os.PathLike[str], *, workflows: Iterable[Any] | None = None, namespace: str | None = None,
        codec: Codec | None = None, clock: Clock | None = None, store: Any = None, driver: str | None = None,
        max_signals: int = MOST_SIGNALS, large: int = LARGE, locked: bool = False, **options: Any,
    ) -> None:  # fmt: skip
        self.codec, limit = JsonCodec() if codec is None else checked_codec(codec), checked_limit(max_signals)
        if isinstance(large, bool) or not isinstance(large, int) or large < 0:
            raise BadOption(option="large", value=large, why="it is a number of bytes")
        self._given = None if workflows is None else {one.name: checked_workflow(one) for one in workflows}
        self._started: dict[str, Any] = {}
        self.settings = settings_from({**options, "namespace": checked_text("namespace", namespace)})
        chosen: dict[str, Any] = {} if driver is None else {"driver": driver}
        self.store = store or open_store(url, clock=clock, codec=self.codec.name, **chosen)
        self.vault = self._new_vault(large, given=store is not None, locked=locked)
        self.clock: Clock = clock or self.store.clock
        self.writer = Writer(self.store)
        self.results = Results()
        self.writer.listeners.append(self.results.hinted)
        self.news = News()
        self.writer.listeners.append(self.news.hinted)
        self.work = Work(self.store)
        self.writer.listeners.append(self.work.hinted)
        self.frames = Frames(self.store, self.codec, self.vault)
        self.subscriptions = Subscriptions(self.store, self.vault)
        self.client = Client(self.store, self.codec, self.definitions, namespace, self.vault)
        self.schedules = Schedules(self.client)
        self.client.max_signals = limit
        self.worker: Worker | None = None

    def why(self, run: Run | str) -> Why:
        """Explain where a run stands."""
        from holdfast.engine.why import why  # only who asks pays for it

        return why(self.store, run, self.vault)

    def unserved(self) -> list[Unserved]:
        """Return what is ready and nobody serves."""
        from holdfast.engine.why import unserved

        return unserved(self.store)

    def looking_at(self, run_id: str) -> Callable[[], Run]:
        """Return how to look at a run for somebody who waits for its end, and who is told once if that may take for ever."""
        uneasy_at: float | None = time.monotonic() + UNEASY

        def look() -> Run:
            nonlocal uneasy_at
            run = self.results.fetch(run_id, self.store.runs_by_id) or self.client.get(run_id)
            if uneasy_at is not None and time.monotonic() >= uneasy_at:
                uneasy_at = None
                if self.worker is None and run.status not in DONE:
                    found = self.why(run)
                    log.warning(
                        "run %s has not ended yet: %s (%s)", run_id, found.reason, found.remedy or f"holdfast why {run_id}"
                    )
            return run

        return look

    def _new_vault(self, large: int, *, given: bool, locked: bool) -> Vault:
        """Return what seals and opens values. A database that is encrypted stays so: who has no keys may only look, and only
        if that is what they want. Raises CodecMismatch."""
        cipher, packing = getattr(self.codec, "cipher", None), getattr(self.codec, "packing", None)
        try:
            encrypted = self.store.setting(ENCRYPTION) is not None
            if cipher is None and encrypted and not locked:
                raise CodecMismatch(database=self.store.url, stored=f"{self.codec.name}, encrypted", given=self.codec.name)
            if cipher is not None and not encrypted:
                self.store.apply([SaveSetting(ENCRYPTION, "on")])
        except BaseException:
            if not given:
                self.store.close()
            raise
        shut = cipher is None and encrypted
        return Vault(self.store, cipher, packing, large, json=self.codec.name == JsonCodec.name, locked=shut)

    def definitions(self) -> Mapping[str, Any]:
        """Return the workflows that this engine knows, by name: those given to it, or all that the process defines."""
        known = registry.known() if self._given is None else self._given
        return {**known, **self._started} if self._started else known

    def know(self, workflow: Any) -> None:
        """Remember a workflow that was started here: then it can be run here."""
        if current_program.get() is not None and current_step.get() is None:
            raise BadOption(option="start", why="a workflow starts runs with holdfast.start, so that it does so only once")
        if not isinstance(workflow, str):
            self.learn(workflow)
        elif self._given is None and workflow not in self._started:
            registry.check_name(workflow)

    def learn(self, workflow: Any) -> None:
        """Remember a workflow, whatever else goes by its name."""
        name = getattr(workflow, "name", None)
        if name is not None and self.definitions().get(name) is not workflow:
            self._started[name] = workflow

    def new_worker(self) -> Worker:
        """Return a worker for this engine, not yet started."""
        if self._given is None:
            for name, places in registry.ambiguous().items():
                log.info("workflow %s is defined more than once and not served by its name: %s", name, ", ".join(places))
        self.worker = Worker(
            self.store, self.writer, self.codec, self.definitions, self.clock, self.settings, self.learn, self.vault
        )
        self.worker.watchers.append(self.results.changed)
        self.worker.declare = self._declarations
        self.worker.watchers += [self.news.changed, self.work.changed]
        self.results.watched = self.news.watched = self.work.watched = True
        return self.worker

    def _declarations(self) -> list[Transition]:
        """Return what must be written so that the schedules stored are those that the code declares."""
        wanted, gone, wrong = self.schedules.declared(self.definitions())
        for reason in wrong:
            log.error("a schedule in the code is not used: %s", reason)
        for one in gone:
            log.warning("schedule %s is paused: %s", one.name, GONE)
        return [*map(SetSchedule, wanted), *(PauseSchedule(one.namespace, one.name, GONE) for one in gone)]

    def lease(self, route: Route) -> str | None:
        """Return the session to which a new run can be born leased, if this engine works."""
        return self.worker.lease_for(route) if self.worker is not None and not self.worker.stopping else None

    def adopt(self, runs: list[NewRun], answers: list[Any]) -> None:
        """Go on, here, with the runs that were born leased to this engine's worker."""
        worker = self.worker
        born = [(run, answer.now) for run, answer in zip(runs, answers, strict=True) if answer.leased]
        if worker is not None and len(runs) > 1:  # those that are not born leased may be claimed here in a moment
            self.results.expect(answer.id for answer in answers if answer.created)
        if worker is not None and born:
            worker.loop.call_soon_threadsafe(worker.adopt_all, born)

    def close(self) -> None:
        """Let go of the store."""
        self.writer.close()
        self.store.close()


def checked_codec(codec: Any) -> Codec:
    """Return a codec; refuse what is none."""
    if isinstance(codec, type) or not all(hasattr(codec, name) for name in ("name", "encode", "decode")):
        raise BadOption(option="codec", value=codec if isinstance(codec, str) else type(codec).__name__, why="it is no codec")
    return codec  # type: ignore[no-any-return]


def settings_from(options: dict[str, Any]) -> Settings:
    """Return the settings of a worker; refuse unknown options."""
    known = set(Settings.__struct_fields__)
    unknown = set(options) - known
    if unknown:
        raise BadOption(option=sorted(unknown)[0], known=", ".join(sorted(known)))
    found = {name: value for name, value in options.items() if value is not None}
    for name in ("lifetime", "linger", "poll", "stream_window", "retain"):
        if name in found:
            found[name] = duration.parse(found[name])
    if "grace" in found:
        found["grace"] = duration.parse(found["grace"]) / 1_000_000
    if "lanes" in found:
        found["lanes"] = tuple(checked_words("lanes", found["lanes"]) or ())
    if "capabilities" in found:
        found["capabilities"] = checked_capabilities(found["capabilities"])
    if found.get("concurrency", 1) < 1:
        raise BadOption(option="concurrency", value=found["concurrency"], why="a worker runs at least one at a time")
    return Settings(**found)


def checked_limit(limit: Any) -> int:
    """Return how many signals a run may have; refuse what is no number."""
    if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
        raise BadOption(option="max_signals", value=limit, why="it is a number of signals, from 1 on")
    return limit


def checked_workflow(workflow: Any) -> Any:
    """Return a workflow; refuse what is none."""
    if not hasattr(workflow, "program"):
        raise UnknownWorkflow(workflow=getattr(workflow, "__name__", repr(workflow)), why="it is no @workflow")
    return workflow


def split_options(kwargs: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Tell the options of a start from the arguments of the workflow."""
    options = {name: kwargs[name] for name in START_OPTIONS if name in kwargs}
    return options, {name: value for name, value in kwargs.items() if name not in options}


def seconds_of(timeout: Duration | None) -> float | None:
    """Return a duration in seconds."""
    return None if timeout is None else duration.parse(timeout) / 1_000_000
