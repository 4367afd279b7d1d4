"""The words of `everystep reproduce` follow its numbers, whichever way they fall."""

import numpy as np
import pytest

from everystep import reproduce
from everystep.experiment import Result
from everystep.problems import frozen_lake


def told(experiment, value, violation):
    """A result in which every episode of each agent has the same value and violation."""
    shape = (len(experiment.spec["seeds"]), experiment.spec["episodes"])
    curves = {}
    for label, v, harm in zip(experiment.agents, value, violation, strict=True):
        columns = {"value": v, "return": v, "regret": 5.2 - v, "violation": harm}
        curves[label] = {name: np.full(shape, number) for name, number in columns.items()}
    return Result(frozen_lake(), experiment.spec, curves, {})


@pytest.fixture(scope="module")
def plan():
    return reproduce.plan(seeds=2, episodes=120)


def findings(plan, value, violation, literal):
    none = (0.0, 0.0, 0.0)
    return reproduce.Findings(
        told(plan.main, value, violation), told(plan.literal, literal, none), told(plan.longer, literal, none)
    ).text()


def test_a_run_that_learnt_is_called_a_reproduction(plan):
    text = findings(plan, (5.2, 5.7, 5.5), (0.01, 3.0, 2.0), (2.0, 0.5, 0.1))
    assert "the paper's picture reproduces: LSVI-AE is at 5.20 in episodes 10 to 60" in text
    assert "LSVI and LSVI-Primal suffer 300.0 and 200.0 times as many" in text
    assert "limited progress does not reproduce: it ends at 5.50" in text
    assert "does not reproduce in 120 episodes: it ends at 2.00" in text


@pytest.mark.quick
def test_a_run_that_did_not_learn_is_not(plan):
    text = findings(plan, (0.2, 0.2, 0.2), (1.0, 1.0, 1.0), (5.2, 5.2, 5.2))
    assert "the paper's picture is not reached" in text
    assert "limited progress holds in this run: it ends at 0.20" in text
    assert "one estimator for each step, reproduces in 120 episodes" in text
