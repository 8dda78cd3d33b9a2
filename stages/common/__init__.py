"""What every stage shares: errors, file handling, and the typed parameters."""
