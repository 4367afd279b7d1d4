"""Loops that play a policy: by its steps, by `predict`, and as stable-baselines3 evaluates it."""

import numpy as np
from environments_for_tests.wrappers import ReturnRecorder

from everystep.training.policy.evaluation import FIRST_SEED

EPISODES = 3


class Copies:
    """Copies that are stepped together and reset when they are over, with the interface of stable-baselines3."""

    def __init__(self, makers):
        self.envs = [make() for make in makers]
        self.num_envs, self.seeds = len(self.envs), [None] * len(self.envs)

    def seed(self, seed):
        self.seeds = [seed + i for i in range(self.num_envs)]

    def stack(self, each):
        if isinstance(each[0], dict):
            return {name: np.stack([x[name] for x in each]) for name in each[0]}
        return np.stack(each)

    def reset(self):
        return self.stack([env.reset(seed=seed)[0] for env, seed in zip(self.envs, self.seeds, strict=True)])

    def step(self, actions):
        seen, dones = [], []
        for env, action in zip(self.envs, actions, strict=True):
            x, _, terminated, truncated, _ = env.step(action)
            dones.append(terminated or truncated)
            seen.append(env.reset()[0] if dones[-1] else x)
        return self.stack(seen), np.zeros(self.num_envs), np.array(dones), [{}] * self.num_envs


def evaluate_policy(model, env, n_eval_episodes):
    """The calls of `stable_baselines3.common.evaluation.evaluate_policy`, in their order."""
    targets = np.array([(n_eval_episodes + i) // env.num_envs for i in range(env.num_envs)])
    counts, observations, states = np.zeros(env.num_envs, int), env.reset(), None
    episode_starts = np.ones((env.num_envs,), dtype=bool)
    while (counts < targets).any():
        actions, states = model.predict(observations, state=states, episode_start=episode_starts, deterministic=True)
        observations, _, dones, _ = env.step(actions)
        counts += dones & (counts < targets)
        episode_starts = dones


def by_step(policy, env, seed):
    (x, _), over, t = env.reset(seed=seed), False, 0
    while not over:
        t += 1
        x, _, terminated, truncated, _ = env.step(policy(x, step=t))
        over = terminated or truncated


def by_predict(policy, env, seed):
    (x, _), over, state, start = env.reset(seed=seed), False, None, True
    while not over:
        action, state = policy.predict(x, state=state, episode_start=start)
        x, _, terminated, truncated, _ = env.step(action)
        over, start = terminated or truncated, False


def in_copies(evaluate, make_copies):
    """A function that plays one episode in each of some copies, and one that plays a single copy."""

    def together(policy, make):
        recorders = [ReturnRecorder(make()) for _ in range(EPISODES)]
        env = make_copies([lambda each=each: each for each in recorders])
        env.seed(FIRST_SEED)
        evaluate(policy, env, n_eval_episodes=EPISODES)
        return [each.returns[0] for each in recorders]

    def alone(policy, make):
        recorder = ReturnRecorder(make())
        for i in range(EPISODES):
            env = make_copies([lambda: recorder])
            env.seed(FIRST_SEED + i)
            evaluate(policy, env, n_eval_episodes=1)
        return recorder.returns

    return together, alone


def returns(policy, make):
    """The returns of the same episodes in every loop, by name."""
    found = {}
    for name, loop in (("step", by_step), ("predict", by_predict)):
        recorder = ReturnRecorder(make())
        for i in range(EPISODES):
            loop(policy, recorder, FIRST_SEED + i)
        found[name] = recorder.returns
    for name, play in zip(("together", "alone"), in_copies(evaluate_policy, Copies), strict=True):
        found[name] = play(policy, make)
    return found
