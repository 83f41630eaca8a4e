"""Tokens at rest: a projection of the runs of models, for lists and for SQL."""
