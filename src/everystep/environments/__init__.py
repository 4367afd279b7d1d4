"""Gymnasium environments: training on them, policies, logged data, and finite problems as environments."""
