"""Stepping an environment: actions, constraints, episodes, environments by name, and what may be imported."""
