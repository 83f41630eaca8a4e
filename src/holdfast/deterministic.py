"""Time, random numbers and UUIDs that are the same in every replay of a run."""

from holdfast.authoring.python.deterministic import now as now
from holdfast.authoring.python.deterministic import random as random
from holdfast.authoring.python.deterministic import uuid as uuid
