"""Driving on a highway with time to react: LSVI-AE, LSVI, and DQN with a price on violations, in highway-env.

    python examples/highway.py [--seeds 1] [--out out/examples/highway]

The reward pays for speed and for the right lane. The constraint asks, after each second, for a time to collision of at
least 3 s with the car ahead, beyond 10 m from centre to centre:

    g = (10 m + 3 s * closing speed - gap) / 30 m, clipped to [-1, 1], and +1 in a crash

that is, 3 s * closing speed <= gap - 10 m without dividing by a speed that may be 0. Braking or changing to a free lane
nearly always satisfies it; a car that cuts in just ahead can violate it under every action, so no agent avoids all
violations. Every agent observes the lane, the speed, and the gap and the closing speed in its own and both adjacent
lanes.
"""

import gymnasium
import numpy as np
from contest import Contest, run

from everystep import features
from everystep.errors import EverystepError

TIME, DISTANCE, FAR, FAST, LANE = 3.0, 10.0, 60.0, 15.0, 4.0  # s, m, m, m/s, m


def shortfall(gap, closing):
    return float(np.clip((DISTANCE + TIME * closing - gap) / 30, -1, 1))


class Driver(gymnasium.ObservationWrapper):
    """Lane (3), speed; for the own, left and right lane: gap, closing speed, shortfall (all, positive), car beside."""

    def __init__(self, env):
        super().__init__(env)
        self.observation_space = gymnasium.spaces.Box(-1.0, 1.0, (19,), np.float64)

    def observation(self, rows):
        me, cars = rows[0], rows[1:][rows[1:, 0] > 0]  # presence, x, y, vx, vy; cars relative to me
        lane = int(np.clip(np.rint(me[2] / LANE), 0, 2))
        own = self.look(me, cars, lane, lane)
        beside = [self.look(me, cars, other, lane) if 0 <= other <= 2 else own for other in (lane - 1, lane + 1)]
        return np.clip([*(np.arange(3) == lane), (me[3] - 25) / 10, *own, *beside[0], *beside[1]], -1, 1)

    @staticmethod
    def look(me, cars, lane, own):
        here = cars[np.abs(me[2] + cars[:, 2] - LANE * lane) < 2.5]
        ahead = here[(here[:, 1] > 0) & (here[:, 1] < FAR)]
        gap, closing = (FAR, 0.0) if len(ahead) == 0 else ahead[ahead[:, 1].argmin()][[1, 3]] * (1, -1)
        short = shortfall(gap, closing)
        return gap / FAR, closing / FAST, short, max(short, 0), lane != own and (np.abs(here[:, 1]) < 10).any()


def make():
    try:
        import highway_env  # noqa: F401  (registers its environments)
    except ImportError:
        raise EverystepError("the highway needs highway-env; install everystep[sim].") from None
    view = {"type": "Kinematics", "vehicles_count": 9, "see_behind": True, "normalize": False, "order": "sorted"}
    return Driver(gymnasium.make("highway-fast-v0", config={"vehicles_count": 12, "observation": view}))


def time_to_react(seen, action, after, info):
    return 1.0 if info["crashed"] else shortfall(after[4] * FAR, after[5] * FAST)


CONTEST = Contest(
    name="highway",
    make=make,
    constraint=time_to_react,
    steps=1200,
    settings={"beta": 1.0, "lam": 0.1, "beta_cost": 0.01, "lam_cost": 0.003, "react": True},
    learner={"features": features.polynomial(1), "horizon": 5, "length": 30, "reward_range": (0, 1)},
    rivals={
        "DQN": {
            "learning_rate": 5e-4, "learning_starts": 100, "batch_size": 32, "gamma": 0.8, "train_freq": 1,
            "target_update_interval": 50, "exploration_fraction": 0.5, "policy_kwargs": {"net_arch": [256, 256]},
        },
    },
)  # fmt: skip

if __name__ == "__main__":
    run(CONTEST, __doc__)
