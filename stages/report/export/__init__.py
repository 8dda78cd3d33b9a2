"""A run's results in the forms that other programs read."""
