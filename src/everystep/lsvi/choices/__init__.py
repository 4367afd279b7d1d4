"""Choices: from Q, estimated costs and prices at a state to a distribution over its actions."""
