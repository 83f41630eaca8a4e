"""Check the targets that a document names: executors, gates, schemas, scripts, targets of meta."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.authoring.wf import ast
from holdfast.authoring.wf.check.node_index import NodeIndex
from holdfast.authoring.wf.check.surroundings import Surroundings
from holdfast.authoring.wf.document import Document
from holdfast.authoring.wf.problems import Code, ProblemCollector
from holdfast.authoring.wf.scripts import check_env_name
from holdfast.core.problems import did_you_mean

_Step = ast.CallNode | ast.CallWorkflowNode | ast.ScriptNode


def check_targets(
    document: Document, nodes: NodeIndex, around: Surroundings, problems: ProblemCollector
) -> None:
    """Report targets that do not exist or cannot be used, as far as the existing ones are known."""
    _check_meta(document, around, problems)
    _check_executors(nodes, around, problems)
    _check_gates(nodes, around, problems)
    for name in _schemas(nodes):
        _check_schema(name, document, around, problems)
    for node in nodes.of(ast.ScriptNode):
        _check_script(node.run, document, around, problems)
        _check_environment(node, problems)


def _check_meta(document: Document, around: Surroundings, problems: ProblemCollector) -> None:
    allowed = around.allowed_targets()
    if not allowed:
        return
    for target in document.targets:
        if target.text not in allowed:
            listed = ", ".join(f"`{name}`" for name in sorted(allowed))
            problems.error(
                target.start,
                Code.UNKNOWN_TARGET,
                f"there is no target `{target.text}`",
                did_you_mean(target.text, allowed) or f"targets: {listed}",
            )


def _check_executors(nodes: NodeIndex, around: Surroundings, problems: ProblemCollector) -> None:
    known = around.executors()
    if known is None:
        return
    steps: list[_Step] = [*nodes.of(ast.CallNode)]
    steps += nodes.of(ast.CallWorkflowNode)
    steps += nodes.of(ast.ScriptNode)
    for node in steps:
        for target in _targets(node):
            if target.text in known or (target.is_path and around.resolves_path(target.text)):
                continue
            problems.error(
                target.start,
                Code.UNKNOWN_EXECUTOR,
                f"there is no executor `{target.text}`",
                did_you_mean(target.text, known) or "register it with `library.executor`",
            )


def _targets(node: _Step) -> list[ast.Target]:
    targets = [node.on_fail, node.undo]
    if isinstance(node, ast.CallNode):
        targets.insert(0, node.target)
    return [target for target in targets if target is not None]


def _check_gates(nodes: NodeIndex, around: Surroundings, problems: ProblemCollector) -> None:
    types = around.gate_types()
    if types is None:
        return
    for node in nodes.of(ast.GateNode):
        if not node.type.startswith("human_") and node.type not in types:
            problems.warning(
                node.start,
                Code.UNKNOWN_GATE,
                f"the gate `{node.type}` has no resolver: people decide it",
                did_you_mean(node.type, types),
            )


def _schemas(nodes: NodeIndex) -> Iterator[ast.Word]:
    blocks: list[ast.CallNode | ast.DoNode | ast.ParallelNode] = [*nodes.of(ast.CallNode)]
    blocks += nodes.of(ast.DoNode)
    blocks += nodes.of(ast.ParallelNode)
    blocks += [node.do for node in nodes.of(ast.ForeachNode) if node.do is not None]
    for block in blocks:
        if block.output is not None:
            yield block.output


def _check_schema(
    name: ast.Word, document: Document, around: Surroundings, problems: ProblemCollector
) -> None:
    fault = around.schema_fault(name.text, document)
    if fault is None:
        return
    if fault.is_missing:
        hint = did_you_mean(name.text, around.schema_names(document))
        problems.error(name.start, Code.UNKNOWN_SCHEMA, f"there is no schema `{name.text}`", hint)
    else:
        problems.error(
            name.start, Code.BAD_SCHEMA, f"the schema `{name.text}` cannot be used: {fault.why}"
        )


def _check_environment(node: ast.ScriptNode, problems: ProblemCollector) -> None:
    """Warn of variables that the script must not set: it fails when it is reached."""
    for name, _ in node.env:
        fault = check_env_name(name)
        if fault is not None:
            problems.warning(
                node.start, Code.BAD_VALUE, f"the script `{node.name}` will fail: {fault}"
            )


def _check_script(
    run: ast.Word, document: Document, around: Surroundings, problems: ProblemCollector
) -> None:
    first = run.text.split(maxsplit=1)[:1]
    if not first or "{{" in first[0]:
        return
    fault = around.script_fault(run.text, document)
    if fault is not None:
        code = Code.MISSING_SCRIPT if fault.is_missing else Code.NOT_EXECUTABLE
        problems.error(run.start, code, fault.why, fault.hint)
