"""Run graphs of LangGraph durably: ``state = await run(graph, {...})`` instead of
``graph.ainvoke``.

In a workflow every node is a step, and every call of a tool by a ``ToolNode`` is a step of its own:
recorded once, never repeated after it has completed. ``interrupt(...)`` opens a gate at that place:
other branches continue, and no checkpointer is needed. Outside a workflow ``run`` calls
``graph.ainvoke``.
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

# Private keys of LangGraph in the configuration of a node:
_SEND = "__pregel_send"
"""The function that receives the writes of the node."""
_SCRATCHPAD = "__pregel_scratchpad"
"""The answers to the interrupts of the node."""
_RUNTIME = "__pregel_runtime"
"""The runtime, with the writer of custom streams."""
_RESUME = "__resume__"


def tokens(usage: Mapping[str, Any]) -> Mapping[str, Amount]:
    """Return the usage of a call of a model: requests, tokens, input_tokens, output_tokens."""
    return adapter.used(1, int(usage.get("input_tokens", 0)), int(usage.get("output_tokens", 0)))


@dataclass
class _GraphRunSettings:
    """The settings of one run of a graph."""

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
    """Run a graph, in a workflow as steps of the run, and return its final state.

    Args:
        node: options of the steps (``retries``, ``delay``, ``timeout`` and so on).
        nodes: options of single nodes by name; False runs a node as workflow code.
        tools: options of single tools of a ``ToolNode`` by name.
        stream: whether the text of models is emitted as frames of the run's output.
        ask: answers the value of an ``interrupt``; by default people do, through a gate.
        approve: names of tools that are called only if people agree.
        approval: options of the gates.
        spends: returns the usage of a call of a model, by dimension.
        types: types that nodes return and that the state does not name.
        options: further options of ``graph.ainvoke``.
    """
    if not isinstance(graph, CompiledStateGraph):
        raise BadOption(
            option="graph", value=type(graph).__name__, why="it must be a compiled StateGraph"
        )
    gate_options = adapter.approval_from(approval)
    name = graph.get_name()
    terms = _GraphRunSettings(
        name,
        adapter.settings_from("node", node),
        {key: _settings("nodes", key, values) for key, values in (nodes or {}).items()},
        {
            key: adapter.settings_from(f"tools {key}:", values)
            for key, values in (tools or {}).items()
        },
        frozenset(approve),
        gate_options,
        ask or _ask_people(name, gate_options),
        stream,
        spends,
        GraphValues([*types_in(*_schemas(graph)), *types]),
    )
    _check_names(graph, terms)
    if adapter.program_here() is None:
        return await graph.ainvoke(input, config, **options)
    token = threads_here.set(True)
    try:
        with adapter.agent_run(name):
            return await _durable(graph, terms).ainvoke(input, config, **options)
    finally:
        threads_here.reset(token)


def _check_names(graph: Any, terms: _GraphRunSettings) -> None:
    """Raise BadOption if an option names a node or a tool that the graph does not have."""
    node_names, tool_names = _names(graph, terms)
    for option, used_names, names in (
        ("nodes", terms.nodes, node_names),
        ("tools", terms.tools, tool_names),
        ("approve", terms.approve, tool_names),
    ):
        unknown = set(used_names) - names
        if unknown:
            raise BadOption(
                option=option, value=sorted(unknown)[0], known=", ".join(sorted(names)) or "none"
            )


def _names(graph: Any, terms: _GraphRunSettings) -> tuple[set[str], set[str]]:
    """Return the names of the nodes that can be steps, and of the tools whose calls can be steps,
    in the graph and its subgraphs."""
    nodes = set[str]()
    tools = set[str]()
    for name, node in graph.nodes.items():
        if isinstance(node.bound, Pregel):
            inner_nodes, inner_tools = _names(node.bound, terms)
            nodes |= inner_nodes
            tools |= inner_tools
        elif not name.startswith("__"):
            nodes.add(name)
            if isinstance(node.bound, ToolNode) and terms.nodes.get(name, terms.node) is not None:
                tools.update(node.bound.tools_by_name)
    return nodes, tools


def _settings(option: str, key: str, values: Mapping[str, Any] | bool) -> CallSettings | None:
    return None if values is False else adapter.settings_from(f"{option} {key}:", values)  # type: ignore[arg-type]


def _schemas(graph: CompiledStateGraph[Any, Any, Any, Any]) -> list[Any]:
    return list(graph.builder.schemas)


def _durable(graph: Any, terms: _GraphRunSettings) -> Any:
    """Return a copy of the graph whose nodes, and those of its subgraphs, run as steps."""
    if graph.interrupt_before_nodes or graph.interrupt_after_nodes:
        why = (
            "call interrupt() in a node, or name tools in approve=; a run does not stop before or"
            " after nodes"
        )
        raise BadOption(option="interrupt_before", value=graph.get_name(), why=why)
    nodes = {name: _durable_node(name, node, terms) for name, node in graph.nodes.items()}
    return graph.copy({"nodes": nodes, "checkpointer": None})


def _durable_node(name: str, node: Any, terms: _GraphRunSettings) -> Any:
    bound = node.bound
    if isinstance(bound, CompiledStateGraph):
        return node.copy({"bound": _durable(bound, terms), "subgraphs": []})
    if isinstance(bound, Pregel):
        raise BadOption(
            option="node", value=name, why="a graph within a graph must be a compiled StateGraph"
        )
    if name.startswith("__") or terms.nodes.get(name, terms.node) is None:
        return node
    kind = _ToolCalls if isinstance(bound, ToolNode) else _NodeStep
    node_step = kind(name, bound, terms)

    async def call(input: Any, config: RunnableConfig) -> Any:
        return await node_step(input, config)

    return node.copy({"bound": RunnableLambda(call, name=name), "subgraphs": []})


class _NodeStep:
    """One node, run as a step. A node that interrupts runs again, as a new step, with the
    answers."""

    def __init__(self, name: str, bound: Any, terms: _GraphRunSettings) -> None:
        self.name = name
        self.bound = bound
        self.terms = terms
        self.settings = terms.nodes.get(name, terms.node) or CallSettings()

    async def __call__(self, input: Any, config: Any) -> Any:
        return await self.run_step(f"node:{self.name}", input, config, self.settings)

    async def run_step(self, step: str, input: Any, config: Any, settings: CallSettings) -> Any:
        """Run the node until it no longer interrupts, and return its output."""
        answers: list[Any] = []
        while True:

            async def body(known: tuple[Any, ...] = tuple(answers)) -> Any:
                return await self._attempt(input, config, list(known))

            outcome = await adapter.recorded(step, body, settings)
            if "asks" not in outcome:
                return self._apply(outcome, config)
            with adapter.named_after_agent():
                answers.append(await self.terms.ask(self.terms.values.restore(outcome["asks"])))

    async def _attempt(self, input: Any, config: Any, answers: list[Any]) -> dict[str, Any]:
        """Run the node, in the step, and return its outcome as plain data: its output and writes
        (``sent``), its interrupt (``asks``), or a command to the parent graph (``up``)."""
        store = self.terms.values.store
        sent: list[tuple[str, Any]] = []
        try:
            output = await _call(self.bound, input, _step_config(config, answers, sent, self.terms))
        except GraphInterrupt as interrupt:
            return {"asks": store(interrupt.args[0][0].value)}
        except ParentCommand as command:
            return {"up": store(command.args[0])}
        outcome = {"output": store(output)}
        written = [[channel, store(value)] for channel, value in sent if channel != _RESUME]
        if written:
            outcome["sent"] = written
        return outcome

    def _apply(self, outcome: Mapping[str, Any], config: Any) -> Any:
        """Apply the recorded outcome to the graph: repeat its writes, and return the output."""
        restore = self.terms.values.restore
        if "up" in outcome:
            raise ParentCommand(restore(outcome["up"]))
        if "sent" in outcome:
            config["configurable"][_SEND](
                [(channel, restore(value)) for channel, value in outcome["sent"]]
            )
        return restore(outcome["output"])


class _ToolCalls(_NodeStep):
    """A node that calls tools. Each call is a step of its own, after approval if it needs one."""

    async def __call__(self, input: Any, config: Any) -> Any:
        calls, kind = self.bound._parse_input(input)  # private API of ToolNode
        state = input["state"] if kind == "tool_calls" and isinstance(input, dict) else input
        results = await asyncio.gather(*(self._call_tool(call, state, config) for call in calls))
        updates = [
            update
            for result in results
            for update in (result if isinstance(result, list) else [result])
        ]
        if any(isinstance(update, Command) for update in updates):
            return [
                update[self.key] if kind == "list" and isinstance(update, dict) else update
                for update in updates
            ]
        messages = [message for update in updates for message in update[self.key]]
        if kind == "list":
            return messages
        return {self.key: messages}

    @property
    def key(self) -> str:
        """The key of the messages in the state."""
        return str(self.bound._messages_key)  # private API of ToolNode

    async def _call_tool(self, call: Any, state: Any, config: Any) -> Any:
        tool = call["name"]
        if tool in self.terms.approve:
            decision = await adapter.approval(
                self.terms.name, tool, call["args"], self.terms.approval
            )
            if not decision.approved:
                message = ToolMessage(
                    decision.words, name=tool, tool_call_id=call["id"], status="error"
                )
                return {self.key: [message]}
        input = {"__type": "tool_call_with_context", "tool_call": call, "state": state}
        return await self.run_step(
            f"tool:{tool}", input, config, self.terms.tools.get(tool, self.settings)
        )


async def _call(bound: Any, input: Any, config: Any) -> Any:
    with set_config_context(config) as context:
        return await asyncio.create_task(bound.ainvoke(input, config), context=context)


def _step_config(
    config: Any, answers: list[Any], sent: list[tuple[str, Any]], terms: _GraphRunSettings
) -> Any:
    """Return the configuration of a node that runs in a step: its writes are collected in *sent*,
    its interrupts get the *answers*, and its streams are emitted."""
    callback = _Listener(terms) if terms.stream else _UsageCallback(terms)
    merged = merge_configs(config, {"callbacks": [callback]})
    configurable = dict(merged["configurable"])
    configurable[_SEND] = sent.extend
    scratchpad = configurable.get(_SCRATCHPAD)
    if scratchpad is not None:
        counter = itertools.count().__next__
        configurable[_SCRATCHPAD] = replace(
            scratchpad, resume=answers, interrupt_counter=counter, get_null_resume=_no_resume_value
        )
    runtime = configurable.get(_RUNTIME)
    if runtime is not None and terms.stream:
        configurable[_RUNTIME] = replace(
            runtime, stream_writer=lambda value: emit(terms.values.store(value), name="custom")
        )
    return {**merged, "configurable": configurable}


def _no_resume_value(consume: bool = False) -> None:
    return None


def _ask_people(name: str, options: Mapping[str, Any]) -> Ask:
    """Return a function that answers the interrupt of a node through a gate: True if people
    approve, False if they reject."""

    async def ask(value: Any) -> bool:
        choices = [
            {"value": adapter.APPROVE, "means": "approve"},
            {"value": adapter.REJECT, "means": "reject"},
        ]
        if isinstance(value, str) and value.strip():
            prompt = value
        else:
            prompt = f"{name} asks: {json.dumps(value, default=str)}"
        answer = await adapter.ask(prompt[:1000], options=choices, data=value, **options)
        return answer.approved

    return ask


class _UsageCallback(BaseCallbackHandler):
    """Reports the usage of models in a step to the budgets of the run."""

    run_inline = True

    def __init__(self, terms: _GraphRunSettings) -> None:
        self._terms = terms

    def on_llm_end(self, response: Any, **kwargs: Any) -> None:
        """Report the usage of a response."""
        for message in _messages(response):
            usage = getattr(message, "usage_metadata", None)
            if usage:
                adapter.report(self._terms.spends(usage))


class _Listener(_UsageCallback, _StreamingCallbackHandler[Any]):
    """Also emits the responses of models as frames. Models stream their responses because this is a
    streaming handler."""

    def tap_output_aiter(self, run_id: UUID, output: Any) -> Any:
        """Return the output unchanged."""
        return output

    def tap_output_iter(self, run_id: UUID, output: Any) -> Any:
        """Return the output unchanged."""
        return output

    def on_llm_new_token(self, token: Any, **kwargs: Any) -> None:
        """Emit a piece of a response."""
        if isinstance(token, str):
            adapter.show("text", token)

    def on_llm_end(self, response: Any, **kwargs: Any) -> None:
        """Emit the tool calls of a response."""
        super().on_llm_end(response, **kwargs)
        for message in _messages(response):
            for call in getattr(message, "tool_calls", None) or []:
                adapter.show("tool_call", {"tool": call["name"], "arguments": call["args"]})


def _messages(response: Any) -> list[Any]:
    return [
        getattr(generation, "message", None)
        for batch in response.generations
        for generation in batch
    ]


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
