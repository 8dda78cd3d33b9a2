"""Runs the trials: run keys, the store of finished trials, the scheduler, and the sandboxes."""
