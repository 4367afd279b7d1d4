"""Values by gradient-boosted trees: LSVI-AE with a regressor of scikit-learn in place of the linear model.

    pip install 'everystep[gym,regressors]'
    python examples/regressor.py [--episodes 12]

CartPole with a limit on the predicted angle, as in cartpole.py. Plans are rare (switch=2); each fits one regressor for
every step of the horizon. The bonus is that of the linear model in the same features, and costs use the linear model.
For comparison: the linear model itself, with the same features and settings.
"""

import argparse
import time

import gymnasium
import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor

import everystep as es
from everystep.experiments import tables

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("--episodes", type=int, default=12)
options = parser.parse_args()

HIGH = np.array([2.4, 3.0, 0.21, 3.0])
LENGTH, HORIZON = 100, 8


def trees() -> HistGradientBoostingRegressor:
    return HistGradientBoostingRegressor(max_iter=30, max_leaf_nodes=15, early_stopping=False)


def heading_over(obs, action, obs_next, info) -> float:
    """Above 0 if the pole will lean by more than 8 degrees within a quarter of a second."""
    return float(min(((obs_next[2] + obs_next[3] / 4) / 0.14) ** 2 - 1, 1))


agents = {
    "linear": es.agents.lsvi_ae(switch=2),
    "boosted trees": es.agents.lsvi_ae(switch=2, value=es.regression(trees)),
}
rows = [["value model", "total violations", "per episode, last third", "length, last third", "plans", "seconds"]]
for name, agent in agents.items():
    env = gymnasium.make("CartPole-v1", max_episode_steps=LENGTH)
    features = es.features.fourier(30, low=-HIGH, high=HIGH)
    began = time.perf_counter()
    result = es.train(
        env, agent, constraint=heading_over, features=features, horizon=HORIZON, episodes=options.episodes
    )
    late = slice(-(options.episodes // 3), None)
    violations = result.columns["violation"]
    numbers = (violations.sum(), violations[late].mean(), result.columns["length"][late].mean(), result.plans)
    rows.append([name, *map(tables.number, numbers), f"{time.perf_counter() - began:.0f}"])
print(tables.aligned(rows))
