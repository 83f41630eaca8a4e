"""The answer that a gate returns."""

from holdfast.core.gates.answer import Answer as Answer
