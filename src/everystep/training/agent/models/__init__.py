"""Value and cost models on stored transitions."""
