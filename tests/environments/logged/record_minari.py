"""Records the Minari data sets that the tests read, with Minari's own collector; a program of its own.

Its collector leaves temporary folders to the garbage collector and warns of missing descriptions.
"""

import gymnasium as gym
import minari
import numpy as np

import everystep

gym.register_envs(everystep)


def record(name, env, policy, **more):
    """Two episodes of a policy."""
    collector = minari.DataCollector(env, **more)
    for k in range(2):
        obs, _ = collector.reset(seed=k)
        over = False
        while not over:
            obs, _, terminated, truncated, _ = collector.step(policy(obs))
            over = terminated or truncated
    collector.create_dataset(name, ref_min_score=0.0)
    collector.close()


if __name__ == "__main__":
    record("cartpole/left-v0", gym.make("CartPole-v1"), lambda obs: 0)
    walk = lambda x: (1, 2, 0, 3, 1)[x % 5]
    record("lake/walk-v0", gym.make("everystep/FrozenLake-v0"), walk, record_infos=True)
    push = gym.make("Pendulum-v1", max_episode_steps=3)
    record("pendulum/push-v0", push, lambda obs: np.zeros(1, np.float32))
    cart = gym.make("CartPole-v1")
    named = gym.spaces.Dict(pole=cart.observation_space)
    record(
        "cartpole/named-v0", gym.wrappers.TransformObservation(cart, lambda obs: {"pole": obs}, named), lambda obs: 0
    )
