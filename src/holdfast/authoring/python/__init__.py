"""The Python front end: workflows as Python functions, replayed against their history."""
