"""Why a table failed: one cause, the nearest columns, the first rows that differ."""
