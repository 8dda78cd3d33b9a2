"""The sealed sandbox: one Docker container a trial, and the relay in a container of its own."""
