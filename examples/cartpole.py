"""CartPole with hard limits on its angle and its position: LSVI-AE, LSVI, and DQN and PPO with a price on violations.

    python examples/cartpole.py [--seeds 1] [--out out/examples/cartpole]

The next step must decide a constraint, because LSVI-AE does not price later violations, and in every state some action
must satisfy it. "The pole is within 8 degrees" is no such constraint: a pole at 7 degrees that falls fast
exceeds the limit under every action. The predicted angle is one: with lean = angle + its velocity / 4,

    |lean| <= 8 degrees                               so the angle, which follows its lean, stays within 8 degrees
    |lean + 0.12 (position + velocity)| <= 6 degrees  so the pole leans back to the middle, and the position stays
                                                      within (8 + 6 degrees) / 0.12 = 2 m

From a start within both, some action satisfied both in every step that was tried. Each limit has two sides, so there
are four constraints, almost linear in the state: polynomials of degree 1 for costs, of degree 2 for values. Plans look
100 steps ahead, so that LSVI sees the cart leave its track; LSVI-AE would do as well with 20.
"""

import gymnasium
import numpy as np
from contest import Contest, run

from everystep import features

ANGLE, LEAN_BACK = np.radians(8), np.radians(6)
SIZE = np.array([2.4, 3.0, 0.21, 3.0])  # position, velocity, angle, angular velocity: about the range that occurs


def make():
    return gymnasium.make("CartPole-v1")


def limits(seen, action, after, info):
    """g = (fraction of the limit - 1) / 4, for both sides of both limits; the quarter keeps |g| below 1."""
    position, velocity, angle, turning = after
    lean = angle + turning / 4
    fraction = np.array([lean / ANGLE, (lean + 0.12 * (position + velocity)) / LEAN_BACK])
    return np.clip((np.concatenate([fraction, -fraction]) - 1) / 4, -1, 1)


CONTEST = Contest(
    name="cartpole",
    make=make,
    constraint=limits,
    steps=6000,
    settings={"beta": 10.0, "lam": 0.01, "beta_cost": 0.03, "lam_cost": 0.001, "react": True, "switch": 2},
    learner={
        "features": features.polynomial(2, low=-SIZE, high=SIZE),
        "cost_features": features.polynomial(1, low=-SIZE, high=SIZE),
        "horizon": 100,
        "reward_range": (0, 1),
    },
    rivals={
        "DQN": {
            "learning_rate": 1e-3, "learning_starts": 100, "batch_size": 64, "train_freq": 4, "gradient_steps": 4,
            "target_update_interval": 100, "exploration_fraction": 0.3, "exploration_final_eps": 0.02,
        },
        "PPO": {
            "learning_rate": 1e-3, "n_steps": 128, "batch_size": 64, "n_epochs": 10, "gae_lambda": 0.9, "gamma": 0.98,
        },
    },
)  # fmt: skip

if __name__ == "__main__":
    run(CONTEST, __doc__)
