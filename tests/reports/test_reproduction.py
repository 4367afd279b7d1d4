"""The text of `everystep reproduce` follows its numbers."""

import numpy as np
import pytest

from everystep.experiments.result import Result
from everystep.problems import frozen_lake
from everystep.reports import reproduction


def constant_result(experiment, value, violation):
    """A result in which every episode of each agent has the same value and violation."""
    shape = (len(experiment.spec["seeds"]), experiment.spec["episodes"])
    curves = {}
    for label, v, g in zip(experiment.agents, value, violation, strict=True):
        columns = {"value": v, "return": v, "regret": 5.2 - v, "violation": g}
        curves[label] = {name: np.full(shape, number) for name, number in columns.items()}
    return Result(frozen_lake(), experiment.spec, curves, {})


@pytest.fixture(scope="module")
def runs():
    return reproduction.prepare_paper_runs(seeds=2, episodes=120)


def findings(runs, value, violation, literal):
    none = (0.0, 0.0, 0.0)
    return reproduction.Findings(
        constant_result(runs.main, value, violation),
        constant_result(runs.literal, literal, none),
        constant_result(runs.longer, literal, none),
    ).text()


def test_a_run_that_learned_is_called_a_reproduction(runs):
    text = findings(runs, (5.2, 5.7, 5.5), (0.01, 3.0, 2.0), (2.0, 0.5, 0.1))
    assert "the paper's result reproduces: LSVI-AE is at 5.20 in episodes 10 to 60" in text
    assert "LSVI and LSVI-Primal have 300.0 and 200.0 times as many" in text
    assert "limited progress does not reproduce: it ends at 5.50" in text
    assert "does not reproduce in 120 episodes: it ends at 2.00" in text


@pytest.mark.quick
def test_a_run_that_did_not_learn_is_not(runs):
    text = findings(runs, (0.2, 0.2, 0.2), (1.0, 1.0, 1.0), (5.2, 5.2, 5.2))
    assert "the paper's result does not reproduce" in text
    assert "limited progress reproduces: it ends at 0.20" in text
    assert "one estimator for each step, reproduces in 120 episodes" in text
