"""Judge the live runs of a server with the code of this machine. Each run is exported to a file of
its own, which is replayed here: the server needs none of the code."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec

from holdfast.connect.open_database import opened
from holdfast.core.codec import Codec
from holdfast.core.dry_replay import Judgement, JudgementSummary
from holdfast.core.duration import Duration
from holdfast.core.program import Definition
from holdfast.core.status import LIVE
from holdfast.errors import RunNotFound
from holdfast.remote.calls import TIMEOUT
from holdfast.remote.client import Client


class RemoteDryReplay:
    """Judges runs of a server, as ``DryReplay`` judges the runs of a database. The API key needs
    the role operator, and must see values."""

    def __init__(
        self,
        client: Client,
        definitions: Mapping[str, Definition],
        *,
        namespace: str | None,
        codec: Codec | None,
        limit: Duration,
    ) -> None:
        self._client: Client = client
        self._definitions: Mapping[str, Definition] = definitions
        self._namespace: str | None = namespace
        self._codec: Codec | None = codec
        self._limit: Duration = limit

    def live(self, progress: Callable[[int], None] | None = None) -> JudgementSummary:
        """Judge every live run of the definitions."""
        summary = JudgementSummary()
        with tempfile.TemporaryDirectory() as folder:
            for name in self._definitions:
                runs = self._client.runs(workflow=name, status=[*LIVE], namespace=self._namespace)
                for run in runs:
                    judgement = self._judge(run.id, Path(folder))
                    if judgement is None:
                        continue
                    summary.add(judgement)
                    if progress is not None:
                        progress(1)
        summary.others = self._other_workflows()
        return summary

    def _judge(self, run_id: str, folder: Path) -> Judgement | None:
        """Return the judgement of a run; None if it was deleted meanwhile."""
        address = f"/runs/{quote(run_id, safe='')}/export"
        file = folder / "run.db"
        try:
            file.write_bytes(self._client._calls.request("GET", address, {}, None, TIMEOUT))
            with opened(str(file), create=False, codec=self._codec, namespace=None) as database:
                replay = database.dry_replay(self._definitions, limit=self._limit)
                return replay.one(run_id)
        except RunNotFound:
            return None
        finally:
            for part in folder.iterdir():
                part.unlink()

    def _other_workflows(self) -> list[str]:
        answer: Any = self._client._calls.request("GET", "/versions", {}, None, TIMEOUT)
        names = {row["workflow"] for row in msgspec.json.decode(answer)["items"]}
        return sorted(names - set(self._definitions))
