"""Leases of tasks to outside workers."""
