"""Messages and broadcasts between runs: subscriptions, kept messages, start events."""
