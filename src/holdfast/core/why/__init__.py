"""Explain why a run does not progress: facts in, texts and commands out."""
