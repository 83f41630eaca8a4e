"""Conditions over signals: model, evaluation and validation. Pure."""
