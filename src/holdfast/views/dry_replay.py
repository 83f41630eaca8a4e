"""Views of a dry replay: the verdicts on runs, as JSON and as lines for people."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from holdfast.core.dry_replay import Judgement, JudgementGroup, JudgementSummary, Verdict


def summary_of(summary: JudgementSummary) -> dict[str, Any]:
    """Return a summary as plain data: counts and first runs by workflow, version and verdict, and
    every run that the code cannot continue."""
    return {
        "ok": summary.fits,
        "judged": summary.judged,
        "groups": [
            {
                "workflow": group.workflow,
                "version": group.version,
                "verdict": group.verdict,
                "runs": group.runs,
                "first": [judgement.run_id for judgement in group.first],
            }
            for group in summary.groups.values()
        ],
        "objections": summary.objections,
        "left_out": summary.left_out,
        "not_judged": summary.others,
    }


def lines_of(summary: JudgementSummary) -> Iterator[str]:
    """Yield a summary as lines for people, the objections last."""
    groups = sorted(
        summary.groups.values(),
        key=lambda group: (not group.first[0].fits, group.workflow, group.version, group.verdict),
    )
    for group in groups:
        yield from _group_lines(group)
    for row in summary.left_out:
        yield f"damaged, not judged: {row}"
    if summary.others:
        yield f"not judged: live runs of {', '.join(summary.others)}, which no named module defines"
    yield _verdict_line(summary)


def _verdict_line(summary: JudgementSummary) -> str:
    count = len(summary.objections)
    if summary.fits:
        return f"{_runs(summary.judged)} judged: the code fits all of them"
    return f"{_runs(summary.judged)} judged: the code does not fit {count} of them"


def _group_lines(group: JudgementGroup) -> Iterator[str]:
    yield f"{group.workflow} version {group.version}: {_runs(group.runs)} {_verb(group)}"
    for judgement in group.first:
        detail = detail_of(judgement)
        yield f"  {judgement.run_id}" + (f": {detail}" if detail else "")
    if group.runs > len(group.first):
        yield f"  and {group.runs - len(group.first)} more"


def _verb(group: JudgementGroup) -> str:
    singular, plural = _VERBS[group.verdict]
    return singular if group.runs == 1 else plural


_VERBS = {
    Verdict.CONTINUES: ("continues", "continue"),
    Verdict.WAITS: ("waits", "wait"),
    Verdict.ENDS: ("ends", "end"),
    Verdict.UNSERVED: ("is left to other workers", "are left to other workers"),
    Verdict.FAILS: ("fails", "fail"),
    Verdict.DIVERGES: ("diverges", "diverge"),
    Verdict.STALLS: ("gives no answer", "give no answer"),
    Verdict.UNLOADABLE: ("fails to load", "fail to load"),
    Verdict.UNREADABLE: ("cannot be read", "cannot be read"),
    Verdict.UNKNOWN: ("has unknown code", "have unknown code"),
}


def detail_of(judgement: Judgement) -> str:
    """Return the reason for a verdict as one line; empty if there is nothing to say."""
    if judgement.verdict is Verdict.DIVERGES:
        wanted = judgement.wanted or judgement.why or "something else"
        place = f", at {judgement.where}" if judgement.where else ""
        return f"recorded is {judgement.recorded}, the code asks for {wanted}{place}"
    if judgement.verdict is Verdict.WAITS:
        return f"waits for {', '.join(judgement.next)}"
    if judgement.verdict is Verdict.CONTINUES:
        return f"asks for {', '.join(judgement.next)}"
    words = [*judgement.next, *([judgement.why] if judgement.why else [])]
    return ", ".join(words)


def _runs(count: int) -> str:
    return "1 run" if count == 1 else f"{count} runs"
