"""Finds the day on which each gold database was built, from the database alone."""
