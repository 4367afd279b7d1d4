"""The swappable parts of the algorithm: value models, cost models, penalties, choices, and what they are made of."""
