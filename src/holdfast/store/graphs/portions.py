"""How much of a graph one transaction changes at most, because it holds the write lock."""

from __future__ import annotations

PORTION = 1000
"""How many members one transaction starts or stops at most."""

LINKS = 3000
"""How many dependents one transaction resolves at most."""

ALL = 2**31
"""No limit."""
