"""The store: its contract, the operations written once for both databases, and two adapters."""
