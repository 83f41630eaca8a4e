"""BPMN models: reading them, and handlers for their tasks."""

from holdfast.authoring.bpmn.handlers import HandlerTask as Task
from holdfast.authoring.bpmn.handlers import handler as handler
from holdfast.authoring.bpmn.loading import load as load
from holdfast.authoring.bpmn.model import Model as Model
from holdfast.authoring.bpmn.model import ModelProblem as Problem
from holdfast.authoring.bpmn.modifications import add as add
from holdfast.authoring.bpmn.modifications import cancel as cancel
from holdfast.authoring.bpmn.modifications import move as move
from holdfast.errors import BpmnError as BpmnError

__all__ = [
    "BpmnError",
    "Model",
    "Problem",
    "Task",
    "add",
    "cancel",
    "handler",
    "load",
    "move",
]
