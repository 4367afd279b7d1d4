"""The agent that learns the world: networks for a step, critics on imagined steps, and a plan that acts in NumPy."""
