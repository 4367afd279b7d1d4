"""The power grid of examples/applications: the limit and the reward by hand; the simulator where it is installed."""

import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("gymnasium", reason="the power grid is an environment of gymnasium")
sys.path.append(str(Path(__file__).parents[2] / "examples" / "applications"))
import power_grid

pytestmark = pytest.mark.quick


def test_the_line_that_is_closest_to_its_rating_says_whether_a_step_is_safe():
    assert power_grid.excess([0.5, 0.9], [1.0, 1.02]) == pytest.approx(-0.1)
    assert power_grid.excess([0.5, -1.3], [1.0, 1.02]) == pytest.approx(0.3)  # gym-anm signs |S| by its direction
    assert power_grid.excess([2.5], [1.0]) == 1.0


def test_voltage_beyond_ten_per_cent_is_unsafe_on_either_side():
    assert power_grid.excess([0.1], [1.0, 1.12]) == pytest.approx(0.2)
    assert power_grid.excess([0.1], [1.0, 0.88]) == pytest.approx(0.2)
    assert power_grid.excess([0.1], [1.0, 0.95]) == pytest.approx(-0.5)


def test_less_lost_energy_earns_more_within_zero_and_one():
    rewards = [power_grid.earned(loss) for loss in np.linspace(power_grid.LEAST, power_grid.MOST, 7)]
    assert rewards == pytest.approx(np.linspace(1, 0, 7))
    assert [power_grid.earned(loss) for loss in (power_grid.MOST + 1, power_grid.LEAST - 1)] == [0, 1]


def test_the_forecast_at_a_bus_is_its_load_plus_what_the_set_point_lets_in():
    at = power_grid.injections(np.array([-2.0, -20.0, -25.0, 30.0, 40.0, 60.0]), charge=50.0)
    assert at == pytest.approx([16, 28, 0, 15, 20, -35, -25, -15])


def test_an_empty_battery_gives_nothing_and_a_full_one_takes_nothing():
    day = np.array([-1.0, -4.0, 0.0, 0.0, 40.0, 0.0])
    assert power_grid.injections(day, charge=0.0)[5:] == pytest.approx([-10, 0, 0])
    assert power_grid.injections(day, charge=100.0)[5:] == pytest.approx([0, 0, 10])
    assert power_grid.injections(day, charge=1.0)[7] == pytest.approx(1.0 * 0.9 / 0.25)


def test_every_action_picks_the_numbers_of_its_own_set_points():
    x = np.concatenate([np.zeros(3), list(power_grid.SUN.values()), list(power_grid.WIND.values()), [-10.0, 0.0, 10.0]])
    assert np.array_equal(x[power_grid.PICKED], list(power_grid.ACTIONS.values()))


def test_actions_that_do_the_same_have_the_same_features():
    """Without sun its two limits are one; kernel of a point with itself is 1."""
    import gymnasium

    from everystep import features

    bound = features.bind(power_grid.by_action(20, seed=1), gymnasium.spaces.Box(-1.0, 1.0, (11,)), 18)
    x = np.array([0.0, 1.0, 0.2, -0.1, -0.1, 0.3, 0.5, 0.9, -0.3, 0.0, 0.3])
    phi = np.asarray(bound(x[None]))[0]
    assert phi[0] == pytest.approx(phi[3])  # sun 18 MW, all sun
    assert not np.allclose(phi[0], phi[6])  # wind 20 MW, wind 35 MW
    assert (phi**2).sum(1) == pytest.approx(np.ones(18))


# --- with the simulator ---------------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def grid():
    pytest.importorskip("gym_anm", reason="gym-anm, the power grid's simulator, is not installed")
    return power_grid.make()


def played(env, seed, actions):
    rows = [env.reset(seed=seed)[0]]
    for a in actions:
        x, reward, terminated, truncated, info = env.step(a)
        rows.append(np.append(x, (reward, info["constraint"], terminated, truncated)))
    return rows


def test_the_same_seed_gives_the_same_day_and_another_one_another(grid):
    actions = np.random.default_rng(0).integers(0, 18, 96)
    one, two = played(grid, 5, actions), played(grid, 5, actions)
    assert all(np.array_equal(a, b) for a, b in zip(one, two, strict=True))
    assert not np.array_equal(played(grid, 6, [])[0], one[0])
    assert [row[-1] for row in one[1:]] == [0] * 95 + [1]  # truncated after 96 steps
    assert all(grid.observation_space.contains(np.float32(row[:11])) for row in one)


def test_constants_are_those_of_the_network(grid):
    simulator = grid.unwrapped.grid.simulator
    assert {line: 100 * branch.rate for line, branch in simulator.branches.items()} == pytest.approx(power_grid.RATINGS)
    assert {(bus.v_min, bus.v_max) for bus in simulator.buses.values() if not bus.is_slack} == {(0.9, 1.1)}
    battery = simulator.devices[6]
    assert (100 * battery.soc_max, battery.eff, simulator.delta_t) == (
        power_grid.CAPACITY, power_grid.EFFICIENCY, power_grid.HOURS,
    )  # fmt: skip


def test_set_points_are_mapped_as_gym_anm_maps_them(grid):
    other = power_grid.make()
    for device in other.unwrapped.grid.simulator.devices.values():
        vars(device).pop("map_pq", None)  # its own convex problem again
    actions = np.random.default_rng(1).integers(0, 18, 20)
    for a, b in zip(played(grid, 2, actions), played(other, 2, actions), strict=True):
        assert a == pytest.approx(b, abs=1e-6)


def test_the_forecast_is_what_the_simulator_then_does(grid):
    x, _ = grid.reset(seed=3)
    for a in np.random.default_rng(2).integers(0, 18, 30):
        seen = x[power_grid.PICKED[a]] * power_grid.LARGEST
        x = grid.step(a)[0]
        power = grid.unwrapped.grid.simulator.state["bus_p"]["MW"]
        assert [power[3], power[4], power[5]] == pytest.approx(seen, abs=1e-4)
