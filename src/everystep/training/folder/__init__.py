"""A training in a folder: checkpoints without pickle, interrupts, the form of its spec."""
