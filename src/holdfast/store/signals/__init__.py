"""Signals to runs."""
