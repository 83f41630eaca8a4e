"""Lanes: limits, rates and fair shares."""
