"""Holdfast measured beside its peers and beside the raw driver, at full durability, on the machine
at hand."""
