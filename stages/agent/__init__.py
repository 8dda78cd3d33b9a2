"""What runs inside a sandbox: the work directory, the snapshot, and the agents themselves."""
