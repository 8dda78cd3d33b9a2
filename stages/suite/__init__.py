"""Reads a suite in the official layout, audits it, and builds the starter suite's databases."""
