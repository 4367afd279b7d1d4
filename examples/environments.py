"""Three problems as Gymnasium environments, played by a random policy and drawn side by side.

    python examples/environments.py [--out out/examples/environments]

A lake and a terrain show their maps; a problem without a map shows a board of its states.
"""

import argparse
from pathlib import Path

import gymnasium
import numpy as np
from matplotlib.image import imsave

import everystep as es

parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
parser.add_argument("--out", default="out/examples/environments")
options = parser.parse_args()

rng = np.random.default_rng(0)
g = rng.uniform(-1, 1, (30, 4))
g[:, 0] = -np.abs(g[:, 0])  # a safe action everywhere
board = es.FiniteCMDP(rng.dirichlet(np.full(30, 0.1), (30, 4)), rng.random((30, 4)), g, horizon=8)

frames = []
for env in (
    gymnasium.make("everystep/FrozenLake-v0", render_mode="rgb_array"),
    gymnasium.make("everystep/Terrain-v0", render_mode="rgb_array"),
    es.gym.make_env(board, render_mode="rgb_array"),
):
    env.reset(seed=1)
    for _ in range(7):
        _, reward, _, _, info = env.step(rng.integers(4))
        print(f"{env.unwrapped.problem.name}: reward {reward:.2f}, constraint {info['constraint']}")
    frames.append(env.render())

tallest = max(len(frame) for frame in frames)
fill = lambda frame: np.pad(frame, ((0, tallest - len(frame)), (0, 24), (0, 0)), constant_values=255)
folder = Path(options.out)
folder.mkdir(parents=True, exist_ok=True)
imsave(folder / "environments.png", np.concatenate([fill(frame) for frame in frames], axis=1))
print(f"written to {folder / 'environments.png'}")
