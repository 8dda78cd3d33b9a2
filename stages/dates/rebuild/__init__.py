"""Proves a gold date: builds the models that a task ships at candidate days, and compares."""
