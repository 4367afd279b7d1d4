"""Names of the coordinates of observations and of the actions of well-known environments; others are numbered.

Gymnasium's spaces hold no names; these are those of its documentation, with their units.
"""

from __future__ import annotations

import re

from everystep.environments.play.action_sets import Candidates

OBSERVATIONS = {
    "CartPole": ("cart position (m)", "cart velocity (m/s)", "pole angle (rad)", "pole angular velocity (rad/s)"),
    "MountainCar": ("position", "velocity (per step)"),
    "Acrobot": (
        *("cos of angle 1", "sin of angle 1", "cos of angle 2", "sin of angle 2"),
        *("angular velocity 1 (rad/s)", "angular velocity 2 (rad/s)"),
    ),
    "Pendulum": ("x (cos of the angle)", "y (sin of the angle)", "angular velocity (rad/s)"),
    "LunarLander": (
        *("x", "y", "velocity in x", "velocity in y", "angle (rad)", "angular velocity"),
        *("left leg touches", "right leg touches"),
    ),
}
ACTIONS = {
    "CartPole": ("push left", "push right"),
    "MountainCar": ("accelerate left", "coast", "accelerate right"),
    "Acrobot": ("torque -1", "torque 0", "torque +1"),
    "LunarLander": ("nothing", "left engine", "main engine", "right engine"),
    "FrozenLake": ("left", "down", "right", "up"),
    "CliffWalking": ("up", "right", "down", "left"),
}
COLUMNS = {("FrozenLake", 16): 4, ("FrozenLake", 64): 8, ("CliffWalking", 48): 12}  # of maps, by the number of states


def family(environment: str) -> str:
    """The name of an environment of Gymnasium without its version; "" of others, which have a namespace."""
    return "" if "/" in environment else re.sub(r"-v\d+$", "", environment)


def of_coordinates(environment: str, n: int) -> list[str]:
    known = OBSERVATIONS.get(family(environment), ())
    return list(known) if len(known) == n else [f"observation[{i}]" for i in range(n)]


def of_actions(environment: str, actions: Candidates) -> list[str]:
    """The names of numbered actions; for a Box, the coordinates of each candidate."""
    n, first, values = len(actions), actions.first, actions.values
    if values is not None:
        return [f"action {', '.join(f'{each:.3g}' for each in row)}" for row in values.reshape(n, -1)]
    known = ACTIONS.get(family(environment), ())
    return [f"{first + a}: {known[a]}" if len(known) == n else f"action {first + a}" for a in range(n)]


def columns_of_map(environment: str, states: int) -> int | None:
    """The width of the map whose cells are the states, row by row; None if there is no known map."""
    return COLUMNS.get((family(environment), states))
