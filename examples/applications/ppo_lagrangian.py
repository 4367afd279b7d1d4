"""PPO whose price on harm is a Lagrange multiplier, learnt on the violation of every step.

With harm c_t = max(g_t, 0) and the limit 0, after each batch of N steps:

    lambda  <-  max(lambda + rate * sum_t c_t, 0)
    A       =   (A_reward - lambda * A_harm) / (1 + lambda)

A_harm is the generalised advantage of harm, by a critic of its own; PPO's own update then uses A. (Ray, Achiam and
Amodei, Benchmarking safe exploration in deep reinforcement learning, 2019, with the sum over an episode and its limit
replaced by the violations of all steps and 0.)
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from advantages import advantages
from stable_baselines3 import PPO


class PPOLagrangian(PPO):
    """`multiplier`: lambda, as it is now; `multiplier_rate`: how fast it grows; otherwise as stable-baselines3's PPO.

    The environment reports info["constraint"], safe iff <= 0.
    """

    def __init__(self, *given: Any, multiplier: float = 1.0, multiplier_rate: float = 0.1, **settings: Any) -> None:
        super().__init__(*given, **settings)
        self.multiplier, self.multiplier_rate = multiplier, multiplier_rate
        width = int(np.prod(self.observation_space.shape))
        layers = [torch.nn.Linear(width, 64), torch.nn.Tanh(), torch.nn.Linear(64, 64), torch.nn.Tanh()]
        self.harm_critic = torch.nn.Sequential(*layers, torch.nn.Linear(64, 1))
        self.harm_optimiser = torch.optim.Adam(self.harm_critic.parameters(), lr=self.lr_schedule(1.0))
        self._harm: list[list[float]] = []

    def collect_rollouts(self, env: Any, callback: Any, rollout_buffer: Any, n_rollout_steps: int) -> bool:
        self._harm = []
        goes_on = super().collect_rollouts(env, callback, rollout_buffer, n_rollout_steps)
        if goes_on:
            self._price(rollout_buffer)
        return goes_on

    def _update_info_buffer(self, infos: Any, dones: Any = None) -> None:
        """Called by stable-baselines3 after every step."""
        super()._update_info_buffer(infos, dones)
        self._harm.append([self._harm_of(info) for info in infos])

    def _harm_of(self, info: dict[str, Any]) -> float:
        harm = max(float(info["constraint"]), 0.0)
        if info.get("TimeLimit.truncated"):  # cut off: what would have followed, as PPO does for rewards
            harm += self.gamma * float(self._expected(info["terminal_observation"][None])[0])
        return harm

    def _expected(self, observations: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            return self.harm_critic(torch.as_tensor(observations, dtype=torch.float32)).numpy()[..., 0]

    def _price(self, buffer: Any) -> None:
        harm, values = np.array(self._harm), self._expected(buffer.observations)
        after, ended = self._expected(self._last_obs), np.asarray(self._last_episode_starts, float)
        found = advantages(harm, values, after, buffer.episode_starts, ended, self.gamma, self.gae_lambda)
        self.multiplier = max(self.multiplier + self.multiplier_rate * float(harm.sum()), 0.0)
        buffer.advantages = (buffer.advantages - self.multiplier * found) / (1 + self.multiplier)
        self._fit(buffer.observations.reshape(-1, *self.observation_space.shape), (found + values).reshape(-1))

    def _fit(self, observations: np.ndarray, sums: np.ndarray) -> None:
        x, y = (torch.as_tensor(each, dtype=torch.float32) for each in (observations, sums))
        for _ in range(self.n_epochs):
            for batch in torch.randperm(len(y)).split(self.batch_size):
                loss = torch.nn.functional.mse_loss(self.harm_critic(x[batch])[:, 0], y[batch])
                self.harm_optimiser.zero_grad()
                loss.backward()
                self.harm_optimiser.step()
