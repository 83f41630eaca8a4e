"""Workflows as text: parse, format, draw, check and run ``.wf`` files."""

from holdfast.authoring.wf.check.documents import check_document as check
from holdfast.authoring.wf.document import Document as Document
from holdfast.authoring.wf.draw import draw as draw
from holdfast.authoring.wf.executors import Agent as Agent
from holdfast.authoring.wf.executors import CommandProgram as Program
from holdfast.authoring.wf.executors import Endpoint as Endpoint
from holdfast.authoring.wf.files import load as load
from holdfast.authoring.wf.format import format_text as format
from holdfast.authoring.wf.library import Library as Library
from holdfast.authoring.wf.outputs import StepOutput as Output
from holdfast.authoring.wf.parser import parse as parse
from holdfast.authoring.wf.registrations import GLOBAL as _GLOBAL
from holdfast.authoring.wf.registrations import Ask as Ask
from holdfast.authoring.wf.registrations import ExecutorCall as Call
from holdfast.authoring.wf.registrations import FanoutItem as Item
from holdfast.authoring.wf.registrations import GateAsk as GateAsk
from holdfast.authoring.wf.registrations import approved as approved
from holdfast.authoring.wf.registrations import rejected as rejected
from holdfast.authoring.wf.templates import generated as generate
from holdfast.core.problems import Problem as Problem

allow_targets = _GLOBAL.allow_targets
executor = _GLOBAL.executor
provider = _GLOBAL.provider
resolver = _GLOBAL.resolver
environment = _GLOBAL.environment
schema = _GLOBAL.schema

__all__ = [
    "Agent",
    "Ask",
    "Call",
    "Document",
    "Endpoint",
    "GateAsk",
    "Item",
    "Library",
    "Output",
    "Problem",
    "Program",
    "allow_targets",
    "approved",
    "check",
    "draw",
    "environment",
    "executor",
    "format",
    "generate",
    "load",
    "parse",
    "provider",
    "rejected",
    "resolver",
    "schema",
]
