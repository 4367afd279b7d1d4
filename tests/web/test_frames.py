"""Frames of a learning agent: the run itself, paused, bit for bit."""

import numpy as np
import pytest

from everystep.agents import Recipe
from everystep.experiments import experiment
from everystep.mdp import planner
from everystep.mdp.cmdp import FiniteCMDP, Grid
from everystep.problems import from_map, streaming
from everystep.web import watch
from everystep.web.drawing import Drawing

POND = from_map(["SFFF", "FHFH", "F.#G"], horizon=8, name="pond")
AGENTS = (
    Recipe("lsvi-ae"),
    Recipe("lsvi"),
    # plans rarely, and fits its kernel between pauses
    Recipe("lsvi-ae", {"switch": 2.0, "cost": "gp(rbf(1, on=landing))"}).called("rare"),
)
EPISODES = 20


@pytest.fixture(scope="module")
def prepared():
    return experiment.prepare(POND, AGENTS, EPISODES, [3, 5])


@pytest.fixture(scope="module")
def result(prepared):
    return prepared.run()


@pytest.fixture(scope="module")
def films(prepared):
    return {label: watch.film(watch.Player(prepared, label, 5), [0, 1, 2, 6, 7, 15, 20]) for label in prepared.agents}


@pytest.mark.parametrize("label", ["lsvi-ae", "lsvi", "rare"])
def test_a_run_that_is_recorded_and_paused_is_the_run_bit_for_bit(result, films, label):
    kept, film = result.columns[label], films[label]
    assert set(kept) == set(film.columns)
    for name, curve in kept.items():
        assert np.array_equal(curve[1], film.columns[name]), name
    assert np.array_equal(result.visits[f"{label}_end"][1], film.frames[-1].visits)


@pytest.mark.parametrize("label", ["lsvi-ae", "lsvi"])
def test_every_unsafe_step_is_recorded_once_with_its_place(result, films, label):
    violations = [each for frame in films[label].frames for each in frame.violations]
    by_episode = np.zeros(EPISODES)
    for episode, h, x, a, amount in violations:
        assert 1 <= h <= POND.horizon
        assert amount == max(POND.g[0, 0, x, a], 0) > 0
        by_episode[episode - 1] += amount
    assert np.array_equal(by_episode, result.columns[label]["violation"][1])
    assert len(violations) == result.columns[label]["unsafe_steps"][1].sum()
    ends = [frame.episode for frame in films[label].frames]
    for start, frame in zip([0, *ends], films[label].frames, strict=False):
        assert all(start < episode <= frame.episode for episode, *_ in frame.violations)


def test_labels_at_the_end_are_those_of_the_run_folder(result, films):
    lower, upper = (result.certificates[f"lsvi-ae_{end}"][1, 0, 0] for end in ("lower", "upper"))
    labels = films["lsvi-ae"].frames[-1].labels
    assert np.array_equal(labels == watch.SAFE, upper <= 0)
    assert np.array_equal(labels == watch.UNSAFE, lower > 0)
    assert (labels == watch.UNSAFE).any()


def test_an_agent_without_a_cost_model_has_no_labels(films):
    assert films["lsvi"].frames[-1].labels is None
    assert films["lsvi"].frames[-1].to_json(Drawing(POND))["labels"] is None


def test_prices_start_where_the_penalty_starts(films):
    prices = films["lsvi-ae"].prices
    assert prices.shape == (EPISODES, 1, POND.horizon)
    assert (prices[0] == 1).all()
    assert (np.diff(prices, axis=0) >= 0).all()
    assert not films["lsvi"].prices.any()


def test_the_policy_shown_is_what_the_coming_episode_does():
    lane = FiniteCMDP(  # deterministic, so that a policy determines its path
        np.eye(4)[[[0, 1], [0, 2], [1, 3], [3, 3]]], [[0, 0], [0, 0], [0, 1.0], [0, 0]], -np.ones((4, 2)),
        horizon=5, grid=Grid(("SFFG",)),
    )  # fmt: skip
    player = watch.Player(experiment.prepare(lane, "lsvi-ae", 9, 1), "lsvi-ae", 0)
    _, before = player.advance(0)
    for _ in range(9):
        x, went = 0, np.zeros(4, int)
        for h in range(5):
            went[x] += 1
            x = int(lane.dense_P[0, x, before.policy[h, x]].argmax())
        _, after = player.advance(1)
        assert np.array_equal(after.visits - before.visits, went)
        before = after
    assert [(each["down"], each["right"]) for each in watch.scene(lane)["actions"]] == [(0, -1), (0, 1)]


def test_a_plan_that_mixes_all_actions_shows_none():
    _, frame = watch.Player(experiment.prepare(POND, "uniform", 2, 1), "uniform", 0).advance(1)
    assert (frame.policy == watch.MIXED).all()


@pytest.mark.quick
def test_a_scene_holds_the_map_and_the_path_of_the_safe_optimum():
    scene = watch.scene(POND)
    assert (scene["width"], scene["height"]) == (4, 3)
    assert (scene["starts"], scene["goals"], scene["hazards"], scene["walls"]) == ([0], [11], [5, 7], [10])
    assert [each["name"] for each in scene["actions"]] == ["left", "down", "right", "up"]
    assert [(each["down"], each["right"]) for each in scene["actions"]] == [(0, -1), (1, 0), (0, 1), (-1, 0)]
    assert scene["route"][0] == 0
    assert len(scene["route"]) == POND.horizon + 1
    assert scene["optimal_value"] == planner.solve(POND).value
    assert watch.scene(streaming()) is None


@pytest.mark.quick
def test_moments_span_the_run_and_are_denser_at_the_beginning():
    when = watch.moments(1000, 120)
    assert (when[0], when[-1]) == (0, 1000)
    assert len(when) <= 120
    assert when[:5] == [0, 1, 2, 3, 4]
    assert (np.diff(when, 2) >= -1).all()
    assert watch.moments(3, 120) == [0, 1, 2, 3]


def test_a_player_at_the_end_of_its_run_does_not_advance(prepared):
    player = watch.Player(prepared, "lsvi", 5)
    stretch, frame = player.advance(EPISODES + 100)
    assert frame.episode == EPISODES == len(stretch.columns["value"])
    stretch, frame = player.advance(1)
    assert (frame.episode, frame.violations, stretch.columns) == (EPISODES, [], {})
