"""Finite constrained MDPs: the problem as arrays, its compressed form, and the exact planner."""
