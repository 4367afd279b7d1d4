"""Constraints for the command, as in `everystep train --env CartPole-v1 --constraint examples.limits:upright`."""

EIGHT_DEGREES, TWO_METRES = 0.14, 2.0


def upright(obs, action, obs_next, info):
    """CartPole: the pole within 8 degrees, the cart within 2 m; safe iff at most 0."""
    return max(abs(obs_next[2]) / EIGHT_DEGREES, abs(obs_next[0]) / TWO_METRES) - 1
