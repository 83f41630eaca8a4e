"""Runs that start by the clock."""

from holdfast.authoring.python.schedule import schedule as schedule
from holdfast.authoring.python.schedule import scheduled_time as scheduled_time
