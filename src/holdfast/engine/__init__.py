"""The engine: the only place where time passes. It does what programs want, and records what came
of it."""
