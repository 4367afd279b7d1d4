"""Value models: the optimistic estimate of Q."""
