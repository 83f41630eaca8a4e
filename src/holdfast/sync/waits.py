"""The names of ``holdfast.waits`` for ``def`` workflows."""

from holdfast.authoring.python.api_sync import create_wait as create_wait
from holdfast.authoring.python.api_sync import wait_for as wait_for
from holdfast.authoring.python.waits import *
