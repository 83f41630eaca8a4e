"""Retention rules, and what they delete."""
