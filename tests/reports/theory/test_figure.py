"""The figure of `everystep theory`: measured sums, their bounds, and what an agent does not have."""

from types import SimpleNamespace

import numpy as np
import pytest

from everystep.reports.theory import figure

pytestmark = pytest.mark.quick
K, H = 5, 3


def run(has_costs=True, priced=True, lemma=True, beta=2.0):
    return SimpleNamespace(
        K=K,
        H=H,
        beta=beta,
        priced=priced,
        lemma=np.full((2, K), 9.0) if lemma else None,
        curves={"regret": np.ones((2, K)), "violation": np.full((2, K), 0.5)},
        regret_bound=lambda k, beta, repaired: beta * k,
        diagnosed=SimpleNamespace(has_costs=has_costs, measured=SimpleNamespace(error=np.full((2, K), 0.25))),
    )


def ends(axes):
    return [float(line.get_ydata()[-1]) for line in axes.get_lines()]


def test_measured_curves_are_sums_with_their_bounds_and_the_largest_there_can_be():
    regret, violation, errors = figure.bounds_and_measurements({"lsvi-ae": run()}).axes
    assert ends(regret) == [5.0, 10.0, H * K]
    assert ends(errors) == [1.25, 9.0, H * K]
    measured, by_errors, by_lemma, most = ends(violation)
    assert (measured, most) == (2.5, H * K)
    assert by_lemma - by_errors == pytest.approx(9.0 - 1.25)


def test_an_agent_without_costs_or_prices_has_no_such_bounds():
    regret, violation, errors = figure.bounds_and_measurements({"lsvi": run(has_costs=False, beta=None)}).axes
    assert [len(axes.get_lines()) for axes in (regret, violation, errors)] == [2, 2, 1]
    _, violation, errors = figure.bounds_and_measurements({"lsvi": run(priced=False, lemma=False)}).axes
    assert [len(axes.get_lines()) for axes in (violation, errors)] == [2, 2]
