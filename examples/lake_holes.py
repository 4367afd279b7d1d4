"""Gymnasium's FrozenLake with its holes as constraints: LSVI-AE, LSVI, and DQN and PPO with a price on violations.

    python examples/lake_holes.py [--seeds 1] [--out out/examples/lake-holes]

The 8x8 map; a move succeeds with probability 0.8, else it slips. The observed constraint is +1 in a hole and -1/3
elsewhere, so the mean at (x, a) is positive iff the probability of falling exceeds 1/4: aiming at a hole (0.8) is
unsafe, passing by (0.1, or 0.2 between two) is safe, and every cell has a safe action. A slip into a hole is not
counted: for every agent the violation is the positive part of the true mean. Costs have one feature for each cell
aimed at, so a hole observed from one side is known from all sides.

The goal is rewarded with 1, once, and speed is not rewarded: a plan must know when the episode ends. So plans cover
the whole episode, 50 steps; with a shorter horizon they would always postpone the goal.
"""

import gymnasium
import numpy as np
from contest import Contest, run

from everystep import features

STEPS, TOLERATED = 50, 1 / 3


def make():
    return gymnasium.make("FrozenLake-v1", map_name="8x8", success_rate=0.8, max_episode_steps=STEPS)


LAKE = make().unwrapped
CELLS, ACTIONS = LAKE.observation_space.n, LAKE.action_space.n
IN_HOLE = LAKE.desc.reshape(-1) == b"H"
FALLS = np.array([[sum(p for p, x, *_ in LAKE.P[y][a] if IN_HOLE[x]) for a in range(ACTIONS)] for y in range(CELLS)])
AIMED = np.array([[max(LAKE.P[y][a], key=lambda way: way[0])[1] for a in range(ACTIONS)] for y in range(CELLS)])


def holes(seen, action, after, info):
    return 1.0 if IN_HOLE[after] else -TOLERATED


def mean_of_holes(seen, action):
    return FALLS[seen, action] - TOLERATED * (1 - FALLS[seen, action])


CONTEST = Contest(
    name="lake-holes",
    make=make,
    constraint=holes,
    true_mean=mean_of_holes,
    steps=15_000,
    settings={"beta": 0.1, "lam": 0.01, "cap": 1.0, "beta_cost": 0.3, "lam_cost": 0.1, "react": True, "switch": 2},
    learner={
        "features": features.one_hot(),
        "cost_features": features.table(np.eye(CELLS)[AIMED]),
        "horizon": STEPS,
        "reward_range": (0, 1),
    },
    rivals={
        "DQN": {
            "learning_rate": 1e-3, "learning_starts": 100, "batch_size": 64, "train_freq": 4, "gradient_steps": 1,
            "target_update_interval": 200, "exploration_fraction": 0.5, "exploration_final_eps": 0.02,
        },
        "PPO": {"learning_rate": 1e-3, "n_steps": 256, "batch_size": 64, "n_epochs": 5, "ent_coef": 0.02},
    },
    window=50,
)  # fmt: skip

if __name__ == "__main__":
    run(CONTEST, __doc__)
