"""API keys of the server."""
