"""Waits of runs."""
