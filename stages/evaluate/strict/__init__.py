"""The strict score: rows are compared as rows, and every column takes one of its own."""
