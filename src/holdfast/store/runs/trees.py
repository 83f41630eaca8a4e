"""Choose the trees of runs that one transaction deletes, or whose histories it trims.

Other writers wait while a transaction writes. So it takes as many whole trees as fit. Of a tree
that is too large it takes a part, and the root with the last part: until then the next call finds
the tree again, also after a crash.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from holdfast.store.database import Transaction

RUNS = 2000
"""How many runs one transaction deletes, or trims, at most."""


class TreeSize(NamedTuple):
    """The number of runs below a root, and how many of them keep the tree: live, or ended too
    late."""

    runs: int = 0
    late: int = 0


class TreeCut(NamedTuple):
    """Roots of the trees to take as a whole, root of the tree to take a part of, and the root to
    continue after."""

    whole: list[str]
    part: str | None
    last: str | None


def sizes_of(tx: Transaction, query: str, roots: Sequence[str], before: int) -> dict[str, TreeSize]:
    """Return the sizes of trees. A tree without descendants is missing."""
    rows = tx.rows(query, ids=tx.as_list(roots), before=before) if roots else []
    return {row["root_id"]: TreeSize(row["runs"], row["late"]) for row in rows}


def cut(roots: Sequence[str], sizes: Mapping[str, TreeSize], *, after: str, limit: int) -> TreeCut:
    """Choose from these trees, in order. A tree with a late descendant is kept.

    *roots* are the next ones after the root *after*, at most *limit*.
    """
    room = RUNS
    whole: list[str] = []
    last: str | None = after
    for root in roots:
        size = sizes.get(root, TreeSize())
        if not size.late:
            # A part only of the first tree: the others wait for the next transaction.
            if size.runs + 1 > room:
                return TreeCut(whole, None if whole else root, last)
            room -= size.runs + 1
            whole.append(root)
        last = root
    return TreeCut(whole, None, last if len(roots) == limit else None)
