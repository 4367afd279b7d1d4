"""Generalised advantage estimates (Schulman et al. 2016) of harm, for ppo_lagrangian.py."""

import numpy as np


def advantages(
    harm: np.ndarray,
    values: np.ndarray,
    after: np.ndarray,
    starts: np.ndarray,
    ended: np.ndarray,
    gamma: float,
    lam: float,
) -> np.ndarray:
    """(N, envs): sum_k (gamma lam)^k delta_{t+k} within an episode, delta_t = c_t + gamma V(x_{t+1}) - V(x_t).

    starts  (N, envs), whether a step is the first of its episode; ended, after  (envs,), of the step after the last
    """
    follows = np.vstack([1.0 - starts[1:], 1.0 - ended[None]])  # whether the next step belongs to the same episode
    delta = harm + gamma * np.vstack([values[1:], after[None]]) * follows - values
    found, running = np.zeros_like(harm), np.zeros(harm.shape[1])
    for t in reversed(range(len(harm))):
        running = delta[t] + gamma * lam * follows[t] * running
        found[t] = running
    return found
