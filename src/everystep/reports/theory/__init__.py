"""The bounds of the paper, and how a run measures against them."""
