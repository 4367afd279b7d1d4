"""Oracles for problems: least squares, and the least violation by its definition."""

import numpy as np


def least_squares(X, y):
    """Weights and the largest error of y as a linear function of the rows of X."""
    weights = np.linalg.lstsq(X, y, rcond=None)[0]
    return weights, np.abs(X @ weights - y).max()


def least_harm_and_best(problem):
    """C*_1 and V_1 among policies of least harm, (S,) each, from the definitions."""
    mean = lambda V: (problem.P.probabilities[0] * V[problem.P.states]).sum(-1)
    harm = problem.g.clip(min=0).sum(0)[0]
    C, V = np.zeros(problem.states), np.zeros(problem.states)
    for h in reversed(range(problem.horizon)):
        G = harm + mean(C)
        C = G.min(1)
        V = np.where(G - C[:, None] <= 1e-12, problem.r[h % len(problem.r)] + mean(V), -np.inf).max(1)
    return C, V
