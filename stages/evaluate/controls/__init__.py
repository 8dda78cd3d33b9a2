"""Controls and mutants of gold: each has the verdict that it must get in both scores."""
