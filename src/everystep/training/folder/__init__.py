"""A training in a folder: checkpoints without pickle, the form of its spec."""
