"""Run every static check of a document. ``Library.check`` and ``holdfast check`` call this."""

from __future__ import annotations

import posixpath

from holdfast.authoring.wf.check.fanout import check_fanout
from holdfast.authoring.wf.check.folder import FolderSurroundings
from holdfast.authoring.wf.check.names import check_names
from holdfast.authoring.wf.check.node_index import nodes_by_kind
from holdfast.authoring.wf.check.subflows import check_subflows
from holdfast.authoring.wf.check.surroundings import Surroundings
from holdfast.authoring.wf.check.targets import check_targets
from holdfast.authoring.wf.document import Document
from holdfast.authoring.wf.problems import Code, ProblemCollector
from holdfast.core.problems import Problem


def check_document(document: Document, around: Surroundings | None = None) -> list[Problem]:
    """Return the problems of a document in its surroundings, in text order, with the warnings of
    its text. By default the surroundings are the files beside it. The problems of the workflows
    that it calls are theirs."""
    around = FolderSurroundings() if around is None else around
    problems = ProblemCollector(document.text, document.path, document.first_line)
    nodes = nodes_by_kind(document)
    check_names(document, around, problems)
    check_subflows(document, nodes, around, problems)
    check_fanout(nodes, around, problems)
    check_targets(document, nodes, around, problems)
    _check_file_name(document, problems)
    located = [*document.warnings, *problems.problems()]
    return sorted(located, key=lambda problem: (problem.line, problem.column))


def _check_file_name(document: Document, problems: ProblemCollector) -> None:
    """Warn if a file has another name than its workflow: the declared name counts."""
    stem, dot, suffix = posixpath.basename(document.path.replace("\\", "/")).rpartition(".")
    if dot and suffix == "wf" and stem != document.name:
        problems.warning(
            document.start,
            Code.FILE_NAME,
            f"the workflow is called `{document.name}`, its file `{stem}.wf`",
            "the declared name counts",
        )
