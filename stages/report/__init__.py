"""Turns verdicts into metrics, a console table and a plot. Reads files only."""
