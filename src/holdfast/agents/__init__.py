"""What builders of AI agents plug into their framework."""

from holdfast.agents.flow_tool import FlowTool

__all__ = ["FlowTool"]
