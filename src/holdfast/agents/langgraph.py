"""Graphs of LangGraph as durable workflows: ``state = await run(graph, {...})`` instead of
``graph.ainvoke``.

In a workflow every node is a step, and every call of a tool by a ``ToolNode`` is one of its own:
recorded once, never done twice. ``interrupt(...)`` opens a gate where it stands: other branches go
on, and no checkpointer is needed. Elsewhere ``run`` is ``graph.ainvoke``.
"""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from holdfast.agents import adapter
from holdfast.agents.adapter import CallSettings
from holdfast.agents.flow_tool import FlowTool
from holdfast.authoring.python.streams import emit
from holdfast.authoring.replay.event_loop import threads_here
from holdfast.core.budgets.rules import Amount
from holdfast.errors import BadOption

try:
    from langchain_core.callbacks import BaseCallbackHandler
    from langchain_core.messages import ToolMessage
    from langchain_core.runnables import RunnableConfig, RunnableLambda
    from langchain_core.runnables.config import merge_configs, set_config_context
    from langchain_core.tools import BaseTool, StructuredTool
    from langchain_core.tracers._streaming import _StreamingCallbackHandler
    from langgraph.errors import GraphInterrupt, ParentCommand
    from langgraph.graph.state import CompiledStateGraph
    from langgraph.prebuilt import ToolNode
    from langgraph.pregel import Pregel
    from langgraph.types import Command

    from holdfast.agents.langgraph_values import GraphValues, types_in
except ImportError as error:
    raise adapter.missing("langgraph", "langgraph") from error

Spends = Callable[[Mapping[str, Any]], Mapping[str, Amount]]
Ask = Callable[[Any], Awaitable[Any]]

_SEND, _SCRATCHPAD, _RUNTIME = "__pregel_send", "__pregel_scratchpad", "__pregel_runtime"
"""Where LangGraph keeps, in the configuration of a node, what it writes to, what it was answered,
and where it speaks."""
_RESUME = "__resume__"


def tokens(usage: Mapping[str, Any]) -> Mapping[str, Amount]:
    """Return what a call of a model used: requests, tokens, input_tokens, output_tokens."""
    return adapter.used(1, int(usage.get("input_tokens", 0)), int(usage.get("output_tokens", 0)))


@dataclass
class _GraphRunSettings:
    """How the nodes of one run of a graph are done."""

    name: str
    node: CallSettings
    nodes: Mapping[str, CallSettings | None]
    tools: Mapping[str, CallSettings]
    approve: Collection[str]
    approval: Mapping[str, Any]
    ask: Ask
    stream: bool
    spends: Spends
    values: GraphValues


async def run(
    graph: CompiledStateGraph[Any, Any, Any, Any],
    input: Any,
    config: Any = None,
    *,
    node: Mapping[str, Any] | None = None,
    nodes: Mapping[str, Mapping[str, Any] | bool] | None = None,
    tools: Mapping[str, Mapping[str, Any]] | None = None,
    stream: bool = False,
    ask: Ask | None = None,
    approve: Collection[str] = (),
    approval: Mapping[str, Any] | None = None,
    spends: Spends = tokens,
    types: Sequence[type] = (),
    **options: Any,
) -> Any:
    """Run a graph, in a workflow as steps of it, and return its state at the end.

    *node* are options of the steps (``retries``, ``delay``, ``timeout`` and so on), *nodes* those
    of single nodes by name, False for one that is to be run as workflow code; *tools* those of
    single tools of a ``ToolNode``. What a node interrupts for is put to *ask*, or to people by a
    gate. Tools in *approve* are called only if people agree; *approval* are options of the gates.
    With *stream* the words of models are frames of the run's output. *spends* says what a call of a
    model costs, by dimension. *types* are those that nodes return and the state does not name. The
    rest is that of ``graph.ainvoke``.
    """
    if not isinstance(graph, CompiledStateGraph):
        raise BadOption(
            option="graph", value=type(graph).__name__, why="it must be a StateGraph, compiled"
        )
    asked, name = adapter.approval_from(approval), graph.get_name()
    terms = _GraphRunSettings(
        name,
        adapter.settings_from("node", node),
        {key: _settings("nodes", key, one) for key, one in (nodes or {}).items()},
        {key: adapter.settings_from(f"tools {key}:", one) for key, one in (tools or {}).items()},
        frozenset(approve),
        asked,
        ask or _asking(name, asked),
        stream,
        spends,
        GraphValues([*types_in(*_schemas(graph)), *types]),
    )
    known = _names(graph, terms)
    for option, given, names in (
        ("nodes", terms.nodes, known[0]),
        ("tools", terms.tools, known[1]),
        ("approve", approve, known[1]),
    ):
        unknown = set(given) - names
        if unknown:
            raise BadOption(
                option=option, value=sorted(unknown)[0], known=", ".join(sorted(names)) or "none"
            )
    if adapter.program_here() is None:
        return await graph.ainvoke(input, config, **options)
    token = threads_here.set(True)
    try:
        with adapter.agent_run(name):
            return await _durable(graph, terms).ainvoke(input, config, **options)
    finally:
        threads_here.reset(token)


def _names(graph: Any, terms: _GraphRunSettings) -> tuple[set[str], set[str]]:
    """Return the names of the nodes that can be steps, and of the tools whose calls can be, here
    and in the graphs within."""
    nodes, tools = set[str](), set[str]()
    for name, node in graph.nodes.items():
        if isinstance(node.bound, Pregel):
            inner = _names(node.bound, terms)
            nodes, tools = nodes | inner[0], tools | inner[1]
        elif not name.startswith("__"):
            nodes.add(name)
            if isinstance(node.bound, ToolNode) and terms.nodes.get(name, terms.node) is not None:
                tools.update(node.bound.tools_by_name)
    return nodes, tools


def _settings(option: str, key: str, given: Mapping[str, Any] | bool) -> CallSettings | None:
    return None if given is False else adapter.settings_from(f"{option} {key}:", given)  # type: ignore[arg-type]


def _schemas(graph: CompiledStateGraph[Any, Any, Any, Any]) -> list[Any]:
    return list(graph.builder.schemas)


def _durable(graph: Any, terms: _GraphRunSettings) -> Any:
    """Return the same graph with nodes that are steps; so are those of the graphs within it."""
    if graph.interrupt_before_nodes or graph.interrupt_after_nodes:
        why = (
            "call interrupt() in a node, or name tools in approve=; a run does not stop before or"
            " after nodes"
        )
        raise BadOption(option="interrupt_before", value=graph.get_name(), why=why)
    nodes = {name: _wrapped(name, one, terms) for name, one in graph.nodes.items()}
    return graph.copy({"nodes": nodes, "checkpointer": None})


def _wrapped(name: str, node: Any, terms: _GraphRunSettings) -> Any:
    bound = node.bound
    if isinstance(bound, CompiledStateGraph):
        return node.copy({"bound": _durable(bound, terms), "subgraphs": []})
    if isinstance(bound, Pregel):
        raise BadOption(
            option="node", value=name, why="a graph within a graph must be a StateGraph, compiled"
        )
    if name.startswith("__") or terms.nodes.get(name, terms.node) is None:
        return node
    call = (
        _ToolCalls(name, bound, terms)
        if isinstance(bound, ToolNode)
        else _NodeStep(name, bound, terms)
    )

    async def do(input: Any, config: RunnableConfig) -> Any:
        return await call(input, config)

    return node.copy({"bound": RunnableLambda(do, name=name), "subgraphs": []})


class _NodeStep:
    """One node, done as a step: again with the answers, when it interrupts."""

    def __init__(self, name: str, bound: Any, terms: _GraphRunSettings) -> None:
        self.name, self.bound, self.terms = name, bound, terms
        self.settings = terms.nodes.get(name, terms.node) or CallSettings()

    async def __call__(self, input: Any, config: Any) -> Any:
        return await self.do(f"node:{self.name}", input, config, self.settings)

    async def do(self, step: str, input: Any, config: Any, settings: CallSettings) -> Any:
        """Do it until it no longer asks, and return what it returned."""
        answers: list[Any] = []
        while True:

            async def body(known: tuple[Any, ...] = tuple(answers)) -> Any:
                return await self._attempt(input, config, list(known))

            told = await adapter.recorded(step, body, settings)
            if "asks" not in told:
                return self._end(told, config)
            with adapter.named_after_agent():
                answers.append(await self.terms.ask(self.terms.values.restore(told["asks"])))

    async def _attempt(self, input: Any, config: Any, answers: list[Any]) -> dict[str, Any]:
        """Run the node, in the step, and say what came of it."""
        store, sent = self.terms.values.store, list[tuple[str, Any]]()
        try:
            output = await _call(self.bound, input, _inside(config, answers, sent, self.terms))
        except GraphInterrupt as interrupt:
            return {"asks": store(interrupt.args[0][0].value)}
        except ParentCommand as up:
            return {"up": store(up.args[0])}
        written = [[channel, store(value)] for channel, value in sent if channel != _RESUME]
        return {"output": store(output), **({"sent": written} if written else {})}

    def _end(self, told: Mapping[str, Any], config: Any) -> Any:
        restore = self.terms.values.restore
        if "up" in told:
            raise ParentCommand(restore(told["up"]))
        if "sent" in told:
            config["configurable"][_SEND](
                [(channel, restore(value)) for channel, value in told["sent"]]
            )
        return restore(told["output"])


class _ToolCalls(_NodeStep):
    """A node that calls tools: each call is a step of its own, and asks people first if it must."""

    async def __call__(self, input: Any, config: Any) -> Any:
        found, kind = self.bound._parse_input(input)
        state = input["state"] if kind == "tool_calls" and isinstance(input, dict) else input
        results = await asyncio.gather(*(self._one(call, state, config) for call in found))
        flat = [
            one for result in results for one in (result if isinstance(result, list) else [result])
        ]
        if any(isinstance(one, Command) for one in flat):
            return [
                one[self.key] if kind == "list" and isinstance(one, dict) else one for one in flat
            ]
        messages = [message for one in flat for message in one[self.key]]
        return messages if kind == "list" else {self.key: messages}

    @property
    def key(self) -> str:
        """Where the state has its messages."""
        return str(self.bound._messages_key)

    async def _one(self, call: Any, state: Any, config: Any) -> Any:
        tool = call["name"]
        if tool in self.terms.approve:
            verdict = await adapter.approval(
                self.terms.name, tool, call["args"], self.terms.approval
            )
            if not verdict.approved:
                return {
                    self.key: [
                        ToolMessage(
                            verdict.words, name=tool, tool_call_id=call["id"], status="error"
                        )
                    ]
                }
        given = {"__type": "tool_call_with_context", "tool_call": call, "state": state}
        return await self.do(
            f"tool:{tool}", given, config, self.terms.tools.get(tool, self.settings)
        )


async def _call(bound: Any, input: Any, config: Any) -> Any:
    with set_config_context(config) as context:
        return await asyncio.create_task(bound.ainvoke(input, config), context=context)


def _inside(
    config: Any, answers: list[Any], sent: list[tuple[str, Any]], terms: _GraphRunSettings
) -> Any:
    """Return the configuration for a node that is done in a step: what it writes is noted, what it
    says is shown."""
    found = merge_configs(
        config, {"callbacks": [_Listener(terms) if terms.stream else _UsageCallback(terms)]}
    )
    around = dict(found["configurable"])
    around[_SEND] = sent.extend
    scratchpad = around.get(_SCRATCHPAD)
    if scratchpad is not None:
        counter = itertools.count().__next__
        around[_SCRATCHPAD] = replace(
            scratchpad, resume=answers, interrupt_counter=counter, get_null_resume=_nothing
        )
    runtime = around.get(_RUNTIME)
    if runtime is not None and terms.stream:
        around[_RUNTIME] = replace(
            runtime, stream_writer=lambda value: emit(terms.values.store(value), name="custom")
        )
    return {**found, "configurable": around}


def _nothing(consume: bool = False) -> None:
    return None


def _asking(name: str, options: Mapping[str, Any]) -> Ask:
    """Return what puts a question of a node to people: approve is True, reject is False."""

    async def ask(value: Any) -> bool:
        choices = [
            {"value": adapter.APPROVE, "means": "approve"},
            {"value": adapter.REJECT, "means": "reject"},
        ]
        prompt = (
            value
            if isinstance(value, str) and value.strip()
            else f"{name} asks: {json.dumps(value, default=str)}"
        )
        answer = await adapter.ask(prompt[:1000], options=choices, data=value, **options)
        return answer.approved

    return ask


class _UsageCallback(BaseCallbackHandler):
    """Hears what models use in a step."""

    run_inline = True

    def __init__(self, terms: _GraphRunSettings) -> None:
        self._terms = terms

    def on_llm_end(self, response: Any, **kwargs: Any) -> None:
        """Report what an answer has used."""
        for message in _messages(response):
            usage = getattr(message, "usage_metadata", None)
            if usage:
                adapter.report(self._terms.spends(usage))


class _Listener(_UsageCallback, _StreamingCallbackHandler[Any]):
    """Hears what models say, too; models speak in pieces where there is one."""

    def tap_output_aiter(self, run_id: UUID, output: Any) -> Any:
        """Leave output as it is."""
        return output

    def tap_output_iter(self, run_id: UUID, output: Any) -> Any:
        """Leave output as it is."""
        return output

    def on_llm_new_token(self, token: Any, **kwargs: Any) -> None:
        """Show a piece of an answer."""
        if isinstance(token, str):
            adapter.show("text", token)

    def on_llm_end(self, response: Any, **kwargs: Any) -> None:
        """Show which tools an answer asks for."""
        super().on_llm_end(response, **kwargs)
        for message in _messages(response):
            for call in getattr(message, "tool_calls", None) or []:
                adapter.show("tool_call", {"tool": call["name"], "arguments": call["args"]})


def _messages(response: Any) -> list[Any]:
    return [getattr(one, "message", None) for batch in response.generations for one in batch]


def flow_tool(tool: FlowTool) -> BaseTool:
    """Return managed flows as a tool of LangChain: ``ToolNode([flow_tool(FlowTool(engine,
    ...))])``."""

    def flow(**arguments: Any) -> str:
        return json.dumps(tool(arguments))

    async def aflow(**arguments: Any) -> str:
        return json.dumps(await tool.aio(arguments))

    return StructuredTool.from_function(
        flow, aflow, name=tool.name, description=tool.description, args_schema=tool.parameters
    )


__all__ = ["flow_tool", "run", "tokens"]
