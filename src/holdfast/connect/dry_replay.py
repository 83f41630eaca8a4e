"""``DryReplay``: judge the runs of an open database with definitions, without changing anything."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from holdfast.connect.components import Components
from holdfast.core import duration
from holdfast.core.dry_replay import Judgement, JudgementSummary
from holdfast.core.duration import Duration
from holdfast.core.program import Definition
from holdfast.engine.dry_replay.judge import RecordedRun
from holdfast.engine.dry_replay.reading import RecordedRuns
from holdfast.engine.dry_replay.watched import Judges
from holdfast.errors import RunNotFound

LIMIT = "5s"
"""How long the code of one run may take."""


class DryReplay:
    """Judges runs of one database: each is replayed with the code of *definitions*, and nothing is
    executed or written. *limit* is the time that the code of one run may take."""

    def __init__(
        self,
        parts: Components,
        definitions: Mapping[str, Definition],
        *,
        namespace: str | None = None,
        limit: Duration = LIMIT,
    ) -> None:
        self._runs: RecordedRuns = RecordedRuns(parts.store, definitions, namespace)
        self._namespace: str | None = namespace
        self._new_judges: Callable[[], Judges] = lambda: Judges(
            definitions, parts.codec, parts.sealer, duration.parse(limit) / 1_000_000
        )

    def live(self, progress: Callable[[int], None] | None = None) -> JudgementSummary:
        """Judge every live run of the definitions."""
        summary = self._judge(self._runs.live(), progress)
        summary.others = self._runs.other_workflows()
        return summary

    def all(self, progress: Callable[[int], None] | None = None) -> JudgementSummary:
        """Judge every run of the database, as of an exported file."""
        return self._judge(self._runs.all(), progress)

    def one(self, run_id: str) -> Judgement:
        """Judge one run. Raises RunNotFound, RowDamaged."""
        recorded = self._runs.one(run_id)
        if recorded is None or self._namespace not in (None, recorded.run.namespace):
            raise RunNotFound(run=run_id)
        judges = self._new_judges()
        try:
            return judges.judge(recorded)
        finally:
            judges.close()

    def _judge(
        self, runs: Iterable[RecordedRun], progress: Callable[[int], None] | None
    ) -> JudgementSummary:
        summary = JudgementSummary()
        judges = self._new_judges()
        try:
            for recorded in runs:
                summary.add(judges.judge(recorded))
                if progress is not None:
                    progress(1)
        finally:
            judges.close()
        summary.left_out = self._runs.left_out
        return summary
