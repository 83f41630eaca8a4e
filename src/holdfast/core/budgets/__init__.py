"""Budgets: limits, spending, reservations. Pure."""
