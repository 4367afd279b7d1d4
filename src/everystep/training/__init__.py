"""Training on environments: `Learner`, `train`, and what they are made of."""
