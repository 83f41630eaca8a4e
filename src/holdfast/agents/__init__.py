"""Adapters that make agents of AI frameworks durable, and managed flows as a tool for agents."""

from holdfast.agents.flow_tool import FlowTool

__all__ = ["FlowTool"]
