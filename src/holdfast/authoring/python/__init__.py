"""Workflows as Python functions, replayed against their history."""
