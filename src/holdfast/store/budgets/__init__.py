"""Budgets: limits, spending and reservations."""
