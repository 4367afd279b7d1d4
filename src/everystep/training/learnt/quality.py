"""How well the networks predict, as they learn. Every step is predicted before it is learnt, and some are judged.

predicted   the change of each coordinate, the reward and each g, by the mean of the members: the squared error, that of
            the mean so far in its place, and the squared spread of the members
judged      the first step of an episode and every eighth: the return and the violation that are imagined after its
            action, and its label; what came is known when the episode is over

    came(t) = sum_i w_i r_{t+i},    w_i = mean_N gamma_N^i      the sum that critics estimate; likewise of violations

An episode that was cut tells nothing of what would have come, so steps are left out that were cut off sooner than the
look-ahead, the longest horizon. Where later weights are missing, the sum is divided by the share that is there. A label
speaks of what was seen: it `held` if the violation that came was within the tolerance.

Sums are kept by stretch of steps, at most `STRETCHES` of them: when they are full, two become one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

import numpy as np

from everystep.training.agent.acting import divisor
from everystep.training.learnt import world
from everystep.training.learnt.networks import sigmoid

if TYPE_CHECKING:
    from everystep.environments.play.rollout import Transition
    from everystep.training.learnt.agent import LearntAgent

STRETCHES, FIRST = 128, 8  # how many there are, and the steps of each at first
POINTS = 48  # of a curve, at most
EVERY = 8  # steps, of which one is judged
BINS = np.r_[0.0, np.geomspace(1e-3, 100, 16)]  # edges of imagined violations, in units of the largest |g|
LABELS = ("unsafe", "unknown", "safe")  # -1, 0, 1
FAR = 12  # longest horizons, beyond which weights are negligible
COORDINATES = 64  # that are listed one by one
Numbers = list[float | None]


class Curves(TypedDict):
    """Over steps: the RMS error and spread, and the share of variance that was predicted."""

    error: Numbers
    spread: Numbers
    share: Numbers


class Imagined(TypedDict):
    """Over steps, means over those that were judged: imagined, and what came."""

    count: list[int]
    imagined: Numbers
    came: Numbers


class QualityFigures(TypedDict):
    """Everything that reports and findings need, ready for JSON.

    random       the steps before the networks were first used, which were random
    steps        of the training at the end of each point of the curves
    observation  in usual changes, all coordinates together; reward and constraints in their own units
    late         the shares in the second half of the steps, by coordinate, of the reward and of each constraint
    violations   the imagined against those that came, in the second half: (mean imagined, mean of what came, count)
    labels       in the second half: how many steps, and of how many the violation stayed within the tolerance
    """

    random: int
    steps: list[int]
    observation: Curves
    reward: Curves
    constraints: list[Curves]
    late: Numbers
    returned: Imagined
    violated: Imagined
    violations: list[list[float]]
    labels: dict[str, list[int]]
    horizons: list[int]
    tolerance: float


class Quality:
    """The sums of one training, for o coordinates and m constraints: k = o + 1 + m numbers are predicted."""

    def __init__(self, coordinates: int, constraints: int) -> None:
        k, n = coordinates + 1 + constraints, STRETCHES
        self.coordinates = coordinates
        self.steps, self.random = 0, 0  # played, and those of them before the networks were used
        self.stretch = FIRST
        self.mean = np.zeros(k)  # of what was predicted so far
        self.predicted = np.zeros(n)
        self.missed, self.around, self.spread = (np.zeros((n, k)) for _ in range(3))
        self.judged = np.zeros((n, 5))  # count, imagined return, what came, imagined violation, what came
        self.violations = np.zeros((n, len(BINS), 3))  # by bin: count, imagined and what came, by the largest |g|
        self.labelled = np.zeros((n, len(LABELS), 2))  # count, and how many held
        self.waiting = np.zeros((0, 6))  # row, step, imagined return and violation, label, largest |g|

    # --- as it learns ------------------------------------------------------------------------------------------------
    def before(self, agent: LearntAgent, step: Transition) -> None:
        """A step that was played, but not learnt yet."""
        if self.steps >= STRETCHES * self.stretch:
            self._merge()
        at, self.steps = self.steps, self.steps + 1
        if not agent.fitted:
            self.random += 1
        else:
            x, y = (np.asarray(agent.settings.value.encode(each[None]))[0] for each in _both(step))
            self._predict(agent, at // self.stretch, x, step.action, np.r_[y - x, step.reward, step.cost])
            if step.step == 0 or at % EVERY == 0:
                self._judge(agent, at, step.observation, step.action)

    def _predict(self, agent: LearntAgent, i: int, x: np.ndarray, a: int, target: np.ndarray) -> None:
        scales, chosen = agent.scales, np.zeros((1, 1, agent.sizes.actions), np.float32)
        chosen[..., a] = 1
        model = tuple((np.asarray(weights), np.asarray(biases)) for weights, biases in agent.state.steady)
        found = world.predict_at(model, scales.inputs(x[None])[None], chosen)
        change = found.change[:, 0].clip(-world.LARGEST, world.LARGEST).astype(float) * scales.change
        reward = found.reward.astype(float) * scales.reward_size + scales.reward_mean
        likely = scales.g_low + sigmoid(found.g[:, 0].astype(float)) * (scales.g_high - scales.g_low)
        g = np.where(scales.two, likely, found.g[:, 0].astype(float) * scales.g_size + scales.g_mean)
        members = np.concatenate([change, reward, g], 1)
        mean = members.mean(0)
        seen = float(self.predicted.sum())
        self.missed[i] += (mean - target) ** 2
        self.spread[i] += members.var(0)
        if seen:
            self.around[i] += (self.mean - target) ** 2
        self.predicted[i] += 1
        self.mean = self.mean + (target - self.mean) / (seen + 1)

    def _judge(self, agent: LearntAgent, at: int, observation: np.ndarray, a: int) -> None:
        plan, scales = agent.newest(), agent.scales
        found = plan.estimates(0, observation[None])
        S = float(divisor(plan.cost_scale).max())
        safe, unsafe = plan.ends(found, -1.0)[0, a, 0] <= 0, plan.ends(found, 1.0)[0, a, 0] > 0
        low, high = float(scales.reward_low), float(scales.reward_high)
        returned = low * np.mean(plan.horizons) + (high - low) * found.Q[a, 0]
        violated = plan.harm(found, 0.0)[a, 0] / S
        row = [len(agent.rows), at, returned, violated, int(safe) - int(unsafe), S]
        self.waiting = np.concatenate([self.waiting, np.array([row])])

    def after(self, agent: LearntAgent, rows: np.ndarray) -> None:
        """The rows of an episode that is over."""
        own = np.isin(self.waiting[:, 0], rows)
        judged, self.waiting = self.waiting[own], self.waiting[~own]
        if not len(judged):
            return
        r, ended = agent.rows["r"][rows], bool(agent.rows["ended"][rows[-1]])
        harm = np.maximum(agent.rows["g"][rows], 0).sum(1)
        horizons = np.array(agent.settings.horizons, float)
        w = ((1 - 1 / horizons)[:, None] ** np.arange(min(len(rows), FAR * int(horizons[-1])))).mean(0)
        for (_, at, returned, violated, label, S), t in zip(
            judged, np.searchsorted(rows, judged[:, 0].astype(int)), strict=True
        ):
            left = min(len(rows) - t, len(w))
            if not ended and left < horizons[-1]:
                continue
            there = 1.0 if ended else float(w[:left].sum() / horizons.mean())
            earned, seen = float(w[:left] @ r[t : t + left]), float(w[:left] @ harm[t : t + left]) / S
            i = int(at) // self.stretch
            self.judged[i] += [1, returned, earned / there, violated * S, seen * S / there]
            at_bin = np.searchsorted(BINS, violated, "right") - 1
            self.violations[i, at_bin] += [1, violated, seen / there]
            self.labelled[i, int(label) + 1] += [1, seen <= agent.settings["tolerance"]]

    def _merge(self) -> None:
        """Two stretches become one."""
        self.stretch *= 2
        for name, array in vars(self).items():
            if isinstance(array, np.ndarray) and len(array) == STRETCHES and name not in ("waiting", "mean"):
                joined = array.reshape(-1, 2, *array.shape[1:]).sum(1)
                setattr(self, name, np.concatenate([joined, np.zeros_like(joined)]))

    def fits(self, rows: int) -> bool:
        """Whether sums that were read from a file could be those of this many rows."""
        like = Quality(self.coordinates, len(self.mean) - 1 - self.coordinates)
        arrays = {name: array for name, array in vars(like).items() if isinstance(array, np.ndarray)}
        alike = all(
            getattr(self, name).shape[name == "waiting" :] == array.shape[name == "waiting" :]
            and getattr(self, name).dtype == array.dtype
            and bool(np.isfinite(getattr(self, name)).all())
            for name, array in arrays.items()
        )
        alike = alike and self.stretch >= FIRST and 0 <= self.random <= self.steps <= rows
        alike = alike and self.steps <= STRETCHES * self.stretch
        return alike and bool(((self.waiting[:, :2] >= 0) & (self.waiting[:, :2] < rows)).all())

    # --- for reports -------------------------------------------------------------------------------------------------
    def figures(self, agent: LearntAgent) -> QualityFigures | None:
        """None if nothing was predicted."""
        if not self.predicted.any():
            return None
        used = -(-self.steps // self.stretch)
        together = -(-used // POINTS)
        pooled = lambda array: np.add.reduceat(array[:used], np.arange(0, used, together), axis=0)
        n, missed, around, spread = map(pooled, (self.predicted, self.missed, self.around, self.spread))
        judged = pooled(self.judged)
        late = slice(used // 2, used)
        o, changes = self.coordinates, agent.scales.change
        each = lambda i: _curves(n, missed[:, [i]], around[:, [i]], spread[:, [i]], np.ones(1))
        bins = self.violations[late].sum(0)
        labels = self.labelled[late].sum(0)
        steps = np.minimum(np.arange(1, len(n) + 1) * together * self.stretch, self.steps)
        listed = np.r_[: min(o, COORDINATES), o : len(self.mean)]
        return {
            "random": self.random,
            "steps": steps.tolist(),
            "observation": _curves(n, missed[:, :o], around[:, :o], spread[:, :o], changes),
            "reward": each(o),
            "constraints": [each(i) for i in range(o + 1, len(self.mean))],
            "late": _numbers(_share(self.missed[late].sum(0), self.around[late].sum(0))[listed]),
            "returned": _imagined(judged[:, :3]),
            "violated": _imagined(judged[:, [0, 3, 4]]),
            "violations": [[float(s / c), float(y / c), int(c)] for c, s, y in bins if c],
            "labels": {name: [int(each) for each in labels[i]] for i, name in enumerate(LABELS)},
            "horizons": list(agent.settings.horizons),
            "tolerance": float(agent.settings["tolerance"]),
        }


def _both(step: Transition) -> tuple[np.ndarray, np.ndarray]:
    return np.asarray(step.observation), np.asarray(step.next_observation)


def _share(missed: np.ndarray, around: np.ndarray) -> np.ndarray:
    """Of the variance around the mean so far that was predicted; NaN where nothing varied."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.where(around > 0, (1 - missed / around).clip(0, 1), np.nan))


def _curves(n: np.ndarray, missed: np.ndarray, around: np.ndarray, spread: np.ndarray, unit: np.ndarray) -> Curves:
    """Of some numbers together (points, k): means over those that vary."""
    varies = around.sum(0) > 0
    missed, around, spread = (each[:, varies] for each in (missed, around, spread))
    unit = unit[varies]
    share, some = _share(missed, around), n > 0
    with np.errstate(divide="ignore", invalid="ignore"):
        error, width = (np.sqrt((each / unit**2).sum(1) / n / max(varies.sum(), 1)) for each in (missed, spread))
    known = np.isfinite(share)
    mean = np.where(known.any(1), np.where(known, share, 0).sum(1) / np.maximum(known.sum(1), 1), np.nan)
    return {
        "error": _numbers(np.where(some, error, np.nan)),
        "spread": _numbers(np.where(some, width, np.nan)),
        "share": _numbers(mean),
    }


def _imagined(sums: np.ndarray) -> Imagined:
    with np.errstate(divide="ignore", invalid="ignore"):
        imagined, came = (sums[:, 1:] / sums[:, :1]).T
    return {"count": sums[:, 0].astype(int).tolist(), "imagined": _numbers(imagined), "came": _numbers(came)}


def _numbers(array: np.ndarray) -> Numbers:
    """For JSON: six digits, and null where there is no number."""
    return [float(f"{each:.6g}") if np.isfinite(each) else None for each in array]
