"""Value and cost models on stored transitions, for environments whose states nobody lists in advance."""
