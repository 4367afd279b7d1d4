"""Wrappers that record what happens, or change it."""

import gymnasium


class StepRecorder(gymnasium.Wrapper):
    """Keeps (x, a, g) of every episode."""

    episodes = ()

    def reset(self, **given):
        self.episodes = [*self.episodes, []]
        self.x, info = self.env.reset(**given)
        return self.x, info

    def step(self, action):
        x, *rest, info = self.env.step(action)
        self.episodes[-1].append((self.x, int(action), info["constraint"]))
        self.x = x
        return x, *rest, info


class ReturnRecorder(gymnasium.Wrapper):
    """Keeps the return of every episode as the environment gave it: vector environments round rewards to 32 bits."""

    def __init__(self, env):
        super().__init__(env)
        self.returns = []

    def reset(self, **given):
        self.earned = 0
        return self.env.reset(**given)

    def step(self, action):
        assert self.action_space.contains(action if self.action_space.shape else int(action))
        x, reward, terminated, truncated, info = self.env.step(action)
        self.earned += reward
        if terminated or truncated:
            self.returns.append(self.earned)
        return x, reward, terminated, truncated, info


class Altered(gymnasium.Wrapper):
    """`change` is applied to the values of every step."""

    def __init__(self, env, change):
        super().__init__(env)
        self.change = change

    def step(self, action):
        return tuple(self.change(list(self.env.step(action))))


class Fragile(gymnasium.Wrapper):
    """Works for five steps, then fails as given."""

    def __init__(self, then):
        super().__init__(gymnasium.make("CartPole-v1"))
        self.then, self.count = then, 0

    def step(self, action):
        self.count += 1
        values = list(self.env.step(action))
        return tuple(self.then(values) if self.count > 5 else values)


class CostOfSixValues(gymnasium.Wrapper):
    """Like an environment of Safety-Gymnasium: a cost among six values, nothing in info."""

    def step(self, action):
        obs, reward, terminated, truncated, _ = self.env.step(action)
        return obs, reward, float(action), terminated, truncated, {}


class FromZero(gymnasium.ActionWrapper):
    """Three actions that count from 0, of an environment whose actions count from 1."""

    action_space = gymnasium.spaces.Discrete(3)

    def action(self, action):
        return int(action) + 1
