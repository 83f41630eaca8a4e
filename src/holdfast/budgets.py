"""The use of budgets in steps and in workflow code."""

from holdfast.authoring.python.budgets import record as record
from holdfast.authoring.python.budgets import reserve as reserve
from holdfast.authoring.python.budgets import spend as spend
