"""Queries about tokens at rest."""

from __future__ import annotations

from typing import Any

from holdfast.core.resting_tokens import RestingToken
from holdfast.store.reader import Reader


class RestingTokenQueries:
    """Queries about tokens at rest."""

    def __init__(self, reader: Reader) -> None:
        self._reader: Reader = reader

    def live_model_runs(self, after: str, limit: int) -> list[str]:
        """Return the next runs of stored definitions that have not ended and are not stuck, by id.
        Damaged rows are left out."""
        rows, _ = self._reader.sound_rows("live_model_runs", after=after, limit=limit)
        return [row["id"] for row in rows]

    def of_run(self, run_id: str) -> list[RestingToken]:
        """Return the tokens at rest of a run, oldest first."""
        return self._reader.all(_token, "tokens_of_run", run_id=run_id)

    def by_element(
        self, namespace: str | None, workflow: str, version: str
    ) -> dict[str, tuple[int, int]]:
        """Return how many tokens of the runs of one version of a model rest at each element, and
        how many of them need an operator. Without *namespace*, in all namespaces."""
        rows = self._reader.rows(
            "tokens_by_element", namespace=namespace, workflow=workflow, version=version
        )
        return {row["element"]: (row["tokens"], row["incidents"]) for row in rows}


def _token(row: Any) -> RestingToken:
    fields = dict(row)
    return RestingToken(id=fields.pop("token"), **fields)
