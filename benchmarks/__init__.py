"""What the harness itself costs, as ratios measured in one run."""
