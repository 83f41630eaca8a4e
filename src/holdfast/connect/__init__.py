"""From a URL to a store to an engine: where a program is put together."""
