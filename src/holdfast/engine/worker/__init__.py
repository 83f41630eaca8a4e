"""The worker: its session, its claims, and the work of the leader."""
