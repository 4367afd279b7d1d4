"""Finite constrained MDPs: the problem as arrays, its validation, its compressed form, and the exact planner."""
