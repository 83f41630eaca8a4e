"""The extensions of other engines to BPMN: one file per dialect."""
