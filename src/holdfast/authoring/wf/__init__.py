"""The front end for ``.wf`` texts."""
