"""The interpreter of text workflows: a coroutine that walks the plan of a text."""
