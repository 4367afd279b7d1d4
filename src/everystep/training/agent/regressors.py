"""Values by any regressor: the general function class of the paper's discussion, "Extension to More General MDPs".

    f_h = argmin_f sum_tau (f(x_tau, a_tau) - r_tau - V_{h+1}(x'_tau))^2             any regressor with fit and predict
    Q_h(x, a) = clip(f_h(x, a) + beta b_h(x, a), lowest, cap)                        b: a bonus where little is known

The paper leaves f and b open. Here b is ||phi(x, a)|| in Lambda_h^-1 of some features, as for linear models; or the
disagreement of an ensemble, the standard deviation of members fitted to resamples of the data; or a custom function.
The plan, the choice and the costs are those of every other agent.

    train(env, lsvi_ae(value=regression(lambda: HistGradientBoostingRegressor(max_iter=50))), features=..., ...)
    examples/regressor.py

Departures from the paper: its bonus comes from a confidence set that cannot be searched; these are heuristics and carry
no probability. The input of a regressor is the observation followed by one column for each action.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from everystep.agents.model_syntax import WIDTH, Bonus, Regression
from everystep.errors import EverystepError, user_code
from everystep.lsvi.protocols import ScoringChoice
from everystep.training.agent.acting import HarmAhead
from everystep.training.agent.models.linear import LinearPredictor


class RegressionData(NamedTuple):
    """Transitions as a regressor takes them: inputs (n, p), scaled rewards, next states, ends, and steps.

    next_slot (n,) is the slot of the next state, -1 where it has none; `ended` is 1 where the episode ended.
    """

    inputs: np.ndarray
    rewards: np.ndarray
    next_slot: np.ndarray
    ended: np.ndarray
    steps: np.ndarray


class PlanningTask(NamedTuple):
    """Everything a plan by regressors is made from.

    slots, widths  inputs (A, C, p) and bonus (A, C) of the states arrived at, one for all steps or one per step
    ghat, price    (T, m, A, C) and (m, H)
    zero_reward    a reward of 0 on the scale of rewards
    """

    model: Regression
    data: RegressionData
    slots: list[np.ndarray]
    widths: list[np.ndarray]
    ghat: np.ndarray
    price: np.ndarray
    choice: ScoringChoice
    zero_reward: float
    cap: float
    lowest: float
    beta: float
    ahead: HarmAhead | None = None
    of_plan: bool = False


class HarmPredictor(NamedTuple):
    """Members fitted to the harm-to-go at the next state, for every step."""

    fitted: list[list[Any]]
    factor: float = 1.0  # by which predictions are multiplied

    def predict(self, h: int, encoded: tuple[np.ndarray, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """Mean (A, n) of inputs (A, n, p), and a width of 0."""
        mean, _ = _predicted(self.fitted[h], encoded[1])
        return self.factor * mean, np.zeros_like(mean)

    def rescaled(self, factor: float) -> HarmPredictor:
        """The same as if every target had been multiplied by `factor`."""
        return self._replace(factor=self.factor * factor)


class RegressionPredictor(NamedTuple):
    """Fitted members for every step, and what the bonus needs."""

    model: Regression
    fitted: list[list[Any]]
    width: LinearPredictor
    beta: float

    def predict(self, h: int, encoded: tuple[np.ndarray, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """Mean and width (A, n) of features (e, F, n) and inputs (A, n, p)."""
        phi, inputs = encoded
        mean, spread = _predicted(self.fitted[h], inputs)
        if self.model.bonus == WIDTH:
            return mean, self.width.predict(0 if len(self.width.inverse) == 1 else h, phi)[1]
        return mean, self.beta * _bonus(self.model.bonus, inputs, spread)


def plan(task: PlanningTask, rng: np.random.Generator) -> tuple[list[list[Any]], list[list[Any]]]:
    """The backward pass with a regressor in place of the linear model: the members fitted for each step.

    Those of the values, and those of the harm-to-go if the agent looks ahead.
    """
    data, bonus = task.data, task.model.bonus
    H = task.price.shape[1]
    here = lambda array, h: array[h if len(array) > 1 else 0]
    V, C = np.zeros(0), np.zeros(0)
    fitted: list[list[Any]] = [[] for _ in range(H)]
    fitted_harm: list[list[Any]] = [[] for _ in range(H)]
    for h in reversed(range(H)):
        own = slice(None) if len(task.slots) == 1 else data.steps == h
        X, after = data.inputs[own], data.next_slot[own]
        V_after = np.where(after >= 0, V[after], 0.0) if len(V) else 0.0
        y = data.rewards[own] + V_after + data.ended[own] * task.zero_reward * (H - 1 - h)
        fitted[h] = _fit(task.model, X, y, rng)
        at = here(task.slots, h)
        mean, spread = _predicted(fitted[h], at)
        width = here(task.widths, h) if bonus == WIDTH else task.beta * _bonus(bonus, at, spread)
        Q = (mean + width).clip(task.lowest, task.cap)  # line 7
        estimated = here(task.ghat, h)[..., : Q.shape[1]]
        if task.ahead is not None:
            C_after = np.where(after >= 0, C[after], 0.0) if len(C) else np.zeros(len(X))
            fitted_harm[h] = _fit(task.model, X, C_after, rng)
            harm_after, _ = _predicted(fitted_harm[h], at)
            G = task.ahead.led_to(estimated, harm_after)
            estimated = task.ahead.avoidable(estimated, harm_after)
        a = task.choice.score(Q, estimated, task.price[:, h]).argmax(0)  # eq. (11)
        V = Q[a, np.arange(len(a))]  # line 9
        if task.ahead is not None:
            C = G[a, np.arange(len(a))] if task.of_plan else G.min(0)
    return fitted, fitted_harm


def _fit(model: Regression, X: np.ndarray, y: np.ndarray, rng: np.random.Generator) -> list[Any]:
    """Members fitted to the data, or each to a resample of it; none where there is no data."""
    members = []
    for _ in range(model.members if len(y) else 0):
        rows = slice(None) if model.members == 1 else rng.integers(0, len(y), len(y))
        regressor = model.make()
        with user_code(
            lambda name, words: f"the regressor {regressor} failed to fit {len(y)} rows ({words}); give another."  # noqa: B023
        ):
            regressor.fit(X[rows], y[rows])
        members.append(regressor)
    return members


def _predicted(members: list[Any], inputs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation over members at inputs (A, n, p); 0 where there are none."""
    A, n, p = inputs.shape
    if not members or n == 0:
        return np.zeros((A, n)), np.zeros((A, n))
    with user_code(lambda name, words: f"the regressor {members[0]} failed to predict ({words}); give another."):
        each = np.array([np.asarray(regressor.predict(inputs.reshape(A * n, p)), float) for regressor in members])
    if each.shape != (len(members), A * n) or not np.isfinite(each).all():
        raise EverystepError(
            f"the regressor {members[0]} predicted {each[0]} for {A * n} rows; give one that predicts finite numbers."
        )
    return each.mean(0).reshape(A, n), each.std(0).reshape(A, n)


def _bonus(bonus: str | Bonus, inputs: np.ndarray, spread: np.ndarray) -> np.ndarray:
    if not callable(bonus):
        return spread
    return np.asarray(bonus(inputs.reshape(-1, inputs.shape[-1])), float).reshape(spread.shape)
