"""examples/applications: how a run is measured, the advantages of harm, and the results that are kept."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from environments_for_tests.falls import Counter

sys.path.append(str(Path(__file__).parents[2] / "examples" / "applications"))
import advantages
import application

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.quick


APP = application.Application(
    "counter", "Counting", Counter, "units", low=(0.0,), high=(10.0,), length=4, steps=10, horizon=2, ours={}, rivals={}
)


def scripted(actions):
    """A system that plays `actions` while it learns, and ends with a policy that is safe until its third step."""

    def learn(app, recorder, steps, seed, settings):
        over = True
        for action in actions[:steps]:
            if over:
                recorder.reset()
            _, _, terminated, truncated, _ = recorder.step(action)
            over = terminated or truncated
        return lambda x, step: int(step == 2)

    return application.System("scripted", "rival", learn, lambda app: {"a": 1}, price=3.0)


def test_a_row_counts_harm_of_every_step_and_evaluates_the_final_policy():
    row = application.run(APP, scripted([0, 1, 0, 0, 0, 0, 1, 0, 0, 0]), seed=3)
    assert (row["harm"], row["unsafe_steps"], row["last_violation"]) == (1.0, 2, 7)
    assert (row["final_return"], row["final_harm"]) == (3.0, 0.5)  # three steps, the last of them unsafe
    assert row["harm_curve"][-1] == row["harm"]
    assert row["harm_curve"][:20] == [0.0] * 19 + [0.5]  # a point for each hundredth: step 2 is the twentieth
    assert np.nanmax(row["return_curve"]) == 4
    assert json.loads(row["settings"]) == {"a": 1}
    assert row["command"].endswith("counter.py --systems scripted --seeds 3:4")


def test_networks_see_scaled_observations_and_pay_the_price():
    recorder = application.Recorder(APP, price=3.0, scaled=True)
    assert recorder.reset()[0] == pytest.approx([-1.0])
    x, reward, *_ = recorder.step(1)
    assert x == pytest.approx([-0.8])
    assert reward == 1 - 3 * 0.5
    assert (recorder.rewards, recorder.harm) == ([1.0], [0.5])  # measured without it


def test_advantages_of_harm_are_discounted_sums_of_errors_within_an_episode():
    rng = np.random.default_rng(0)
    n, envs, gamma, lam = 7, 2, 0.9, 0.8
    harm, values, after = rng.random((n, envs)), rng.random((n, envs)), rng.random(envs)
    starts, ended = (rng.random((n, envs)) < 0.3).astype(float), np.array([0.0, 1.0])
    found = advantages.advantages(harm, values, after, starts, ended, gamma, lam)
    for e in range(envs):
        new = [*starts[1:, e], ended[e]]
        ahead = [*values[1:, e], after[e]]
        delta = [harm[t, e] + (0 if new[t] else gamma * ahead[t]) - values[t, e] for t in range(n)]
        for t in range(n):
            total, weight = 0.0, 1.0
            for k in range(t, n):
                total += weight * delta[k]
                if new[k]:
                    break
                weight *= gamma * lam
            assert found[t, e] == pytest.approx(total)


def test_the_kept_results_have_the_columns_of_the_format():
    from everystep.reports.leaderboard import results_files

    files = sorted((ROOT / "examples" / "applications" / "results").glob("*.parquet"))
    assert files
    for path in files:
        table = results_files.read([path])
        assert set(table.column("problem").to_pylist()) == {path.stem}


def test_a_volume_leads_into_a_set_if_all_that_can_follow_are_in_it():
    import oil_pump

    kept = np.random.default_rng(1).random(60) < 0.8
    for change, spread in ((0.05, 0.02), (-0.11, 0.0), (0.3, 0.02)):
        found = oil_pump.leads_into(kept, change, spread)
        for cell in range(60):
            low, high = (cell + (change - spread) / oil_pump.CELL), (cell + (change + spread) / oil_pump.CELL)
            stays = lambda first, last: all(0 <= each < 60 and kept[each] for each in range(first, last + 1))
            assert not found[cell] or stays(int(np.ceil(low - 1e-9)), int(np.floor(high + 1e-9)))
            assert found[cell] or not stays(int(np.floor(low)) - 1, int(np.ceil(high)) + 1)  # rounded outwards


def test_the_closest_two_braking_cars_come_is_that_of_the_simulated_motion():
    import cruise_control

    for v_ego, v_front, distance in ((10.0, 4.0, 30.0), (0.0, 0.0, 10.0), (20.0, -8.0, 200.0), (-10.0, 20.0, 5.0)):
        ego, front, gap, least = v_ego, v_front, distance, distance
        for _ in range(40):  # seconds, until both drive backwards as fast as they can
            before = front - ego
            ego, front = max(ego - 2, -10.0), max(front - 2, -8.0)
            gap += (before + front - ego) / 2
            least = min(least, gap)
        assert cruise_control.closest(v_ego, v_front, distance) == pytest.approx(least)


def test_where_actions_lead_is_what_the_simulators_do_to_the_own_car_and_the_pump():
    """Against the formulas of uppaal-gym, written out here: nothing is known of the car ahead and of the machine."""
    import cruise_control
    import oil_pump

    rng = np.random.default_rng(2)
    for _ in range(50):
        v_ego, v_front, distance = rng.integers(-5, 11) * 2.0, rng.integers(-4, 11) * 2.0, rng.uniform(0, 200)
        led = cruise_control.after(np.array([v_ego, v_front, distance, 7.0]))
        for action, change in enumerate((-2.0, 2.0, 0.0)):
            ego = min(max(v_ego + change, -10.0), 20.0)
            assert led[action].tolist() == pytest.approx([v_front - ego, ego, distance + v_front - (v_ego + ego) / 2])
        t, volume, runs, wait = rng.uniform(0, 20), rng.uniform(5, 25), rng.integers(2), rng.choice([-0.2, 0.0, 1.4])
        for action, row in enumerate(oil_pump.after(np.array([t, volume, runs, wait]))):
            switches = action != runs and wait <= 0
            assert row == pytest.approx([t, volume, action if switches else runs, 1.8 if switches else wait - 0.2])


def test_the_excess_current_of_the_motor_is_linear_in_its_features():
    """i' = decay i + 0.15 u_a - 0.02: one weight vector fits g = |i'| - 1 of all positions, where i keeps its side."""
    import electric_motor

    phi = electric_motor.outward().settings["f"]
    currents = np.concatenate([np.linspace(-1.1, -0.45, 20), np.linspace(0.45, 1.1, 20)])
    features = np.concatenate([phi(np.array([i, 0.0, -i])) for i in currents])
    g = np.concatenate([np.abs(0.99 * i + 0.15 * electric_motor.VOLTAGE - 0.02) - 1 for i in currents])
    fitted = features @ np.linalg.lstsq(features, g, rcond=None)[0]
    np.testing.assert_allclose(fitted, g, atol=1e-12)
    assert np.linalg.norm(features, axis=1).max() <= 1


def test_features_of_driving_say_how_much_of_the_gap_will_be_missing():
    import driving

    lanes = [[0.5, 0.2, -0.37, 0.0, 0.0], [0.5, 0.2, -0.37, 0.0, 0.0], [1.0, 0.0, -1.0, 0.0, 1.0]]  # own, left, right
    x = np.array([1, 0, 0, 0.0, *np.concatenate(lanes)])  # in the leftmost lane, at 25 m/s
    features = 6 * driving.by_action().settings["f"](x)
    np.testing.assert_array_equal(features[0], features[1])  # further left is going on
    gap, closing = 30.0 - 3.0 - 2.5, 3.0 + 5.0  # one second after "faster": 30 m ahead, closing at 3 m/s
    np.testing.assert_allclose(features[3, 1:3], [(10 + 3 * closing - gap) / 30, (10 + 3 * closing - gap + 8) / 30])
    assert features[2, 1] == -1  # the right lane is free
    assert features[2, 7] == 1  # but a car is beside


def test_a_car_that_may_cut_in_counts_by_what_would_be_missing_then():
    import driving

    lanes = [[1.0, 0.0, -1.0, 0.0, 0.0], [0.4, 0.4, 0.13, 0.13, 0.0], [1.0, 0.0, -1.0, 0.0, 0.0]]  # own, left, right
    x = np.array([0, 1, 0, 0.0, *np.concatenate(lanes)])  # in the middle, at 25 m/s; a slower car ahead on the left
    led = driving.prospect(x)
    gap, closing = 24.0 - 6.0, 6.0  # after a second at the same speed: it is 24 m ahead, closing at 6 m/s
    assert led.cut_in[0, 1] == pytest.approx((10 + 3 * closing - gap) / 30)
    assert led.cut_in[0, 3] > led.cut_in[0, 1] > led.cut_in[0, 4] == 0  # faster, as it is, slower
    assert led.short[0].tolist() == [pytest.approx(led.cut_in[0, 1]), -1, -1, -1, -1]  # own and right lane are free
    leftmost = np.array([1, 0, 0, 0.0, *np.concatenate([lanes[1], lanes[1], lanes[0]])])  # no lane is further left
    assert driving.prospect(leftmost).cut_in[0, 1] == 0


def test_features_of_the_costs_of_driving_have_a_norm_of_at_most_one():
    import driving

    phi = driving.by_gap().settings["f"]
    closest = [0.02, 1.0, 1.0, 1.0, 1.0]  # a gap of 1.2 m, closing at 15 m/s, and a car beside
    assert 0.9 < np.linalg.norm(phi(np.array([0, 1, 0, 0.5, *closest * 3])), axis=1).max() <= 1


def test_the_cost_of_the_oil_pump_depends_on_the_volume_and_the_pump_alone():
    import oil_pump

    locked, free = (
        oil_pump.volume_after(np.array([3.0, 5.5, 0, 1.0])),
        oil_pump.volume_after(np.array([9.0, 5.5, 0, 0])),
    )
    assert locked == [[5.5, 0], [5.5, 0]]  # at any time, and whatever is asked for while the pump does not obey
    assert free == [[5.5, 0], [5.5, 1]]


def test_the_setting_with_the_least_harm_is_chosen_among_those_that_return_enough():
    import tuning

    def row(setting, harm, final_return):
        return {"settings": json.dumps({"gamma": 0.98, **setting}), "harm": harm, "final_return": final_return}

    first, second, third, *_ = tuning.GRID
    rows = [row(first, 1.0, 80.0), row(first, 1.0, 98.0), row(second, 2.0, 92.0), row(second, 4.0, 90.0)]
    rows += [row(third, 9.0, 100.0), row(third, 7.0, 100.0)]
    assert tuning.chosen(rows) == (tuple(second.items()), 3.0, 91.0)  # the first returns 89 %


def test_features_of_the_power_grid_add_up_what_hangs_behind_each_line():
    import power_grid

    x = np.array([0.0, 1.0, 0.2, 0.1, 0.4, 0.2, 0.5, 0.6, -0.6, -0.3, -0.1])
    features = 6 * power_grid.by_line().settings["f"](x)
    chosen = power_grid.NAMES.index("wind 35 MW, all sun, discharge")
    np.testing.assert_allclose(features[chosen, :6], [1, 0.4, 0.5, 0.1, 0.4, 0.8])
