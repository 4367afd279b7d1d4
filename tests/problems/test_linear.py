"""Random linear CMDPs."""

import jax
import numpy as np
import pytest

import everystep as es
from everystep import agents, problems
from everystep.errors import EverystepError
from everystep.mdp import planner


@pytest.mark.quick
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("concentration", [0.01, 1.0, 30.0])
def test_a_random_linear_problem_keeps_its_promises(seed, concentration):
    problem = problems.linear(states=80, actions=4, d=6, margin=0.2, seed=seed, concentration=concentration)
    problem.check()
    phi, g, r = problem.features, problem.g[0, 0], problem.r[0]
    assert np.linalg.norm(phi, axis=-1).max() <= 1 + 1e-12
    assert (g.min(-1) <= -0.2 + 1e-12).all()
    assert not ((g > 0) & (g < 0.2)).any()
    assert np.abs(g).max() <= 1
    assert 0 <= r.min() <= r.max() <= 1
    for linear_in_phi in (g, r):
        weights, *_ = np.linalg.lstsq(phi.reshape(-1, 6), linear_in_phi.reshape(-1), rcond=None)
        np.testing.assert_allclose(phi @ weights, linear_in_phi, atol=1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_harm_pays_in_a_random_linear_problem(seed):
    problem = problems.linear(states=200, seed=seed)
    free = planner.solve(problem, safe=False)
    assert (problem.g > 0).mean() > 0.3
    assert free.value > 1.3 * planner.solve(problem).value
    assert planner.evaluate(problem, free.policy).violation > 0.5


def test_the_optima_of_the_documented_instance():
    problem = problems.linear()
    assert planner.solve(problem).value == pytest.approx(1.6735417681735, abs=1e-12)
    assert planner.solve(problem, safe=False).value == pytest.approx(3.5047692182009, abs=1e-12)


def test_ten_thousand_states_take_no_table_of_all_pairs():
    problem = problems.linear(states=10_000, d=10, horizon=2)
    problem.check()
    arrays = [leaf for leaf in jax.tree.leaves(problem.world) if leaf is not None]
    assert max(leaf.size for leaf in arrays) <= 10_000 * 5 * 10


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"d": 1}, r"^d is 1; give a whole number of at least 2"),
        ({"margin": 1.5}, r"^margin is 1\.5; give a number from 0 to 1"),
        ({"noise": -1}, r"^noise is -1; give a number from 0"),
        ({"concentration": 0}, r"^concentration is 0; give a number from"),
        ({"concentration": 1e6, "margin": 0.5, "d": 2, "seed": 2}, r"^margin is 0\.5, which leaves no unsafe actions"),
    ],
)
def test_a_linear_problem_that_cannot_be_is_refused(wrong, sentence):
    with pytest.raises(EverystepError, match=sentence):
        problems.linear(states=20, **wrong)


def test_lsvi_ae_stops_doing_harm_where_lsvi_never_does():
    problem = problems.linear(states=60, d=5, horizon=3)
    settings = {"beta": 0.3}
    result = es.run(problem, [agents.lsvi_ae(**settings), agents.lsvi(**settings)], episodes=200, seeds=2)
    late = {label: curves["violation"][:, -50:].sum() for label, curves in result.columns.items()}
    assert late["lsvi-ae"] < 0.02 * late["lsvi"]
