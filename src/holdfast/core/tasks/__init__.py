"""Leased tasks: the policy for failed attempts, and the suspension of a task. Pure."""
