"""The racetrack against a car that is driven cell by cell in plain Python."""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest

import everystep as es
from everystep.errors import EverystepError
from everystep.experiments import figures
from everystep.mdp import planner
from everystep.problems.racetrack import ACCELERATIONS, MAPS, NAMES, cells_passed

ALLEY = ["S.G"]  # beyond the edges there are walls


def nearest(share):
    """The whole number nearest to a fraction; of two that are equally near, the one nearer to 0."""
    below = share.numerator // share.denominator
    return min((below, below + 1), key=lambda whole: (abs(share - whole), abs(whole)))


def drive(rows, cell, velocity, finish="landing"):
    """One move as the documentation has it: (the cell where it ends, the velocity there, whether a wall was hit)."""
    n, here = max(map(abs, velocity)), cell
    for i in range(1, n + 1):
        there = tuple(at + nearest(Fraction(i * speed, n)) for at, speed in zip(cell, velocity, strict=True))
        outside = not (0 <= there[0] < len(rows) and 0 <= there[1] < len(rows[0]))
        if outside or rows[there[0]][there[1]] == "#":
            return here, (0, 0), True
        here = there
        if finish == "crossing" and rows[here[0]][here[1]] == "G":
            break
    return here, velocity, False


def stepped(rows, top_speed, finish):
    """For every state (cell, velocity), in the order of the problem, what each action does if it does not fail."""
    free = [cell for cell in product(range(len(rows)), range(len(rows[0]))) if rows[cell[0]][cell[1]] != "#"]
    velocities = list(product(range(-top_speed, top_speed + 1), repeat=2))
    number = {state: x for x, state in enumerate(product(free, velocities))}
    clipped = lambda speed: min(max(speed, -top_speed), top_speed)
    table = {}
    for (cell, velocity), a in product(number, ACCELERATIONS):
        new = tuple(clipped(speed + more) for speed, more in zip(velocity, a, strict=True))
        if rows[cell[0]][cell[1]] == "G":
            table[number[cell, velocity], a] = number[cell, velocity], False, False
            continue
        end, kept, hit = drive(rows, cell, new, finish)
        table[number[cell, velocity], a] = number[end, kept], hit, rows[end[0]][end[1]] == "G"
    return number, table


BENDS = ["S..#.", "..#..", ".....", "#..GG"]
CASES = {
    "small": ({"map": "small"}, MAPS["small"].rows, 2, "landing"),
    "bends": ({"map": BENDS, "top_speed": 3, "finish": "crossing"}, BENDS, 3, "crossing"),
    "alley": ({"map": ALLEY, "top_speed": 1}, ALLEY, 1, "landing"),
}


@pytest.mark.parametrize("failure", [0.0, 0.3])
@pytest.mark.parametrize("case", list(CASES))
def test_every_action_in_every_state_does_what_a_car_driven_by_hand_does(case, failure):
    given, rows, top_speed, finish = CASES[case]
    problem = es.problems.racetrack(**given, failure=failure)
    number, table = stepped(rows, top_speed, finish)
    assert problem.states == len(number)
    P, r, g, one = problem.dense_P[0], problem.r[0], problem.g[0, 0], np.eye(problem.states)
    for x, (a, acceleration) in product(range(problem.states), enumerate(ACCELERATIONS)):
        done, failed = table[x, acceleration], table[x, (0, 0)]
        _, risk, reward = ((1 - failure) * one + failure * other for one, other in zip(done, failed, strict=True))
        assert (P[x, a] == (1 - failure) * one[done[0]] + failure * one[failed[0]]).all()
        assert r[x, a] == pytest.approx(reward, abs=1e-15)
        assert g[x, a] == pytest.approx(risk or -1.0, abs=1e-15)


@pytest.mark.parametrize("velocity", list(product(range(-4, 5), repeat=2)))
def test_a_move_passes_the_same_cells_seen_from_any_side(velocity):
    passed = cells_passed(np.array(velocity))
    n = max(map(abs, velocity))
    assert [tuple(cell) for cell in passed] == [
        tuple(nearest(Fraction(i * speed, n)) for speed in velocity) for i in range(1, n + 1)
    ]
    for sign in ((1, -1), (-1, 1)):
        np.testing.assert_array_equal(cells_passed(np.array(velocity) * sign), passed * sign)
    np.testing.assert_array_equal(cells_passed(np.array(velocity[::-1])), passed[:, ::-1])


@pytest.mark.quick
def test_the_small_track_has_725_states_and_107_of_them_have_no_safe_action():
    problem = es.problems.racetrack()
    assert (problem.states, problem.actions, problem.horizon) == (725, 9, 16)
    assert (problem.g[0, 0] > 0).all(1).sum() == 107
    assert problem.describe(int(problem.start[0])) == "the cell in row 2, column 2, at rest"
    assert problem.action_names == NAMES
    assert set(np.unique(problem.g)) == {-1.0, 1.0}


def best_by_hand(problem):
    """C*_1 and V_1 among policies of least harm, (S,) each, from the definitions."""
    r, harm = problem.r[0], problem.g[0, 0].clip(min=0)
    mean = lambda V: (problem.P.probabilities[0] * V[problem.P.states]).sum(-1)
    C, V = np.zeros(problem.states), np.zeros(problem.states)
    for _ in range(problem.horizon):
        G = harm + mean(C)
        C = G.min(1)
        V = np.where(G - C[:, None] <= 1e-12, r + mean(V), -np.inf).max(1)
    return C, V


def test_a_car_can_be_too_fast_for_the_wall_ahead_and_must_brake_before():
    # From a speed of v it takes (v - 1) + ... + 1 cells to stop.
    problem = es.problems.racetrack(map=["S....#G"], top_speed=3, horizon=6)
    C, _ = best_by_hand(problem)
    at = {name: x for x, name in enumerate(problem.state_names)}
    cell = lambda column, speed: at[f"the cell in row 1, column {column}, at velocity (+0, +{speed})"]
    assert C[cell(2, 2)] == 0  # 1 more and 0: it stops in column 3
    assert C[cell(4, 2)] == 0  # 1 more, column 5, and 0
    assert C[cell(5, 2)] == 1  # at least 1 more
    assert C[cell(2, 3)] == 0  # 2 and 1 more: it stops in column 5
    assert C[cell(3, 3)] == 1  # the wall after two steps, though this step has a safe action
    assert (problem.g[0, 0, cell(3, 3)] < 0).any()


def test_from_the_start_of_the_small_track_no_harm_is_unavoidable_and_nothing_is_lost():
    problem = es.problems.racetrack()
    C, V = best_by_hand(problem)
    start = int(problem.start[0])
    assert (C[start], V[start]) == (0, 1)
    assert best_by_hand(es.problems.racetrack(horizon=4))[1][start] == 1
    assert best_by_hand(es.problems.racetrack(horizon=3))[1][start] == 0
    fails = es.problems.racetrack(failure=0.1)
    C, V = best_by_hand(fails)
    assert (C[start], V[start]) == (0, 0)  # only a car that never moves is never in danger
    best, tolerant = planner.solve(fails), planner.solve(fails, tolerance=0.05)
    assert (best.least_violation, best.value) == (0, 0)
    assert tolerant.value == pytest.approx(0.9999999987059863)
    assert planner.evaluate(fails, tolerant.policy).violation == pytest.approx(0.011810108171842202)


@pytest.mark.parametrize("given", [{}, {"failure": 0.3}, {"map": BENDS, "top_speed": 3, "finish": "crossing"}])
def test_the_planner_finds_the_least_harm_and_the_optimum_computed_here(given):
    problem = es.problems.racetrack(**given, horizon=7)
    C, V = best_by_hand(problem)
    best = planner.solve(problem)
    np.testing.assert_allclose(best.C_1, C, atol=1e-12)
    np.testing.assert_allclose(best.V_1, V, atol=1e-12)


def test_the_classic_track_has_a_start_line_and_a_finish_line_that_is_crossed():
    problem = es.problems.racetrack(map="classic")
    assert problem.states == 85 * 49
    np.testing.assert_allclose(problem.start[problem.start > 0], 1 / 4)
    C, V = best_by_hand(problem)
    starts = np.flatnonzero(problem.start > 0)
    np.testing.assert_array_equal(C[starts], 0)
    np.testing.assert_array_equal(V[starts], 1)
    over = es.problems.racetrack(
        map=["S.GG"], top_speed=3
    )  # from column 2, by 3: over the line, beyond which are walls
    fast = over.state_names.index("the cell in row 1, column 2, at velocity (+0, +3)")
    assert over.g[0, 0, fast, NAMES.index("coast")] == 1
    crossed = es.problems.racetrack(map=["S.GG"], top_speed=3, finish="crossing")
    assert crossed.g[0, 0, fast, NAMES.index("coast")] == -1
    assert crossed.r[0, fast, NAMES.index("coast")] == 1
    assert crossed.P.states[fast, NAMES.index("coast"), 0] // 49 == 2


@pytest.mark.parametrize("failure", [0.0, 0.3])
def test_costs_are_a_function_of_the_path_and_few_paths_differ(failure):
    problem = es.problems.racetrack(failure=failure)
    names = ["path", "drift"] if failure else ["path"]
    paths = np.concatenate([problem.coordinates[name] for name in names], -1).reshape(6525, -1)
    which = np.unique(paths, axis=0, return_inverse=True)[1].reshape(-1)
    g = problem.g.reshape(-1)
    for point in range(which.max() + 1):
        assert len(np.unique(g[which == point])) == 1
    if not failure:
        assert which.max() + 1 == 338
    assert set(np.unique(problem.coordinates["path"][:, :, -2:] - problem.coordinates["landing"])) == {0.0}


def test_what_is_observed_of_a_risk_is_a_hit_or_a_near_miss():
    problem = es.problems.racetrack(map=ALLEY, top_speed=1, failure=0.25)
    assert problem.cost_on_arrival is not None
    seen, chances = problem.cost_on_arrival[0, 0], problem.P.probabilities[0]
    fast = problem.state_names.index("the cell in row 1, column 1, at velocity (+0, -1)")
    right, left = NAMES.index("right"), NAMES.index("left")
    # To the right: at rest with 0.75; with 0.25 the car keeps moving left, into the wall, and is at rest there, too.
    assert problem.g[0, 0, fast, right] == 0.25
    np.testing.assert_allclose(seen[fast, right][chances[fast, right] > 0], 0.25)
    assert problem.g[0, 0, fast, left] == 1
    middle = problem.state_names.index(
        "the cell in row 1, column 2, at velocity (+0, +0)".replace("velocity (+0, +0)", "rest")
    )
    up = NAMES.index("up")  # a wall with 0.75, where the car stays, or nothing
    assert problem.g[0, 0, middle, up] == 0.75


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"map": ["S.H", "..G"]}, "^row 1, column 3 is 'H'"),
        ({"map": ["S..", ".G"]}, "^row 2 has 2 cells, row 1 has 3"),
        ({"map": ["...", "..G"]}, r"^the map has no cell S\. Give it a start\.$"),
        ({"map": "S..\n..."}, r"^the map has no cell G\. Give it a goal\.$"),
        ({"map": []}, r"^the map is empty\. Draw it as rows of S, F, G and #\.$"),
        ({"map": 3}, r"^rows is 3; give a list\.$"),
        (
            {"map": "big"},
            "^map is 'big'",
        ),
        ({"map": "none.track"}, r"^problem 'none\.track': the file cannot be opened \(No such file or directory\)"),
        ({"top_speed": 0}, r"^top_speed is 0; give a whole number of at least 1\.$"),
        ({"top_speed": 8}, r"^top_speed is 8; give a whole number from 1 to 7\.$"),
        ({"failure": 1.5}, r"^failure is 1\.5; give a number from 0 to 1\.$"),
        ({"finish": "there"}, r"^finish is 'there'; choose landing or crossing\.$"),
        ({"horizon": 0}, r"^horizon is 0; give a whole number of at least 1\.$"),
    ],
)
def test_what_is_no_racetrack_is_refused_in_one_sentence(given, sentence):
    with pytest.raises(EverystepError, match=sentence):
        es.problems.racetrack(**given)


def test_a_track_that_does_not_fit_into_memory_is_refused_before_it_is_made(monkeypatch):
    monkeypatch.setattr("everystep.runtime.memory.free_memory", lambda: 1e9)
    with pytest.raises(EverystepError, match=r"^cells is 250000: .* GB"):
        es.problems.racetrack(map=["S" * 499 + "G"] * 500)


@pytest.mark.parametrize(
    ("rows", "horizon", "words"),
    [
        (["S#G"], 16, "no path leads from S to G: the goal can never be reached."),
        (["S....G"], 2, "the horizon 2 is shorter than the 3 steps from S to G: the goal can never be reached."),
        (["S....G"], 3, None),
    ],
)
def test_a_goal_out_of_reach_is_remarked(rows, horizon, words):
    assert es.problems.racetrack(map=rows, horizon=horizon).remarks == (() if words is None else (words,))


def test_a_track_of_the_users_own_is_read_from_a_file(tmp_path):
    path = tmp_path / "mine.track"
    path.write_text("S.#\n..G\n", encoding="utf-8")
    problem = es.problems.load(str(path), horizon=7)
    assert (problem.name, problem.horizon, problem.states) == ("mine", 7, 5 * 25)
    text = path.rename(tmp_path / "mine.txt")
    assert es.problems.racetrack(map=text, failure=0.1).grid.rows == ("S.#", "..G")
    text.write_text("S.#\n.?G\n", encoding="utf-8")
    with pytest.raises(EverystepError, match=r"mine\.txt': row 2, column 2 is '\?'"):
        es.problems.racetrack(map=str(text))
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(EverystepError, match=r"mine\.track': .* text"):
        es.problems.load(str(path))


def test_the_car_is_drawn_on_its_cell():
    problem = es.problems.racetrack(map=["S..G"], horizon=4)
    env = es.gym.make_env(problem, render_mode="ansi")
    env.reset(seed=0)
    assert "[S] .  .  G " in env.render()
    env.step(NAMES.index("right"))
    env.step(NAMES.index("right"))
    assert " S  .  . [G]" in env.render()
    assert "the cell in row 1, column 4, at velocity (+0, +2)" in env.render()


def test_maps_and_visits_of_a_run_are_drawn_by_cell():
    problem = es.problems.racetrack()
    (line,) = (each for each in figures.lake_map(problem).axes[0].lines if len(each.get_xdata()) == 17)
    assert (line.get_xdata()[0], line.get_ydata()[0], line.get_xdata()[-1], line.get_ydata()[-1]) == (1, 1, 8, 4)
    visits = np.zeros(725)
    visits[:25] = 2.0  # all velocities in the first free cell
    drawn = figures.heatmap(problem.grid, {"lsvi-ae": visits}, 1, 1).axes[0].images[0].get_array()
    assert drawn.shape == (6, 10)
    assert drawn[1, 1] == 50
    assert drawn.sum() == pytest.approx(50 + 0.1 * 59)
