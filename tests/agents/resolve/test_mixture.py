"""LSVI-NEW: what it requires, its settings and the probability of its intervals."""

import numpy as np
import pytest
from problems_for_tests.mixtures import passage

import everystep as es
from everystep.agents import Recipe, lsvi_new
from everystep.errors import EverystepError
from everystep.mdp.cmdp import FiniteCMDP, Known
from everystep.problems import frozen_lake, synthetic


@pytest.mark.quick
@pytest.mark.parametrize(
    ("known", "words"),
    [
        (Known(), r"requires the features of all triples.*Known\(triples="),
        (Known(triples=np.ones((6, 4, 6, 2))), r"requires a known safe action.*Known\(safe_action="),
    ],
)
def test_what_is_missing_is_named_with_how_to_give_it(known, words):
    with pytest.raises(EverystepError, match=words):
        es.run(passage(known=known), "lsvi-new", episodes=2, seeds=1)


def test_features_it_does_not_use_may_have_any_norm():
    p = synthetic()
    same = {"start": 0, "horizon": 3, "noise": p.noise, "known": p.known}
    long = FiniteCMDP(p.dense_P[0], p.r[0], p.g[:, 0], features=np.full((p.states, p.actions, 2), 9.0), **same)
    assert lsvi_new().resolve(long, 5).remarks == lsvi_new().resolve(p, 5).remarks


def test_it_is_refused_on_environments_because_these_list_no_safe_actions():
    pytest.importorskip("gymnasium")
    with pytest.raises(EverystepError, match="lsvi-new requires"):
        es.train("FrozenLake-v1", "lsvi-new", episodes=1)


def test_the_lake_lacks_what_it_requires():
    with pytest.raises(EverystepError, match="problem 'frozen-lake"):
        es.run(frozen_lake(), "lsvi-new", episodes=2, seeds=1)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"radius": "coordinate"}, "setting radius of lsvi-new is coordinate"),
        ({"radius_cost": "coordinate"}, "setting radius_cost of lsvi-new is coordinate"),
        ({"safety_bonus": "printed"}, "need margins above kappa"),
        ({"seed_episodes": 1.5}, "whole number of at least 0, or printed"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings, words):
    with pytest.raises(EverystepError, match=words):
        Recipe("lsvi-new", settings).resolve(passage(), 10)


def test_a_remark_reports_that_the_printed_seed_phase_outlasts_the_run():
    s = Recipe("lsvi-new", {"seed_episodes": "printed"}).resolve(synthetic(), 10_000)
    assert "plays the known safe actions in all 10000 episodes" in s.remarks[0]


@pytest.mark.quick
def test_the_printed_bonuses_are_the_formulas():
    p = synthetic()
    settings = {"safety_bonus": "printed", "seed_episodes": 10**9, "bound": 0.1, "lipschitz": 2.0, "radius": "paper"}
    mixture = Recipe("lsvi-new", settings).resolve(p, 1000).cost.numbers
    H, beta = 3, mixture.printed_beta
    assert beta == pytest.approx(5 * 3 * np.sqrt(np.log(5 * 3000 / 0.05)))
    assert mixture.value_radius == beta + 1
    here, beyond, start = mixture.bonuses()
    phi = p.known.triples
    B = 0.5 - (p.g[0, 0, :, 0].min() + 0.5) - 0.1 * np.linalg.norm(phi[:, :, :, None] - phi[:, :, None], axis=-1).max()
    kappa = 4 * beta / (0.01 + mixture.graph.lambda0 * 1e9)
    np.testing.assert_allclose(start, 4 * beta * H / B)
    np.testing.assert_allclose(beyond, 2 * beta * H / (B - kappa))
    np.testing.assert_allclose(here, 2 * beta * H / (B - kappa))


def test_intervals_carry_no_probability_where_costs_are_longer_than_the_bound():
    s = Recipe("lsvi-new", {"bound": 0.01}).resolve(passage(), 1000)
    assert s.confidence is None
    assert "carry no probability" in s.remarks[0]
