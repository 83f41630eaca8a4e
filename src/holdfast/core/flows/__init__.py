"""Managed flows: records, and the rules of their transitions. Pure."""
