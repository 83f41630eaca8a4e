"""Bulk operations: their rows, their portions and the queries about them."""
