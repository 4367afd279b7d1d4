"""The algorithm (least-squares value iteration), the parts it is composed of, and the loops that run it."""
