"""DMN decisions and FEEL expressions, evaluated directly."""

from holdfast.authoring.dmn.decisions import DecisionModel as DecisionModel
from holdfast.connect.decisions import feel as feel
from holdfast.connect.decisions import load as load
from holdfast.core.expressions.limits import ExpressionLimits as ExpressionLimits
from holdfast.core.expressions.temporal import YearMonthDuration as YearMonthDuration
from holdfast.core.expressions.values import FeelRange as FeelRange
