"""BPMN 2.0 models as workflows: reading, checking, compiling, and the token machine."""
