"""Managed flows: their records and the rules of their moves. Pure."""
