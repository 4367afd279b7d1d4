"""The unit of reward changes nothing that an agent does, and a constraint that is scaled equals one scaled by hand."""

from dataclasses import replace
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import stepping

import everystep as es
from everystep.experiments.engines import gpu
from everystep.lsvi import loop
from everystep.mdp import planner
from everystep.mdp.arrays import save_problem

EPISODES, SEEDS = 60, [3, 8]
OTHER_UNITS = {"hundredths": (100.0, 0.0), "shifted": (1e-6, 5.0), "losses": (3.0, -7.0), "tiny": (1e-300, 0.0)}


@cache
def problem(name):
    if name == "lake":
        return es.problems.from_map(("SFHF", "FFFF", "HFFG"), horizon=7, name="pond")
    if name == "arms":
        return in_other_units(es.problems.bandit(seed=1), 1.0, 0.0, decimals=3)
    return in_other_units(es.problems.synthetic(states=4, directions=2, levels=2), 1.0, 0.0, decimals=3)


def in_other_units(given, factor, offset, decimals=15):
    """The problem with rewards factor * r + offset, noise included."""
    noise = given.noise
    seen = None if noise.reward_on_arrival is None else factor * noise.reward_on_arrival + offset
    return es.FiniteCMDP(
        given.P,
        factor * given.r[0].round(decimals) + offset,
        given.g[:, 0],
        start=given.start if len(given.start) > 1 else given.start[0],
        horizon=given.horizon,
        noise=replace(noise, reward_on_arrival=seen, reward_sigma=factor * noise.reward_sigma),
        features=given.features,
        coordinates=given.coordinates,
        kernel=given.kernel,
        linear_costs=given.linear_costs,
        known=given.known,
        exempt=given.exempt,
    )


AGENTS = {
    "lake": [
        es.agents.lsvi_ae(),
        es.agents.lsvi(radius="coordinate"),
        es.agents.lsvi_primal(cap=8.5),
        es.agents.lsvi_ae(value="kernel(rbf(1, on=position)*categorical)", react=True, cost="gp"),
        es.agents.uniform(),
    ],
    "arms": [es.agents.rpol(), es.agents.lsvi(radius="paper"), es.agents.lsvi_ae()],
    "synthetic": [es.agents.lsvi_ae(switch=2), es.agents.slucb_qvi(), es.agents.rslucb_qvi(), es.agents.lsvi_new()],
}
PLAYED = {"lake": [0, 2], "arms": [0], "synthetic": [3]}  # each one is compiled separately


def in_units(recipe, factor, offset, horizon):
    """A cap is a return, in the units of r."""
    if "cap" not in recipe.given:
        return recipe
    return es.agents.Recipe(recipe.name, {**recipe.given, "cap": factor * recipe.given["cap"] + horizon * offset})


@pytest.mark.parametrize("units", OTHER_UNITS)
@pytest.mark.parametrize("name", AGENTS)
def test_every_agent_is_the_same_in_any_unit_of_reward_and_observes_the_same(name, units):
    one, other = problem(name), in_other_units(problem(name), *OTHER_UNITS[units])
    # 1e-6 r + 5 holds nine digits of r. On the lake those are all; elsewhere the rest are lost before they are scaled.
    exact = 2e-8 if units == "shifted" and name != "lake" else 0
    for want, found in zip(one.world.units, other.world.units, strict=True):
        assert (found is None) == (want is None)
        if found is not None:
            np.testing.assert_allclose(found, want, rtol=0, atol=exact)
    for recipe in AGENTS[name]:
        want = recipe.resolve(one, EPISODES).build()
        found = in_units(recipe, *OTHER_UNITS[units], one.horizon).resolve(other, EPISODES).build()
        for leaf, same in zip(jax.tree.leaves(found.agent), jax.tree.leaves(want.agent), strict=True):
            np.testing.assert_allclose(leaf, same, rtol=exact, atol=exact, err_msg=recipe.label)


@cache
def run(name, units):
    factor, offset = OTHER_UNITS.get(units, (1.0, 0.0))
    given = problem(name)
    recipes = [in_units(AGENTS[name][i], factor, offset, given.horizon).called(f"agent {i}") for i in PLAYED[name]]
    return es.run(in_other_units(given, factor, offset), recipes, EPISODES, SEEDS)


@pytest.mark.parametrize("units", OTHER_UNITS)
@pytest.mark.parametrize("name", AGENTS)
def test_a_run_is_the_same_in_any_unit_of_reward(name, units):
    (factor, offset), H = OTHER_UNITS[units], problem(name).horizon
    one, other = run(name, "as given"), run(name, units)
    for label, want in one.columns.items():
        found = other.columns[label]
        for column in ("violation", "unsafe_steps", "soft_violation", "expected_violation"):  # of the same actions
            np.testing.assert_array_equal(found[column], want[column], err_msg=f"{label}, {column}")
        rounding = 1e-12 * factor + 1e-14 * abs(H * offset)
        for column, shift in (("value", H * offset), ("return", H * offset), ("regret", 0.0)):
            expected = factor * want[column] + shift
            np.testing.assert_allclose(found[column], expected, rtol=1e-12, atol=rounding, err_msg=f"{label}, {column}")
        assert len(np.unique(want["value"])) > 1
    for key, visits in one.visits.items():
        np.testing.assert_array_equal(other.visits[key], visits, err_msg=key)


@pytest.mark.quick
def test_ten_thousand_times_the_reward_does_not_switch_safety_off():
    given = problem("lake")
    violations = {}
    for factor in (1.0, 1e4):
        curves = es.run(in_other_units(given, factor, 0.0), ["lsvi-ae", "lsvi"], 200, [5, 6]).columns
        violations[factor] = {name: columns["violation"][0, -50:].sum() for name, columns in curves.items()}
    assert violations[1.0] == violations[1e4]
    assert violations[1e4]["lsvi-ae"] < 3 < 20 < violations[1e4]["lsvi"]


@pytest.mark.quick
@pytest.mark.parametrize("constant", [1.0, -3e7, 1e-200])
def test_a_constant_reward_is_learnt_like_none(constant):
    given = problem("lake")
    flat = lambda reward: es.FiniteCMDP(given.dense_P[0], np.full((12, 4), reward), given.g[:, 0], horizon=7)
    one, other = (es.run(flat(reward), "lsvi-ae", 20, [1]).columns["lsvi-ae"] for reward in (0.0, constant))
    np.testing.assert_array_equal(one["violation"], other["violation"])
    np.testing.assert_allclose(other["value"], 7 * constant, rtol=1e-12)
    np.testing.assert_allclose(other["regret"], 0, atol=1e-12 * abs(constant))


def test_noise_on_a_constant_reward_is_its_unit():
    bandit = lambda factor: es.FiniteCMDP(
        np.ones((1, 3, 1)), np.full((1, 3), 2.0), [[-1.0, 0, 1]], horizon=1, noise=es.Noise(reward_sigma=factor)
    )
    one, other = (es.run(bandit(factor), "lsvi-ae", 30, [1]).columns["lsvi-ae"] for factor in (0.5, 500.0))
    np.testing.assert_array_equal(one["violation"], other["violation"])
    np.testing.assert_allclose((other["return"] - 2) / 1000, one["return"] - 2, atol=1e-12)


# --- the range --------------------------------------------------------------------------------------------------------
def chain(r, start=0, horizon=3, **fields):
    """Three states; state 2 is never entered from the others."""
    P = np.zeros((3, 1, 3))
    P[0, 0, 1] = P[1, 0, 1] = P[2, 0, 0] = 1
    return es.FiniteCMDP(P, np.reshape(r, (3, 1)), np.zeros((3, 1)), start=start, horizon=horizon, **fields)


@pytest.mark.quick
def test_the_range_is_that_of_the_states_that_can_be_entered():
    assert chain([2.0, 4.0, 100.0]).reward_range[:2] == (2.0, 2.0)
    assert chain([2.0, 4.0, 100.0], start=[0.5, 0.0, 0.5]).reward_range[:2] == (2.0, 98.0)
    assert chain([2.0, 4.0, 100.0], horizon=1).reward_range[:2] == (2.0, 1.0)  # a single reward is a constant
    by_step = es.FiniteCMDP(
        np.broadcast_to(chain([0, 0, 0]).dense_P, (3, 3, 1, 3)),
        np.array([[0.5, 9, 9], [9, 2.5, 9], [9, 3.5, 9]])[..., None],
        np.zeros((3, 3, 1)),
        horizon=3,
    )
    assert by_step.reward_range[:2] == (0.5, 8.5)


def test_rewards_on_arrival_count_where_they_can_be_observed():
    P = np.zeros((2, 1, 2))
    P[:, 0] = [[0.25, 0.75], [0.0, 1.0]]
    seen = np.array([[[-3.0, 1.0]], [[77.0, 0.0]]])
    noise = es.Noise(reward_on_arrival=seen)
    arrival = es.FiniteCMDP(P, (P * seen).sum(-1), np.zeros((2, 1)), horizon=4, noise=noise)
    assert arrival.reward_range[:2] == (-3.0, 4.0)
    units = arrival.world.units
    np.testing.assert_array_equal(units.reward_seen[0, 0].T, [[0.0, 1.0], [0.0, 0.75]])  # 77 is never seen
    np.testing.assert_array_equal(arrival.in_units.r[0], [[0.75], [0.75]])


@pytest.mark.quick
def test_rewards_in_0_1_stay_as_they_are_bit_for_bit():
    kept = chain([0.0, 1.0, 1 / 3])
    assert kept.world.units is None
    assert kept.in_units is kept


@pytest.mark.quick
@pytest.mark.parametrize("reward", [1e308, -1e308, 1e100])
def test_returns_that_overflow_are_refused_in_a_sentence(reward):
    huge = chain([0.0, reward, 0.0])
    sentence = r"^r has entries of 1e\+\d+, so returns over 3 steps exceed 1e\+100; give rewards in a larger unit\.$"
    for refuse in (huge.check, lambda: es.run(huge, "lsvi", 5, 1), lambda: planner.solve(huge)):
        with pytest.raises(es.EverystepError, match=sentence):
            refuse()


def test_a_cap_is_a_return_in_the_units_of_r():
    given, other = problem("lake"), in_other_units(problem("lake"), 10.0, -2.0)
    assert es.agents.lsvi().resolve(given, 10).cap == es.agents.lsvi().resolve(other, 10).cap == 7
    assert es.agents.lsvi().resolve(other, 10)["cap"] == pytest.approx(7 * (60 - 2))
    again = es.agents.lsvi(cap=es.agents.lsvi().resolve(other, 10)["cap"]).resolve(other, 10)
    assert again.cap == 7
    highest = planner.highest_value(other.in_units) * 59.9 + 7 * (0.1 - 2)
    other.check(cap=highest + 1e-6)
    with pytest.raises(es.EverystepError, match="below the unconstrained optimum"):
        other.check(cap=highest - 1e-3)


# --- constraints ------------------------------------------------------------------------------------------------------
@cache
def costly(scaled, **fields):
    """Two constraints in different units, observed on arrival and with noise; by hand, or by `scale`."""
    rng = np.random.default_rng(4)
    S, A, units = 4, 3, np.array([250.0, 0.03125])
    P = rng.dirichlet(np.ones(S), (S, A))
    seen = rng.uniform(-1, 1, (2, S, A, S))
    seen[:, :, 0] = -np.abs(seen[:, :, 0])
    g = (P * seen).sum(-1)
    largest = np.abs(g * units[:, None, None]).max((1, 2))
    unit = units if scaled else units / largest
    by = lambda array: array * unit.reshape(2, *(1,) * (array.ndim - 1))
    noise = es.Noise(cost_on_arrival=by(seen), cost_sigma=0.125 * unit)
    known = es.Known(threshold=0.5 * unit, safe_action=np.zeros(S, int))
    r = rng.integers(0, 5, (S, A)) / 4
    return es.FiniteCMDP(P, r, by(g), horizon=3, noise=noise, known=known, scale=True if scaled else None), largest


@pytest.mark.quick
def test_g_outside_its_interval_is_refused_unless_the_user_says_scale():
    given, _ = costly(scaled=True)
    plain = es.FiniteCMDP(given.dense_P[0], given.r[0], given.g[:, 0])
    with pytest.raises(es.EverystepError, match=r"^g is .*\[-1, 1\]; set scale to true"):
        plain.check()
    given.check()
    too_small = es.FiniteCMDP(given.dense_P[0], given.r[0], given.g[:, 0], scale=[200.0, 0.001])
    with pytest.raises(es.EverystepError, match=r"^g is .* constraint 2, .*; set scale to true"):
        too_small.check()
    for wrong in (0, -1.0, [1.0, 2.0, 3.0], np.nan, "wide"):
        with pytest.raises(es.EverystepError, match=r"^scale is "):
            es.FiniteCMDP(given.dense_P[0], given.r[0], given.g[:, 0], scale=wrong)


def test_a_scaled_problem_is_the_one_scaled_by_hand():
    recipe = es.agents.lsvi_ae(cost=["counts", "gp(rbf(1, on=state))"])
    (scaled, units), (by_hand, _) = costly(scaled=True), costly(scaled=False)
    one, other = (es.run(each, recipe.called("it"), EPISODES, SEEDS) for each in (scaled, by_hand))
    np.testing.assert_array_equal(one.visits["it_end"], other.visits["it_end"])
    for i, unit in enumerate(units):
        column = f"violation_{i + 1}"
        np.testing.assert_allclose(one.columns["it"][column], unit * other.columns["it"][column], rtol=1e-12)
        assert one.columns["it"][column].any()
    total = one.columns["it"]["violation_1"] + one.columns["it"]["violation_2"]
    np.testing.assert_allclose(one.columns["it"]["violation"], total, rtol=1e-12)
    ends = units[:, None, None]
    np.testing.assert_allclose(one.certificates["it_upper"], other.certificates["it_upper"] * ends, rtol=1e-9)
    assert any(remark.startswith("agents learn from g divided by ") for remark in one.spec["remarks"])


def test_prior_knowledge_and_settings_about_costs_are_in_the_units_of_g():
    (scaled, units), (by_hand, _) = costly(scaled=True), costly(scaled=False)
    for settings in ({}, {"threshold": [3.0, 4.0]}):
        given = {key: np.array(value) * units for key, value in settings.items()}
        one = es.agents.slucb_qvi(**given).resolve(scaled, 50)
        other = es.agents.slucb_qvi(**settings).resolve(by_hand, 50)
        np.testing.assert_allclose(one.cost.threshold, other.cost.threshold)
        np.testing.assert_allclose(one.cost.sigma, other.cost.sigma)
        np.testing.assert_allclose(one["threshold"], np.array(other["threshold"]) * units)
    assert es.agents.lsvi_ae(sigma=2.0).resolve(scaled, 50)["sigma"] == pytest.approx(2.0)


@pytest.mark.quick
def test_scaling_never_changes_the_sign_of_g():
    g = np.array([[1e300, -1e300, 1e-300], [-1e300, 5e-324, 0.0]])
    tiny = es.FiniteCMDP(np.ones((2, 3, 2)) / 2, np.zeros((2, 3)), g, scale=True)
    tiny.check()
    np.testing.assert_array_equal(np.sign(tiny.in_units.g[0, 0]), np.sign(g))
    assert np.abs(tiny.in_units.g).max() == 1


def test_scale_is_kept_in_a_file(tmp_path):
    given, largest = costly(scaled=True)
    save_problem(given, tmp_path / "costly.npz")
    again = es.problems.from_arrays(tmp_path / "costly.npz")
    np.testing.assert_array_equal(again.scale, largest)
    rescaled = es.problems.load(str(tmp_path / "costly.npz"), scale=[400.0, 2.0])
    np.testing.assert_array_equal(rescaled.scale, [400.0, 2.0])


# --- the drivers ------------------------------------------------------------------------------------------------------
def test_stepping_and_the_gpu_kernel_record_the_same_units():
    given = in_other_units(es.problems.from_map(("SHHF", "FFFF", "HFFG"), horizon=7), 50.0, -1.0)
    g = given.g[:, 0] * 20
    noise = replace(given.noise, reward_sigma=2.0, cost_sigma=0.5)
    noise = replace(noise, cost_on_arrival=None if noise.cost_on_arrival is None else noise.cost_on_arrival * 20)
    scaled = es.FiniteCMDP(given.P, given.r[0], g, horizon=7, noise=noise, scale=True)
    built = es.agents.lsvi_ae().resolve(scaled, 10).build()
    job = loop.Job(built.agent, jax.tree.map(jnp.asarray, scaled.world), scaled.sizes)
    carries = loop.start_seeds(built.agent, scaled.sizes, True, True, 1)
    seeds, count = jnp.asarray([6], jnp.uint32), jnp.int32(4)
    after, want = loop.scan_seeds(job, carries, seeds, count, 4, False)
    interpreted = gpu.scan_in_kernel(job, carries, seeds, count, 4, gpu.Layout(width=2, interpret=True))
    carry = loop.start(built.agent, scaled.sizes, True, True)
    stepped = [metrics for _, metrics, _ in stepping.episodes(built.agent, job.world, scaled.sizes, carry, 6, 4)]
    for field in ("earned", "value", "expected_violation", "violation", "soft_violation"):
        expected = np.asarray(getattr(want, field))[0]
        np.testing.assert_allclose(np.asarray(getattr(interpreted[1], field))[0], expected, atol=1e-9, err_msg=field)
        np.testing.assert_allclose([getattr(each, field) for each in stepped], expected, atol=1e-9, err_msg=field)
    np.testing.assert_allclose(interpreted[0].agent.values.rewards, after.agent.values.rewards, atol=1e-9)
    np.testing.assert_allclose(interpreted[0].agent.costs.total, after.agent.costs.total, atol=1e-9)
    assert np.asarray(want.earned).min() < -1
    assert np.asarray(want.violation).max() >= 20
