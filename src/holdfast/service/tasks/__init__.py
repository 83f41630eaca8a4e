"""Requests about leased tasks."""
