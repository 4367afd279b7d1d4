"""Value and cost models on stored transitions, for environments whose states cannot be listed."""
