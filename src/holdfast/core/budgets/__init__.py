"""Budgets: limits, spending and reservations. Pure."""
