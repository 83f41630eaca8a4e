"""Explaining where a run stands: facts in, words and commands out."""
