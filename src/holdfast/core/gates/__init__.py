"""Gates: decisions that are asked of people. The rules, pure."""
