"""Output of runs: records of streams and frames, and the rules of summaries. Pure."""
