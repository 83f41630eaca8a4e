"""DMN decisions: reading of files, boxed expressions, decision tables, evaluation."""
