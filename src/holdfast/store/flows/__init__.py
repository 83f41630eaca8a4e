"""Managed flows."""
