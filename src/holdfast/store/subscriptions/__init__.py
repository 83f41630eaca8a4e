"""Subscriptions to events, and webhooks."""
