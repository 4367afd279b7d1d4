"""States and actions as cells and moves, against loops over every state and action."""

from itertools import product

import numpy as np
import pytest

import everystep as es
from everystep.experiments import experiment
from everystep.problems import racetrack_from
from everystep.web import watch
from everystep.web.drawing import MIXED, NO_MOVE, SAFE, UNKNOWN, UNSAFE, Drawing

ROWS = ("S.#", "..G")
TRACK = racetrack_from(ROWS, top_speed=2, horizon=6, name="track")
CELLS = [0, 1, 3, 4, 5]
SPEEDS = range(-2, 3)
VELOCITIES = list(product(SPEEDS, repeat=2))
ACCELERATIONS = list(product((-1, 0, 1), repeat=2))
clip = lambda speed: min(max(speed, -2), 2)


def launched(x, a):
    """The cell of state x, and the velocity with which action a leaves it; a goal is never left."""
    cell, velocity = CELLS[x // 25], VELOCITIES[x % 25]
    if cell == 5:
        return cell, (0, 0)
    return cell, tuple(clip(v + more) for v, more in zip(velocity, ACCELERATIONS[a], strict=True))


@pytest.fixture(scope="module")
def drawing():
    return Drawing(TRACK)


@pytest.mark.quick
def test_the_moves_of_a_racetrack_are_its_velocities(drawing):
    assert [(move.down, move.right) for move in drawing.moves] == VELOCITIES
    assert (drawing.top_speed, drawing.shares_cells) == (2, True)
    names = {(move.down, move.right): move.name for move in drawing.moves}
    assert (names[0, 0], names[-1, 0], names[2, 1], names[0, -2]) == ("stay", "1 up", "2 down, 1 right", "2 left")
    assert drawing.cells([0, 24, 25, 124]) == [0, 0, 1, 5]


def test_visits_of_a_cell_are_those_of_all_its_velocities(drawing):
    visits = np.random.default_rng(0).integers(0, 9, TRACK.states)
    expected = np.zeros(6, int)
    for x, count in enumerate(visits):
        expected[CELLS[x // 25]] += count
    np.testing.assert_array_equal(drawing.visits(visits), expected)


def test_a_move_is_unsafe_if_any_state_shows_it_and_safe_if_any_does_and_none_the_contrary(drawing):
    labels = (
        np.random.default_rng(1).choice([UNKNOWN, UNKNOWN, UNKNOWN, SAFE, UNSAFE], (TRACK.states, 9)).astype(np.uint8)
    )
    seen = {}
    for x, a in product(range(TRACK.states), range(9)):
        seen.setdefault(launched(x, a), set()).add(int(labels[x, a]))
    drawn = drawing.labels(labels)
    assert drawn.shape == (6, 25)
    for cell, (w, velocity) in product(range(6), enumerate(VELOCITIES)):
        found = seen.get((cell, velocity))
        expected = NO_MOVE if found is None else UNSAFE if UNSAFE in found else SAFE if SAFE in found else UNKNOWN
        assert drawn[cell, w] == expected


def test_the_truth_is_shown_for_each_move(drawing):
    drawn = drawing.safe(watch.truly_safe(TRACK))
    for x, a in product(range(TRACK.states), range(9)):
        cell, velocity = launched(x, a)
        assert drawn[cell, VELOCITIES.index(velocity)] == (TRACK.g[0, 0, x, a] <= 0)
    assert drawn[2].all()  # nothing is known of a wall
    assert drawn[0, VELOCITIES.index((0, 1))] == 1
    assert drawn[0, VELOCITIES.index((0, 2))] == 0


def test_the_plan_of_a_cell_is_that_of_its_most_visited_velocity_or_at_rest(drawing):
    rng = np.random.default_rng(2)
    policy = rng.integers(0, 9, (TRACK.horizon, TRACK.states)).astype(np.uint8)
    visits = np.zeros(TRACK.states, int)
    fast = VELOCITIES.index((1, -2))
    visits[25 + fast], visits[25 + 3] = 7, 6  # in cell 1
    policy[2, 25 + fast] = MIXED
    drawn = drawing.policy(policy, visits)
    assert drawn.shape == (TRACK.horizon, 6)
    for h, (i, cell) in product(range(TRACK.horizon), enumerate(CELLS)):
        x = 25 * i + (fast if cell == 1 else VELOCITIES.index((0, 0)))
        expected = MIXED if policy[h, x] == MIXED else VELOCITIES.index(launched(x, policy[h, x])[1])
        assert drawn[h, cell] == expected
    assert (drawn[:, 2] == MIXED).all()


def test_the_path_of_a_plan_is_the_episode_that_it_makes_most_likely(drawing):
    best = es.planner.solve(TRACK)
    policy = best.policy.astype(np.uint8)
    expected = [CELLS[x // 25] for x in es.planner.most_likely_states(TRACK, best)]
    assert drawing.path(policy) == expected
    assert expected[-1] == 5
    start = int(TRACK.start[0])
    policy[0, start] = MIXED
    assert drawing.path(policy) == [0]


def test_frames_of_a_racetrack_hold_cells_and_moves(drawing):
    player = watch.Player(experiment.prepare(TRACK, "lsvi-ahead", 6, 1), "lsvi-ahead", 0)
    _, frame = player.advance(6)
    content = frame.to_json(drawing)
    assert sum(content["visits"]) == 6 * TRACK.horizon
    assert content["visits"][2] == 0
    assert len(content["violations"]) == len(frame.violations) > 0
    for (_, _, cell, move, amount), (_, _, x, a, same) in zip(content["violations"], frame.violations, strict=True):
        assert (cell, VELOCITIES[move], amount) == (*launched(x, a), same)
    assert content["path"][0] == 0
    scene = watch.scene(TRACK)
    assert (scene["starts"], scene["goals"], scene["walls"], scene["route"][-1]) == ([0], [5], [2], 5)


def test_on_a_lake_states_and_actions_are_drawn_as_they_are():
    lake = es.problems.from_map(["SH", "FG"], horizon=3)
    drawing = Drawing(lake)
    array = np.arange(16, dtype=np.uint8).reshape(4, 4) % 3
    np.testing.assert_array_equal(drawing.labels(array), array)
    np.testing.assert_array_equal(drawing.policy(array, np.zeros(4)), array)
    assert drawing.path(array) is None
    assert [(move.name, move.down, move.right) for move in drawing.moves][:2] == [("left", 0, -1), ("down", 1, 0)]
