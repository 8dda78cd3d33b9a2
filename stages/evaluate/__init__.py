"""The evaluate stage: compares what a trial built with gold, as the official evaluator does."""
