"""How well networks predict: what is counted, when, and that it stays small and fits into a file."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
from training.learnt.small import ending

from everystep.training.folder import training_spec
from everystep.training.learnt.quality import BINS, EVERY, FIRST, POINTS, STRETCHES, Quality

pytestmark = pytest.mark.quick


@pytest.fixture(scope="module")
def agent():
    made = ending(seed=1)
    made.play(steps=60)
    return made.agent


def test_every_step_is_predicted_before_it_is_learnt(agent):
    quality, residuals = agent.quality, agent.rows["residual"]
    assert quality.random == 16
    assert quality.steps == len(agent.rows)
    assert quality.predicted.sum() == len(agent.rows) - 16
    np.testing.assert_allclose(quality.missed[:, :2].sum(0), (residuals[16:] ** 2).sum(0), rtol=1e-4)
    target = np.c_[agent.rows["y"] - agent.rows["x"], agent.rows["r"], agent.rows["g"]][16:]
    np.testing.assert_allclose(quality.mean, target.mean(0))
    assert (quality.spread.sum(0)[:2] > 0).all()


def test_first_steps_and_every_eighth_are_judged_and_known_when_their_episode_ends(agent):
    begun = np.r_[0, np.flatnonzero(agent.rows["ended"]) + 1]  # some of the episodes that terminated
    known = (begun[:-1] >= 16).sum()
    assert known >= 1
    assert known <= agent.quality.judged[:, 0].sum() <= len(agent.rows) / EVERY + agent.episode
    assert not len(agent.quality.waiting)
    assert agent.quality.labelled[..., 0].sum() == agent.quality.violations[..., 0].sum()


def judged(ended, horizons=(2, 4), tolerance=0.1, rewards=(1.0, 2.0, 3.0), g=(-1.0, 0.5, 1.0), first=0):
    """An episode of three steps whose first one was judged: return 5, violation 0.05 of the largest |g| = 2, safe."""
    rows = {"r": np.array(rewards), "g": np.array(g)[:, None], "ended": np.array([0.0, 0.0, float(ended)])}
    fake = SimpleNamespace(
        rows=rows, settings=type("S", (), {"horizons": horizons, "__getitem__": lambda *_: tolerance})()
    )
    quality = Quality(1, 1)
    quality.steps = 3
    quality.waiting = np.array([[first, first, 5.0, 0.05, 1.0, 2.0]])
    quality.after(fake, np.arange(3))
    return quality


def test_what_came_is_discounted_as_in_the_critics():
    quality = judged(ended=True)
    w = (0.5 ** np.arange(3) + 0.75 ** np.arange(3)) / 2
    np.testing.assert_allclose(quality.judged[0], [1, 5, w @ [1, 2, 3], 0.1, w @ [0, 0.5, 1]])
    at = np.searchsorted(BINS, 0.05, "right") - 1
    np.testing.assert_allclose(quality.violations[0, at], [1, 0.05, w @ [0, 0.5, 1] / 2])
    assert quality.labelled[0].tolist() == [[0, 0], [0, 0], [1, 0]]  # said to be safe, and it was not
    assert judged(ended=True, tolerance=5).labelled[0, 2].tolist() == [1, 1]


def test_steps_that_were_cut_off_sooner_than_the_look_ahead_are_left_out():
    assert not judged(ended=False).judged.any()
    quality = judged(ended=False, horizons=(2, 3))
    w = (0.5 ** np.arange(3) + (2 / 3) ** np.arange(3)) / 2
    np.testing.assert_allclose(quality.judged[0, 2], w @ [1, 2, 3] / (w.sum() / 2.5))  # as on average before the cut
    assert not judged(ended=False, horizons=(2, 3), first=1).judged.any()


def test_memory_stays_flat():
    quality, still = Quality(1, 1), SimpleNamespace(fitted=0)
    for _ in range(5 * STRETCHES * FIRST):
        quality.before(still, None)
        i = (quality.steps - 1) // quality.stretch
        quality.predicted[i] += 1
        quality.missed[i] += 0.25
    assert quality.stretch == 8 * FIRST
    assert quality.predicted.sum() == quality.steps == quality.random == 5 * STRETCHES * FIRST
    assert quality.missed.sum(0).tolist() == [quality.steps / 4] * 3
    assert (quality.predicted[quality.predicted > 0] == quality.stretch).all()
    assert len(quality.predicted) == STRETCHES


def test_figures_are_json_of_the_form_that_reports_read(agent):
    found = json.loads(json.dumps(agent.figures(), allow_nan=False))
    assert training_spec.fault_of_found({"learnt": found}, "found") is None
    assert len(found["steps"]) <= POINTS
    assert found["steps"][-1] == len(agent.rows)
    assert len(found["late"]) == 2 + 1 + 1
    assert sum(count for count, _ in found["labels"].values()) == sum(n for _, _, n in found["violations"])
    for wrong in (
        {"steps": found["steps"][1:]},
        {"labels": {**found["labels"], "safe": [1, 2]}},
        {"violations": [[1.0]]},
    ):
        assert training_spec.fault_of_found({"learnt": found | wrong}, "found") is not None


def test_nothing_predicted_is_nothing_to_show():
    assert Quality(2, 1).figures(None) is None
