"""Changes to workflow code that has live runs."""

from holdfast.authoring.python.deterministic import patched as patched
from holdfast.authoring.python.deterministic import version as version
