"""Two runs side by side: what differs in the choices, in the outcome, and whether it means much."""
