"""Simple rules on the power grid, to see whether its limit binds, whether it can be kept, and what keeping it costs.

    python examples/applications/power_grid_rules.py [--days 3] [--picture day.svg]

Rules: random; each action all day; the best for one step, tried in copies of the simulator; and the model predictive
controller that gym-anm ships, which knows the network and the day, rounded to the actions of power_grid.py. `draw` is
the picture of a day, of these rules or of any agents.
"""

from __future__ import annotations

import argparse
import copy
from collections.abc import Callable

import gymnasium
import numpy as np
from power_grid import ACTIONS, HOURS, NAMES, PowerGrid, make

Rule = Callable[[PowerGrid, np.ndarray], int]


def greedy(env: PowerGrid, x: np.ndarray) -> int:
    """The action of the highest reward among those of the least harm in one step, tried in copies of the grid."""
    tried = [copy.deepcopy(env).step(a) for a in range(len(NAMES))]
    return max(range(len(NAMES)), key=lambda a: (-max(tried[a][4]["constraint"], 0.0), tried[a][1]))


class Shipped:
    """gym-anm's MPCAgentPerfect, which knows the network and the day; the nearest of our actions."""

    def __init__(self, env: PowerGrid, planning_steps: int = 48, margin: float = 0.9) -> None:
        from gym_anm.agents import MPCAgentPerfect

        self.agent = MPCAgentPerfect(env.grid.simulator, env.grid.action_space, 0.995, margin, planning_steps)

    def __call__(self, env: PowerGrid, x: np.ndarray) -> int:
        available = np.append(env.grid.next_vars(env.grid.state)[3:5], np.inf)  # a limit above it is no limit
        effect = np.minimum(list(ACTIONS.values()), available)
        return int(np.abs(effect - self.agent.act(env.grid)[[0, 1, 4]]).sum(1).argmin())


def day(env: gymnasium.Env, rule: Rule, seed: int) -> dict[str, np.ndarray]:
    """Play one day: reward, g, charge (MWh) and the highest loading of each step."""
    (x, _), rows, over = env.reset(seed=seed), [], False
    while not over:
        x, reward, terminated, truncated, info = env.step(rule(env.unwrapped, x))
        over = terminated or truncated
        rows.append((reward, info["constraint"], info.get("charge", 0.0), max(info.get("loading", {0: 2.0}).values())))
    return dict(zip(("reward", "g", "charge", "loading"), np.array(rows).T, strict=True))


def draw(days: dict[str, dict[str, np.ndarray]], path: str) -> None:
    """The highest line loading and the state of charge over a day, one line for each entry of `days`."""
    from matplotlib.figure import Figure

    figure = Figure((7.0, 4.4), layout="constrained")
    top, bottom = figure.subplots(2, 1, sharex=True)
    for name, each in days.items():
        hours = HOURS * np.arange(1, len(each["g"]) + 1)
        top.plot(hours, 100 * each["loading"], label=name)
        bottom.plot(hours, each["charge"])
    top.axhline(100, color="black", linewidth=0.8)
    top.set_ylabel("highest line loading\n(% of its rating)")
    top.legend(frameon=False)
    bottom.set(xlabel="hour of the day", ylabel="state of charge\n(MWh)", xlim=(0, 24), xticks=range(0, 25, 3))
    figure.savefig(path)


def main() -> None:
    """Simple rules over a few days: does the limit bind, can it be kept, what does it cost?"""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--days", type=int, default=3)
    parser.add_argument("--picture", help="a file for the picture of the first day")
    options = parser.parse_args()
    env, drawn, first = make(), np.random.default_rng(0), {}
    rules: dict[str, Rule] = {"random": lambda env, x: int(drawn.integers(len(NAMES))), "greedy for one step": greedy}
    rules |= {"shipped MPC": Shipped(env.unwrapped)} | {name: lambda env, x, a=a: a for a, name in enumerate(NAMES)}
    for name, rule in rules.items():
        days = [day(env, rule, seed) for seed in range(1000, 1000 + options.days)]
        first[name], reward, g = days[0], *(np.array([each[key] for each in days]) for key in ("reward", "g"))
        means = "return {:.2f}, harm {:.2f}, unsafe steps {:.1f}".format(
            *(each.sum(1).mean() for each in (reward, g.clip(0), g > 0))
        )
        print(f"{name}: {means} per day", flush=True)
    if options.picture:
        draw({name: first[name] for name in list(rules)[:3]}, options.picture)


if __name__ == "__main__":
    main()
