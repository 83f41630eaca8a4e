"""Views: every entity as plain Python values, as JSON and as lines for people, once."""
