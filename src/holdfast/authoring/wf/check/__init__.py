"""Static checks of documents: names, sub-workflows, fan-out, gates, files."""
