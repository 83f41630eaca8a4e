"""Writing for a held run: every write is tried until the store takes it; attempts that spend are
written before the program hears of them."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import msgspec

from holdfast.core.budgets.model import Breach
from holdfast.core.events import Event
from holdfast.core.graphs.model import MARK
from holdfast.core.runs import RunRecord
from holdfast.core.status import FINAL, Status
from holdfast.engine.execution.commit_buffer import CommitBuffer
from holdfast.engine.execution.graph_growth import fills_a_commit
from holdfast.engine.execution.mailbox import Happening
from holdfast.engine.runtime.context import WorkerContext
from holdfast.errors import BudgetNotFound, GraphRefused, LaneDraining, RunExists, StoreError
from holdfast.payloads.offload import sealed
from holdfast.store.contract import Advance, Advanced, AppendFrames, BudgetRefused, Operation

log = logging.getLogger("holdfast")

REFUSALS = (RunExists, BudgetNotFound, LaneDraining, GraphRefused)
"""What a write of a run is refused with when what it wants cannot be."""

PORTION = 500
"""How many children one commit starts or cancels at most, and how many outcomes it records: other
writers wait meanwhile."""


class Writing(Happening):
    """A held run, and how what happens to it is written."""

    def __init__(self, run: RunRecord, host: WorkerContext) -> None:
        super().__init__(run, host)
        self._in_graph = MARK in run.id
        self._seq = 0
        self._waits_since = 0

    def _should_let_go(self) -> bool:
        if self.host.stopping:
            return self._only_waits()
        return self.waiting and self.now() >= self._waits_since + self.host.linger

    async def _persist(self, op: Operation) -> Any:
        """Try again for as long as the store is in trouble: nothing is lost by waiting, and only
        the very same write, sent again, is recognised by a store that was cut off in the middle of
        it. Meanwhile no later output of the run overtakes what this write carries."""
        pause = 0.05
        written = op
        ends = False
        if type(op) is Advance:
            ends = self._in_graph and op.status in FINAL
            if not self.host.sealer.is_light(op):
                written = await sealed(op, self.host.sealer, self.host.threads)
        carries = isinstance(op, Advance | AppendFrames) and op.output is not None
        if carries:
            self.outlet.hold()
        try:
            while True:
                if ends:
                    self.host.settle_soon()
                try:
                    answer = await self.host.writer.post(written)
                    if (
                        type(answer) is Advanced
                        and answer.unasked
                        and type(op) is Advance
                        and op.status in FINAL
                    ):
                        continue  # a portion of its children was asked to stop before the run ends
                    return answer
                except StoreError as error:
                    if self.host.is_shut_out(error):
                        raise
                    log.warning(
                        "run %s cannot be written now, will try again: %s", self.run.id, error
                    )
                await asyncio.sleep(pause)
                pause = min(pause * 2, 5.0)
        finally:
            if carries:
                self.outlet.resume()

    def _note_answers(self, answers: list[Event]) -> None:
        self.stamp(answers)
        self.batch.events.extend(answers)

    def is_portion(self) -> bool:
        """Return whether the children and new members of a graph that the next commit has are
        enough for one."""
        return len(self.batch.children) >= PORTION or (
            bool(self.batch.grows) and fills_a_commit(self.batch)
        )

    async def _cancel_first(self, batch: CommitBuffer) -> None:
        """Ask most of thousands of runs to stop before the commit that says why: after a crash
        in between, the next holder is led to the same cancels, because nothing else is recorded
        yet."""
        while len(batch.cancels) > PORTION:
            part, batch.cancels = batch.cancels[:PORTION], batch.cancels[PORTION:]
            await self._persist(
                Advance(
                    run_id=self.run.id,
                    generation=self.run.generation,
                    status=self.at_work(),
                    cancels=part,
                )
            )

    def _park(self, op: Advance) -> None:
        waits = [wait for want in self.wants.values() if (wait := want.wait()) is not None]
        op.status = Status.CANCELLING if self._cancelling else Status.WAITING
        op.waits = msgspec.json.encode(waits)
        op.wake_at = min(
            (wait["until"] for wait in waits if wait.get("until") is not None), default=None
        )
        op.revision = self._revision
        op.keep = self._worth_keeping(op.wake_at)
        self.park_blocked(op)

    def _without_parking(self, op: Advance) -> Advance:
        op.status = op.revision = op.waits = op.wake_at = None
        op.keep, op.demands = True, ()
        if not op.events or self.waiting:
            op.status = self.at_work() if not self.is_cancelled_outside() else Status.CANCELLING
        return op

    async def _take_payments(self, events: list[Event]) -> list[Event]:
        """Record attempts that spend, before anybody hears of them: without room they have not
        completed. Return those that have; what became of the others is among *events*."""
        payable, self.payable = self.payable, []
        done: list[Event] = []
        together = [one for one in payable if one[1].is_plain]
        if len(together) > 1 and await self._pay_for(together) is None:
            done = [event for event, _ in together]
            payable = [one for one in payable if one[0] not in done]
        for event, purse in payable:
            breach = await self._pay_for([(event, purse)])
            if breach is None:
                done.append(event)
            else:
                self._heed(self.unpaid(event, purse, breach), purse, events)
        return done

    async def _pay_for(self, paid: list[tuple[Event, Any]]) -> Breach | None:
        """Record these and what they spend, or nothing; then say which limit there is."""
        await self.outlet.wait_until_written()
        op = self.settling(paid)
        self.stamp(op.events)
        for number, event in enumerate(op.events, self._seq + 1):
            event.seq = number
            self.outlet.ended(event)
        op.output = self.outlet.take()
        answer = await self._persist(op)
        if isinstance(answer, BudgetRefused):
            for event in op.events:
                self.outlet.reopen(op.output, event)
            if op.output is not None:  # what was put out is not lost by it
                await self._persist(AppendFrames(self.run.id, self.run.generation, op.output))
            return answer.breach
        self._seq += len(op.events)
        for event, purse in paid:
            self.asides.discard(event.step or "")
            self.note_lines(purse.take())
            self.wants.pop(event.step or "", None)
        self.note_breach(answer.breach)
        return None
