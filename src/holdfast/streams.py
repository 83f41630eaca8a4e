"""Output that a run emits while it works."""

from holdfast.authoring.python.streams import Stream as Stream
from holdfast.authoring.python.streams import emit as emit
from holdfast.authoring.python.streams import null as null
from holdfast.authoring.python.streams import progress as progress
from holdfast.authoring.python.streams import stream as stream
