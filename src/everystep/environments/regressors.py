"""Values by any regressor: the general function class of the paper's discussion, "Extension to More General MDPs".

    f_h = argmin_f sum_tau (f(x_tau, a_tau) - r_tau - V_{h+1}(x'_tau))^2             any regressor with fit and predict
    Q_h(x, a) = min{f_h(x, a) + beta b_h(x, a), cap}                                 b: a bonus where little is known

The paper leaves f and b open. Here b is ||phi(x, a)|| in Lambda_h^-1 of some features, as for linear models; or how
much an ensemble disagrees, the standard deviation of members fitted to resamples of the data; or a function of one's
own. The plan, the choice and the costs are those of every other agent.

    train(env, lsvi_ae(value=regression(lambda: HistGradientBoostingRegressor(max_iter=50))), features=..., ...)
    examples/regressor.py

Departures from the paper: its bonus comes from a confidence set that nobody can search; these are heuristics and carry
no probability. What a regressor gets is the observation followed by one column for each action.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from everystep.agents.model_syntax import WIDTH, Bonus, Regression
from everystep.environments.models.linear import LinearDecision
from everystep.errors import EverystepError
from everystep.lsvi.choices.basic import Choice


class Data(NamedTuple):
    """Transitions as a regressor takes them: inputs (n, p), scaled rewards, what each led to, and their steps.

    after (n,) is the slot of the next state in `slots`, -1 where the episode ended; `ended` says that it did.
    """

    inputs: np.ndarray
    rewards: np.ndarray
    after: np.ndarray
    ended: np.ndarray
    steps: np.ndarray


class RegressionDecision(NamedTuple):
    """Fitted members for every step, and what the bonus needs."""

    spec: Any
    fitted: list[list[Any]]
    width: LinearDecision
    beta: float

    def judge(self, h: int, seen: tuple[np.ndarray, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """Mean and width (A, n) of features (e, F, n) and inputs (A, n, p)."""
        phi, inputs = seen
        mean, spread = _predicted(self.fitted[h], inputs)
        if self.spec.bonus == WIDTH:
            return mean, self.width.judge(0 if len(self.width.inverse) == 1 else h, phi)[1]
        return mean, self.beta * _bonus(self.spec.bonus, inputs, spread)


def plan(
    spec: Regression,
    data: Data,
    slots: list[np.ndarray],
    width: list[np.ndarray],
    ghat: np.ndarray,
    price: np.ndarray,
    choice: Choice,
    nothing: float,
    cap: float,
    beta: float,
    rng: np.random.Generator,
) -> list[list[Any]]:
    """The backward pass with a regressor in place of the linear model: the members fitted for each step.

    slots, width  inputs (A, C, p) and bonus (A, C) of the states arrived at, one for all steps or one for each
    ghat          (T, m, A, C), price (m, H); `nothing` is what a reward of 0 is on the scale of rewards
    """
    H = price.shape[1]
    here = lambda array, h: array[h if len(array) > 1 else 0]
    V = np.zeros(0)
    fitted: list[list[Any]] = [[] for _ in range(H)]
    for h in reversed(range(H)):
        own = slice(None) if len(slots) == 1 else data.steps == h
        X, after = data.inputs[own], data.after[own]
        V_after = np.where(after >= 0, V[after], 0.0) if len(V) else 0.0
        y = data.rewards[own] + V_after + data.ended[own] * nothing * (H - 1 - h)
        fitted[h] = _fit(spec, X, y, rng)
        at = here(slots, h)
        mean, spread = _predicted(fitted[h], at)
        bonus = here(width, h) if spec.bonus == WIDTH else beta * _bonus(spec.bonus, at, spread)
        Q = np.minimum(mean + bonus, cap)  # line 7
        a = choice.score(Q, here(ghat, h)[..., : Q.shape[1]], price[:, h]).argmax(0)  # eq. (11)
        V = Q[a, np.arange(len(a))]  # line 9
    return fitted


def _fit(spec: Regression, X: np.ndarray, y: np.ndarray, rng: np.random.Generator) -> list[Any]:
    """Members fitted to the data, or each to a resample of it; none where there is no data."""
    members = []
    for _ in range(spec.members if len(y) else 0):
        rows = slice(None) if spec.members == 1 else rng.integers(0, len(y), len(y))
        model = spec.make()
        try:
            model.fit(X[rows], y[rows])
        except Exception as error:
            raise EverystepError(
                f"the regressor {model} failed to fit {len(y)} rows ({error}); give another."
            ) from error
        members.append(model)
    return members


def _predicted(members: list[Any], inputs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation over members at inputs (A, n, p); 0 where there are none."""
    A, n, p = inputs.shape
    if not members or n == 0:
        return np.zeros((A, n)), np.zeros((A, n))
    each = np.array([np.asarray(model.predict(inputs.reshape(A * n, p)), float) for model in members])
    if each.shape != (len(members), A * n) or not np.isfinite(each).all():
        raise EverystepError(
            f"the regressor {members[0]} predicted {each[0]} for {A * n} rows; it must give a finite number for each."
        )
    return each.mean(0).reshape(A, n), each.std(0).reshape(A, n)


def _bonus(bonus: str | Bonus, inputs: np.ndarray, spread: np.ndarray) -> np.ndarray:
    if not callable(bonus):
        return spread
    return np.asarray(bonus(inputs.reshape(-1, inputs.shape[-1])), float).reshape(spread.shape)
