"""Ridge regression and Gaussian-process posteriors, shared by value models and cost models."""
