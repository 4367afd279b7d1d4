"""Certificates ahead: bounds on the harm that an action leads to, their labels, and `everystep certify`."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import binom

import everystep as es
from everystep.cli import main
from everystep.lsvi import ahead_bounds
from everystep.mdp import certificates, planner
from everystep.mdp.certificates import SAFE, UNKNOWN, UNSAFE
from everystep.mdp.cmdp import FiniteCMDP, Noise

CLIFF = 0.3  # how likely action 1 of state 0 leads to state 1, where every action is unsafe


def brink(sigma: float = 0.0, arrival: bool = False) -> FiniteCMDP:
    """Action 0 of state 0 stays; action 1 pays and may lead to state 1, from which the only way back is unsafe."""
    P = np.array([[[1, 0], [1 - CLIFF, CLIFF]], [[1, 0], [1, 0]]], float)
    g = np.array([[-1, -1], [1, 0.5]])
    noise = Noise(cost_sigma=sigma)
    if arrival:  # harm is seen on arrival at state 1
        seen = np.broadcast_to([-1.0, 1.0], (2, 2, 2))
        g, noise = (P * seen).sum(-1), Noise(cost_on_arrival=seen)
    return FiniteCMDP(P, np.array([[0.0, 1], [0, 0]]), g, horizon=3, noise=noise)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A map with a current in its middle, for one agent that looks ahead and one that does not."""
    pond = es.problems.from_map(("SFF", "FHF", "FFG"), horizon=6)
    agents = [es.agents.lsvi_ahead(radius_cost="coordinate"), es.agents.lsvi_ae(radius_cost="coordinate")]
    return es.run(pond, agents, episodes=60, seeds=2).save(tmp_path_factory.mktemp("runs") / "pond", figures=False)


# --- the interval of a mean -------------------------------------------------------------------------------------------
def test_the_interval_of_a_mean_is_worked_out_by_hand():
    """kl(0, mu) = -log(1 - mu), kl(1, mu) = -log(mu), kl(1/2, mu) = -log(4 mu (1 - mu)) / 2."""
    with jax.enable_x64(True):
        u, level = jnp.array([0, 1, 0.5]), jnp.array([0.1, 0.1, -np.log(0.75) / 2])
        up, low = ahead_bounds.chernoff_up(u, level), ahead_bounds.chernoff_low(u, level)
        np.testing.assert_allclose(up, [1 - np.exp(-0.1), 1, 0.75], atol=1e-9)
        np.testing.assert_allclose(low, [0, np.exp(-0.1), 0.25], atol=1e-9)
        finer = jnp.linspace(0, 1, 41)
        for end in (ahead_bounds.chernoff_up, ahead_bounds.chernoff_low):  # both grow with u, which the proof needs
            assert (np.diff(end(finer, jnp.full(41, 0.05))) > -1e-12).all()


def test_the_interval_covers_the_worst_coin_as_often_as_promised():
    """The probability of a miss is a sum of binomial ones, at most exp(-L) on each side; half of L fails."""
    L = 4.0

    n, heads = np.array([(n, heads) for n in (1, 5, 30, 100) for heads in range(n + 1)]).T
    q = np.linspace(0.005, 0.995, 199)[:, None]
    mass = binom.pmf(heads, n, q)

    def worst_miss(level):
        with jax.enable_x64(True):
            means, levels = jnp.asarray(heads / n), jnp.asarray(level / n)
            up, low = ahead_bounds.chernoff_up(means, levels), ahead_bounds.chernoff_low(means, levels)
        missed = lambda mask: max((mass * mask)[:, n == each].sum(1).max() for each in set(n))
        return max(missed(np.asarray(up) < q), missed(np.asarray(low) > q))

    assert worst_miss(L) <= np.exp(-L) < worst_miss(L / 2)


# --- the truth --------------------------------------------------------------------------------------------------------
@pytest.mark.quick
def test_the_harm_that_an_action_leads_to_is_worked_out_by_hand():
    G = certificates.led_to(brink())  # (H, A, S)
    np.testing.assert_allclose(G[:, :, 0].T, [[0, 0, 0], [CLIFF / 2, CLIFF / 2, 0]])
    np.testing.assert_allclose(G[:, :, 1].T, [[1] * 3, [0.5] * 3])
    problem = brink()
    C = planner.least_harm(problem)
    for h in range(3):
        np.testing.assert_allclose(G[h], planner.harm_of_actions(problem, h, C[h + 1]))


def test_harm_of_events_is_what_is_suffered_on_average():
    on_arrival = certificates.violation_of_step(brink(arrival=True), events=True)[0]
    np.testing.assert_allclose(on_arrival, [[0, 0], [CLIFF, 0]])  # of the mean, 2 * 0.3 - 1 < 0, there is none
    assert (certificates.violation_of_step(brink(arrival=True)) == 0).all()
    noisy = certificates.violation_of_step(brink(sigma=0.4), events=True)[0]
    draws = np.random.default_rng(1).normal(size=200_000) * 0.4
    for a, x in np.ndindex(2, 2):
        g = brink().g[0, 0, x, a]
        np.testing.assert_allclose(noisy[a, x], np.maximum(g + draws, 0).mean(), atol=4e-3)
    np.testing.assert_array_equal(
        certificates.violation_of_step(brink(), events=True), certificates.violation_of_step(brink())
    )


def test_labels_ahead_compare_bounds_with_the_tolerance():
    lower, upper = np.array([[0.0, 0.2, 0.3, 0.0]]), np.array([[0.1, 0.4, 0.5, 0.2]])
    np.testing.assert_array_equal(certificates.labels_ahead(lower, upper, 0.2)[0], [SAFE, UNKNOWN, UNSAFE, SAFE])
    label = np.array([SAFE, SAFE, UNSAFE, UNSAFE, UNKNOWN], np.int8).reshape(1, 5, 1)
    G = np.array([0.1, 0.3, 0.1, 0.3, 0.3]).reshape(1, 5, 1)
    assert certificates.count_labels_ahead(label, G, np.ones(1, bool), 0.2) == (2, 2, 2)
    assert certificates.count_labels_ahead(label, G, np.zeros(1, bool), 0.2) == (0, 0, 0)


# --- what an agent certifies ------------------------------------------------------------------------------------------
def test_bounds_close_in_on_the_harm_that_actions_lead_to():
    """Without noise costs are known at once, and of transitions the rarely tried ones are the least certain."""
    problem = brink()
    recipe = es.agents.lsvi_ahead(radius_cost="coordinate", lam_cost=0.01)
    result = es.run(problem, recipe, episodes=3000, seeds=2)
    lower, upper = (result.certificates[f"lsvi-ahead_ahead_{end}"] for end in ("lower", "upper"))  # (seeds, H, S, A)
    G = certificates.led_to(problem).swapaxes(-1, -2)
    assert (lower <= G + 1e-9).all()
    assert (upper >= G - 1e-9).all()
    np.testing.assert_allclose(lower[:, 2], np.broadcast_to(G[2], lower[:, 2].shape), atol=0.02)  # nothing follows
    np.testing.assert_allclose(upper[:, 2, 0], 0)  # the last step is certain once the cost is
    assert (upper[:, 0, 0, 0] < 0.1).all()  # staying was tried often, and nothing ever followed
    assert result.certified["lsvi-ahead"]["ahead"]["tolerance"] == 0
    labels = certificates.summary(problem, result.spec["agents"], result.certificates, 0.3)["lsvi-ahead"]["ahead"]
    assert labels["p"] == 0.1
    assert labels["false"] == 0
    assert labels["safe"] >= 4
    assert labels["safe"] + labels["unsafe"] + labels["unknown"] == labels["actions"] == 12


def test_an_action_that_was_never_tried_is_neither_safe_nor_unsafe_ahead():
    result = es.run(brink(), es.agents.lsvi_ahead(radius_cost="coordinate", tolerance=0.5), episodes=1, seeds=2)
    lower, upper = (result.certificates[f"lsvi-ahead_ahead_{end}"][0] for end in ("lower", "upper"))
    low, up = (result.certificates[f"lsvi-ahead_{end}"][0, 0, 0] for end in ("lower", "upper"))  # (S, A)
    untried = (low == -1) & (up == 1)  # the interval of the cost is all that is possible
    assert untried.any()
    assert (certificates.labels_ahead(lower, upper, 0.5)[:, untried] == UNKNOWN).all()
    assert (lower[:, untried] == 0).all()
    most_after = upper[1:].min(-1).max(-1)  # of the worst state, by its best action
    np.testing.assert_allclose(upper[:, untried], 1 + np.append(most_after, 0)[:, None].repeat(untried.sum(), 1))


def harmless(exempt=None) -> FiniteCMDP:
    """Two states, two actions, g = -0.5 everywhere; where one is exempt, nothing leads to it."""
    P = np.full((2, 2, 2), 0.5) if exempt is None else np.broadcast_to([1.0, 0.0], (2, 2, 2))
    return FiniteCMDP(P, np.zeros((2, 2)), np.full((2, 2), -0.5), horizon=3, exempt=exempt)


@pytest.mark.parametrize("exempt", [None, [False, True]], ids=["all states are entered", "one never is"])
def test_where_every_state_is_certified_all_actions_are_safe_ahead_whatever_follows(exempt):
    """No P can lead to harm then, so a tolerance of 0 is met before the last step, too."""
    result = es.run(harmless(exempt), es.agents.lsvi_ahead(radius_cost="coordinate"), episodes=400, seeds=1)
    upper = result.certificates["lsvi-ahead_ahead_upper"][0]  # (H, S, A)
    assert (upper[:, [True, exempt is None]] == 0).all()
    found = result.certified["lsvi-ahead"]["ahead"]
    assert (found["safe"], found["actions"], found["tolerance"]) == ((12, 12, 0) if exempt is None else (6, 6, 0))


def test_where_no_state_has_a_safe_action_harm_that_follows_is_certain_before_anything_was_seen_to_follow():
    """min_y Clow: from the first costs on an action leads to at least as much harm as the least harmful state."""
    problem = FiniteCMDP(np.full((2, 2, 2), 0.5), np.zeros((2, 2)), np.full((2, 2), 0.5), horizon=3)
    recipe = es.agents.lsvi_ahead(radius_cost="coordinate", lam_cost=0.01)
    lower = es.run(problem, recipe, episodes=60, seeds=1).certificates["lsvi-ahead_ahead_lower"][0]
    for h in (0, 1):
        assert (lower[h] >= lower[2] + lower[h + 1].min() - 1e-12).all()
        assert (lower[h] <= 0.5 * (3 - h) + 1e-9).all()
    assert lower[0].min() > 1.4  # of 1.5


@pytest.mark.parametrize(
    ("settings", "problem", "p"),
    [
        ({"radius_cost": "coordinate", "p": 0.1}, brink(), 0.2),
        ({"radius_cost": "coordinate", "p": 0.1}, brink(sigma=0.2), 0.2),
        ({"radius_cost": "coordinate", "harm": "events"}, brink(arrival=True), 0.1),
        ({"radius_cost": "coordinate", "harm": "events"}, brink(sigma=0.2), None),  # E max(g, 0) may exceed 1
        ({"radius_cost": "coordinate", "beta_cost": 0.5}, brink(), None),
        ({}, brink(), None),
    ],
    ids=["valid", "noise", "events", "events with normal noise", "half of the width", "tuned"],
)
def test_only_valid_intervals_give_labels_ahead_a_probability(settings, problem, p):
    resolved = es.agents.lsvi_ahead(**settings).resolve(problem, 10)
    assert resolved.labels_ahead["p"] == p
    if settings.get("harm") == "events":  # intervals for E max(g, 0) do not tell the sign of g
        assert resolved.confidence is None
    assert es.agents.lsvi_ae().resolve(problem, 10).labels_ahead is None


# --- the command ------------------------------------------------------------------------------------------------------
def test_certify_reports_labels_ahead_beside_those_of_this_step(folder, capsys):
    assert main.main(["certify", str(folder), "--tolerance", "2.5"]) == 0
    printed = capsys.readouterr().out
    assert "safe ahead" in printed
    assert "2.5" in printed
    certified = json.loads((folder / "certificates.json").read_text(encoding="utf-8"))
    ahead = certified["lsvi-ahead"]["ahead"]
    assert (ahead["tolerance"], ahead["p"], ahead["actions"]) == (2.5, 0.1, 6 * 9 * 4)
    assert ahead["safe"] > 20
    assert "ahead" not in certified["lsvi-ae"]
    for name in ("certificates.png", "certificates-ahead.png", "certificates-ahead.svg"):
        assert (folder / "figures" / name).stat().st_size > 1000
    assert main.main(["certify", str(folder)]) == 0
    assert (
        json.loads((folder / "certificates.json").read_text(encoding="utf-8"))
        == json.loads((folder / "summary.json").read_text(encoding="utf-8"))["certificates"]
    )


def test_certify_refuses_a_tolerance_that_means_nothing(folder, tmp_path, capsys):
    assert main.main(["certify", str(folder), "--tolerance", "-1"]) == 2
    assert "tolerance is" in capsys.readouterr().err
    es.run(brink(), "lsvi-ae", episodes=2, seeds=1).save(tmp_path / "run", figures=False)
    assert main.main(["certify", str(tmp_path / "run"), "--tolerance", "1"]) == 2
    assert "the run has none" in capsys.readouterr().err
