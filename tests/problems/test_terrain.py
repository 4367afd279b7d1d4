"""Terrains: drawn hills and given heights, the moves that are unsafe, and the kernel that fits their costs."""

import os
import pickle
import re
from contextlib import suppress
from itertools import permutations

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.image import imsave

import everystep as es
from everystep.cli import main
from everystep.errors import EverystepError
from everystep.experiments import figures
from everystep.mdp import planner
from everystep.mdp.arrays import save_problem
from everystep.mdp.cmdp import Grid
from everystep.mdp.world import step
from everystep.problems import load, terrain, terrain_from
from everystep.problems.terrain import covariance_root

LEFT, DOWN, RIGHT, UP = range(4)
MOVES = {LEFT: (0, -1), DOWN: (1, 0), RIGHT: (0, 1), UP: (-1, 0)}
SEEDS = range(8)
NUMBER = r"([\d.e+-]+)"


@pytest.fixture(scope="module")
def hills():
    return terrain()


def aims(problem):
    """(cell, action, cell aimed at) of every move, found on the drawing itself."""
    rows, width = problem.grid.rows, problem.grid.width
    for x in range(problem.states):
        for a, (down, right) in MOVES.items():
            row, column = x // width + down, x % width + right
            inside = 0 <= row < len(rows) and 0 <= column < width
            yield x, a, row * width + column if inside else x


def goal_of(problem):
    return "".join(problem.grid.rows).index("G")


def shortest(problem, safe):
    """The steps of a shortest route from S to G, by trying ever longer ones."""
    unsafe = problem.g[0, 0] > 0
    here, steps = {int(problem.start[0])}, 0
    while goal_of(problem) not in here:
        steps += 1
        wider = here | {y for x, a, y in aims(problem) if x in here and not (safe and unsafe[x, a])}
        if wider == here:
            return np.inf
        here = wider
    return steps


@pytest.mark.quick
def test_the_terrain_has_the_two_optima_of_its_documentation(hills):
    assert planner.solve(hills).value == pytest.approx(5.6018542360537, abs=1e-9)
    assert planner.solve(hills, safe=False).value == pytest.approx(6.2499993233186, abs=1e-9)


def test_a_seed_draws_the_same_terrain_every_time_and_another_seed_another(hills):
    again, other = terrain(0), terrain(1)
    for name in ("dense_P", "r", "g", "start"):
        np.testing.assert_array_equal(getattr(again, name), getattr(hills, name))
    assert again.kernel == hills.kernel
    assert (hills.name, other.name) == ("terrain-0", "terrain-1")
    assert np.abs(other.g - hills.g).max() > 0.1


def test_the_terrain_has_the_sizes_it_was_asked_for(hills):
    assert (hills.states, hills.actions, hills.horizon, hills.constraints) == (144, 4, 26, 1)
    small = terrain(3, size=8, horizon=18)
    assert (small.states, small.horizon, small.grid.heights.shape) == (64, 18, (8, 8))
    assert hills.stationary
    assert hills.check(cap=26) == ()


@pytest.mark.parametrize("seed", SEEDS)
def test_climbing_beyond_the_limit_is_unsafe_and_nothing_else_is(seed):
    problem = terrain(seed)
    heights, g, goal = problem.grid.heights.reshape(-1), problem.g[0, 0], goal_of(problem)
    constant, weight = constants(problem.kernel)
    limit, scale = np.sqrt(constant / weight), weight**-0.5
    for x, a, y in aims(problem):
        slope = 0 if x == goal else heights[y] - heights[x]
        assert g[x, a] == pytest.approx((slope - limit) / scale, abs=1e-5)
    assert np.abs(g).max() == pytest.approx(1)
    between_cells = [(x, a) for x, a, y in aims(problem) if x != y]
    assert np.mean([g[x, a] > 0 for x, a in between_cells]) == pytest.approx(0.2, abs=0.01)


@pytest.mark.parametrize("seed", SEEDS)
def test_every_cell_has_a_safe_action_and_a_safe_route_leaves_three_steps_to_spare(seed):
    problem = terrain(seed)
    assert (problem.g[0, 0] <= 0).any(1).all()
    steps = shortest(problem, safe=True)
    assert 0.6 * 26 <= steps <= 26 - 3
    assert steps >= shortest(problem, safe=False) + 4


def test_safety_has_its_price_on_most_terrains():
    price = [planner.solve(terrain(seed), safe=False).value - planner.solve(terrain(seed)).value for seed in SEEDS]
    assert np.mean(np.array(price) > 0.3) >= 0.75
    assert planner.evaluate(terrain(), planner.solve(terrain()).policy).violation == 0


@pytest.mark.parametrize("seed", SEEDS)
def test_moves_slip_as_on_the_lake_and_the_edge_keeps_the_place(seed):
    problem = terrain(seed)
    aim = {(x, a): y for x, a, y in aims(problem)}
    want = np.zeros((144, 4, 144))
    for (x, a), y in aim.items():
        want[x, a, y] += 0.9
        want[x, a, aim[x, (a + 1) % 4]] += 0.05
        want[x, a, aim[x, (a + 3) % 4]] += 0.05
    want[goal_of(problem)] = np.eye(144)[goal_of(problem)]
    np.testing.assert_allclose(problem.dense_P[0], want, rtol=0, atol=1e-15)


def test_entering_the_goal_pays_six_and_every_other_step_a_hundredth(hills):
    goal = goal_of(hills)
    np.testing.assert_array_equal(hills.r[0, goal], 0.01)
    entering = hills.dense_P[0, :, :, goal].copy()
    entering[goal] = 0
    np.testing.assert_allclose(hills.r[0], 6 * entering + 0.01 * (1 - entering), rtol=0, atol=1e-12)
    arrived = step(hills.world, 0, goal - 12, DOWN, 0.5, 0.0, 0.0)
    assert (int(arrived.x_next), arrived.reward) == (goal, 6.0)


def test_at_the_goal_every_action_keeps_the_place_and_is_as_safe_as_level_ground(hills):
    goal, move = goal_of(hills), hills.coordinates["move"]
    np.testing.assert_array_equal(move[goal, :, :2], move[goal, :, 2:])
    corner = hills.g[0, 0, 0, LEFT]  # against the edge
    assert corner < 0
    np.testing.assert_array_equal(hills.g[0, 0, goal], corner)


def test_costs_are_seen_as_they_are_or_with_the_noise_asked_for(hills):
    assert hills.world.cost_sigma is None
    noisy = terrain(sigma=0.1)
    np.testing.assert_array_equal(noisy.g, hills.g)
    seen = step(noisy.world, 0, 5, LEFT, 0.5, 0.0, 2.0)
    np.testing.assert_allclose(seen.cost, noisy.g[0, :, 5, LEFT] + 0.2)


def test_a_limit_of_ones_own_is_kept_and_a_higher_one_forbids_less():
    low, high = terrain(2, limit=0.2), terrain(2, limit=0.35)
    for problem, limit in ((low, 0.2), (high, 0.35)):
        constant, weight = constants(problem.kernel)
        assert np.sqrt(constant / weight) == pytest.approx(limit, rel=1e-4)
    assert (high.g > 0).mean() < (low.g > 0).mean()


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"seed": -1}, "seed is -1; give a whole number of at least 0."),
        ({"size": 1}, "size is 1; give a whole number of at least 2."),
        ({"size": 301}, "size is 301; give at most 300."),
        ({"length": 0}, "length is 0; give a number from 0.1 to 100."),
        ({"length": "long"}, "length is long; give a number from 0.1 to 100."),
        ({"limit": -0.1}, "limit is -0.1; give a number of at least 0."),
        ({"limit": np.nan}, "limit is nan; give a number of at least 0."),
        ({"horizon": 3}, "horizon is 3; give a whole number of at least 4."),
        ({"sigma": -1}, "sigma is -1; give a number from 0 to 1e+06."),
        ({"size": 3}, "no terrain of size 3 with length 3 fits a horizon of 26; change one of them."),
        (
            {"size": 3, "limit": 9},
            "no terrain of size 3 with length 3 and limit 9 fits a horizon of 26; change one of them.",
        ),
    ],
)
def test_what_cannot_be_drawn_is_refused_in_one_sentence(settings, sentence):
    with pytest.raises(EverystepError) as error:
        terrain(**settings)
    assert str(error.value) == sentence


def constants(kernel):
    """(constant, weight) of the kernel's text."""
    found = re.fullmatch(rf"constant\({NUMBER}\) \+ {NUMBER}\*difference\(rbf\({NUMBER}\), on=move\)", kernel)
    return float(found[1]), float(found[2])


def gram(problem, length=3.0):
    """constant + weight * (k(q, q') - k(q, p') - k(p, q') + k(p, p')) of all moves (p, q)."""
    constant, weight = constants(problem.kernel)
    move = problem.coordinates["move"].reshape(-1, 4)
    p, q = move[:, :2], move[:, 2:]
    k = lambda y, z: np.exp(-((y[:, None] - z) ** 2).sum(-1) / (2 * length**2))
    return constant + weight * (k(q, q) - k(q, p) - k(p, q) + k(p, p))


@pytest.mark.parametrize("seed", SEEDS)
def test_the_kernel_of_all_moves_is_one_with_a_diagonal_of_at_most_one(seed):
    K = gram(terrain(seed, size=8, horizon=18))
    assert K.diagonal().max() <= 1
    np.linalg.cholesky(K + 1e-9 * np.eye(len(K)))


def test_the_costs_lie_in_the_space_of_the_kernel(hills):
    """Interpolating the costs of every third move with the kernel gives those of all others."""
    K, g = gram(hills), hills.g[0, 0].reshape(-1)
    known = np.arange(0, len(g), 3)
    guess = K[:, known] @ np.linalg.solve(K[np.ix_(known, known)] + 1e-8 * np.eye(len(known)), g[known])
    assert np.abs(guess - g).max() < 0.05


def test_slopes_of_drawn_heights_vary_as_the_kernel_says():
    """The covariance over many drawn hills; of the hills alone, because terrains are those with a route on them."""
    rng, root, draws = np.random.default_rng(0), covariance_root(6, 3.0), 40_000
    heights = (root @ rng.standard_normal((draws, 6, 6)) @ root).reshape(draws, -1)
    problem = terrain_from(heights[0].reshape(6, 6), horizon=12)
    constant, weight = constants(problem.kernel)
    place = lambda which: (problem.coordinates[which] @ [6, 1]).astype(int).reshape(-1)
    slopes = heights[:, place("landing")] - heights[:, place("position")]
    np.testing.assert_allclose(np.cov(slopes.T), (gram(problem) - constant) / weight, rtol=0, atol=0.005)
    np.testing.assert_allclose(heights.var(0), 1, rtol=0, atol=0.04)


def test_a_gentle_map_under_a_rough_kernel_keeps_a_prior_variance_of_at_most_one():
    """A long even slope is unlikely under a kernel with independent neighbours, so the kernel sets the scale."""
    slope = terrain_from(np.tile(np.arange(20.0), (2, 1)), length=0.1)
    assert 0.999 < gram(slope, length=0.1).diagonal().max() <= 1
    assert np.abs(slope.g).max() < 0.5


RIDGE = np.array([[0, 1, 9, 1, 0, 0], [0, 2, 8, 2, 1, 0], [0, 1, 7, 2, 1, 0], [0, 1, 2, 2, 1, 0]], float)


def files(folder):
    """The ridge in every format that is read."""
    np.save(folder / "ridge.npy", RIDGE)
    np.savetxt(folder / "ridge.csv", RIDGE, delimiter=",")
    imsave(folder / "ridge.png", RIDGE, cmap="gray")
    return [folder / f"ridge.{ending}" for ending in ("npy", "csv", "png")]


@pytest.mark.quick
def test_heights_are_read_from_arrays_numbers_and_pictures_alike(tmp_path):
    given = terrain_from(RIDGE, horizon=12)
    assert given.name == "terrain"
    for path in files(tmp_path):
        problem = terrain_from(path, horizon=12)
        assert (problem.name, problem.horizon) == ("ridge", 12)
        np.testing.assert_allclose(problem.grid.heights, given.grid.heights, rtol=0, atol=0.01)  # 256 shades
        assert problem.grid.rows == given.grid.rows
        np.testing.assert_allclose(problem.g, given.g, rtol=0, atol=0.01)


def test_a_file_of_heights_is_loaded_by_its_path_with_26_steps_or_those_asked_for(tmp_path):
    for path in files(tmp_path):
        assert load(str(path)).horizon == 26
        assert load(str(path), horizon=12).horizon == 12


def test_heights_are_standardised_and_a_limit_is_in_their_own_unit():
    metres, feet = terrain_from(RIDGE, limit=2, horizon=12), terrain_from(RIDGE * 3.28 + 1000, limit=6.56, horizon=12)
    np.testing.assert_allclose(metres.g, feet.g, rtol=0, atol=1e-12)
    assert metres.grid.heights.mean() == pytest.approx(0)
    assert metres.grid.heights.std() == pytest.approx(1)
    climbs = {(x, a): RIDGE.flat[y] - RIDGE.flat[x] for x, a, y in aims(metres) if x != goal_of(metres)}
    assert all((metres.g[0, 0, x, a] > 0) == (climb > 2) for (x, a), climb in climbs.items())


def test_a_climb_equal_to_the_limit_is_safe_whatever_rounding_makes_of_it():
    steps = terrain_from([[0.6, 0.8], [0.6, 0.8], [0.6, 0.9]], limit=0.2, start=(0, 0), goal=(2, 0), horizon=5)
    assert 0.8 - 0.6 > 0.2
    assert steps.g[0, 0, [0, 2], RIGHT].tolist() == [0, 0]
    assert steps.g[0, 0, 4, LEFT] < 0


def test_start_and_goal_are_where_they_are_put():
    problem = terrain_from(RIDGE, start=(0, 0), goal=(3, 5), horizon=12)
    assert problem.grid.rows == ("S.....", "......", "......", ".....G")
    assert problem.start.tolist() == [0]
    one = terrain_from(RIDGE, goal=(3, 5), horizon=12)
    assert one.grid.rows[3][5] == "G"


def test_start_and_goal_not_given_are_as_far_apart_as_the_horizon_allows():
    lengths, part = [], RIDGE[:, :4]
    for start, goal in permutations(np.ndindex(part.shape), 2):
        with suppress(EverystepError):  # no safe route
            lengths.append(shortest(terrain_from(part, start, goal), safe=True))
    for horizon in (4, 7, 26):
        chosen = shortest(terrain_from(part, horizon=horizon), safe=True)
        assert chosen == max(steps for steps in lengths if steps <= horizon - 3)


def test_of_routes_equally_long_the_one_with_the_longest_way_round_is_chosen():
    wall = np.zeros((7, 7))
    wall[:6, 3] = 5
    problem = terrain_from(wall, limit=1, horizon=11)
    assert shortest(problem, safe=True) == 8
    assert shortest(problem, safe=False) == 2


def test_ground_with_few_climbs_forbids_them_all():
    bump = np.zeros((6, 6))
    bump[2, 2] = 1
    problem = terrain_from(bump)
    assert (problem.g > 0).sum() == 4
    assert problem.check() == ()


def test_without_a_limit_a_pit_can_be_left():
    pit = np.array([[3, 3, 3, 3, 3], [3, 2, 2, 2, 3], [3, 2, 0, 2, 3], [3, 3, 3, 3, 3.5]])
    problem = terrain_from(pit, horizon=12)
    assert problem.check() == ()
    assert (problem.g[0, 0, 12] <= 0).tolist() == [True, False, True, True]  # up to 2, not to 3
    with pytest.raises(EverystepError, match=r"^the cell in row 3, column 3 has no safe action"):
        terrain_from(pit, horizon=12, limit=1.99)


PIT = [[3, 3, 3], [3, 0, 3], [3, 3, 4]]
SHAPE = "the heights have shape {}; give at least 2 rows and 2 columns, of at most 90000 cells."
TABLE = "the heights are not a table of numbers; give rows of equal length."
ROUTE = "no safe route of at most {} steps leads {}; raise the horizon of {} or the limit of {}."
CORNERS = {"start": (0, 0), "goal": (3, 5)}

BAD_HEIGHTS = {
    "one axis": ([1, 2, 3], {}, SHAPE.format("(3,)")),
    "three axes": (np.ones((2, 2, 2)), {}, SHAPE.format("(2, 2, 2)")),
    "one row": ([[1, 2, 3]], {}, SHAPE.format("(1, 3)")),
    "no rows": (np.ones((0, 3)), {}, SHAPE.format("(0, 3)")),
    "too many": (np.eye(301), {}, SHAPE.format("(301, 301)")),
    "too many to search": (
        np.eye(65),
        {"start": (0, 0)},
        "goal is not given, and is searched for on at most 4096 cells; give it on these 4225.",
    ),
    "words": ([["a", "b"], ["c", "d"]], {}, TABLE),
    "ragged": ([[1, 2], [3]], {}, TABLE),
    "not a number": ([[1, 2, 3], [4, 5, np.nan]], {}, "the cell in row 2, column 3 is nan; give a finite height."),
    "endless": ([[1, np.inf], [4, 5]], {}, "the cell in row 1, column 2 is inf; give a finite height."),
    "flat": (np.full((3, 3), 0.1), {}, "the heights are all the same; give a map with slopes."),
    "too high": ([[1e200, 0], [0, 0]], {}, "the heights have a standard deviation of inf; give them in another unit."),
    "start is goal": (RIDGE, {"start": (1, 1), "goal": (1, 1)}, "start and goal are both (1, 1); choose two cells."),
    "start outside": (RIDGE, {"start": (4, 0)}, "start is (4, 0); give (row, column), from (0, 0) to (3, 5)."),
    "start no cell": (RIDGE, {"start": 7}, "start is 7; give (row, column), from (0, 0) to (3, 5)."),
    "goal between cells": (RIDGE, {"goal": (0.5, 1)}, "goal is (0.5, 1); give (row, column), from (0, 0) to (3, 5)."),
    "limit": (RIDGE, {"limit": "steep"}, "limit is steep; give a number of at least 0."),
    "length": (RIDGE, {"length": -3}, "length is -3; give a number from 0.1 to 100."),
    "horizon": (RIDGE, {"horizon": 0}, "horizon is 0; give a whole number of at least 1."),
    "sigma": (RIDGE, {"sigma": np.inf}, "sigma is inf; give a number from 0 to 1e+06."),
    "pit": (
        PIT,
        {"limit": 1},
        "the cell in row 2, column 2 has no safe action, because every move climbs more than the limit 1; "
        "raise limit to 3.003.",
    ),
    "no way up": (
        RIDGE,
        {"start": (0, 0), "goal": (0, 2), "limit": 1.5},
        ROUTE.format(26, "from start (0, 0) to goal (0, 2)", 26, 1.5),
    ),
    "too far": (RIDGE, CORNERS | {"horizon": 7}, ROUTE.format(7, "from start (0, 0) to goal (3, 5)", 7, 1)),
    "no time": (RIDGE, {"horizon": 3}, ROUTE.format(0, "anywhere", 3, 1)),
}


@pytest.mark.parametrize("case", BAD_HEIGHTS)
def test_heights_that_make_no_terrain_are_refused_in_one_sentence(case):
    heights, settings, sentence = BAD_HEIGHTS[case]
    with pytest.raises(EverystepError) as error:
        terrain_from(heights, **settings)
    assert str(error.value) == sentence


def test_the_limit_that_a_pit_asks_for_is_enough():
    with pytest.raises(EverystepError) as error:
        terrain_from(PIT, limit=1)
    limit = float(re.search(rf"raise limit to {NUMBER}\.$", str(error.value))[1])
    problem = terrain_from(PIT, limit=limit)
    assert limit == 3.003
    assert (problem.g[0, 0, 4] < 0).all()  # every side of the pit can be climbed
    assert problem.check() == ()


def test_a_pit_that_is_the_goal_need_not_be_left():
    problem = terrain_from(PIT, limit=1, goal=(1, 1))
    np.testing.assert_allclose(problem.g[0, 0, 4], -1 / 4)  # every action stays: (0 - limit) / |-3 - limit|
    assert problem.check() == ()


BAD_FILES = {
    "empty.csv": (b"", "it is empty. Give a row of heights on each line, with commas between them."),
    "blank.csv": (b"\n \n", "it is empty. Give a row of heights on each line, with commas between them."),
    "ragged.csv": (b"1,2,3\n4,5\n", "row 2 has 2 cells, row 1 has 3. Make all rows equally long."),
    "words.csv": (b"1,2\n3,high\n", "row 2, column 2 is 'high'. Give numbers with commas between them."),
    "gap.csv": (b"1,2\n3,\n", "row 2, column 2 is ''. Give numbers with commas between them."),
    "semicolons.csv": (b"1;2\n3;4\n", "row 1, column 1 is '1;2'. Give numbers with commas between them."),
    "nan.csv": (b"1,2\n3,nan\n", "the cell in row 2, column 2 is nan; give a finite height."),
    "flat.csv": (b"1,1\n1,1\n", "the heights are all the same; give a map with slopes."),
    "bytes.csv": (b"\xff\xfe\x00", "it cannot be read as text. Give numbers with commas between them."),
    "empty.npy": (b"", "it cannot be read as .npy. Write it with numpy.save."),
    "text.npy": (b"1,2\n3,4\n", "it cannot be read as .npy. Write it with numpy.save."),
    "empty.png": (b"", "it cannot be read as .png. Save it as a grey-scale PNG."),
    "wide.png": (
        b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR" + (60_000).to_bytes(4, "big") * 2,
        "it has 60000 x 60000 pixels. Give a picture of at most 16777216.",
    ),
    "text.png": (b"1,2\n3,4\n", "it cannot be read as .png. Save it as a grey-scale PNG."),
}


@pytest.mark.parametrize("name", BAD_FILES)
def test_a_file_that_holds_no_heights_is_named_with_what_is_wrong_in_it(name, tmp_path):
    content, sentence = BAD_FILES[name]
    (tmp_path / name).write_bytes(content)
    for read in (terrain_from, load):
        with pytest.raises(EverystepError) as error:
            read(str(tmp_path / name))
        assert str(error.value) == f"problem '{tmp_path / name}': {sentence}"


@pytest.mark.parametrize("ending", ["npy", "csv", "png"])
def test_a_file_of_heights_that_is_not_there_is_named(ending, tmp_path):
    with pytest.raises(EverystepError, match=r"\(No such file or directory\)\. Check the path\.$"):
        load(str(tmp_path / f"alps.{ending}"))


def test_a_file_of_another_kind_is_refused_with_the_kinds_there_are(tmp_path):
    with pytest.raises(EverystepError, match=r"'\.tif'; .*\.npy, \.csv, \.png\.$"):
        terrain_from(tmp_path / "alps.tif")
    with pytest.raises(EverystepError, match=r"arrays \(\.npz\) or heights \(\.npy, \.csv, \.png\)\.$"):
        load("alps.tif")


def test_a_grey_picture_may_have_colour_channels_and_a_coloured_one_is_refused(tmp_path):
    grey = np.repeat(RIDGE[..., None] / 9, 3, axis=-1)
    imsave(tmp_path / "grey.png", grey)
    terrain_from(tmp_path / "grey.png", horizon=12)
    grey[1, 1] = 1, 0, 0
    imsave(tmp_path / "red.png", grey)
    with pytest.raises(EverystepError, match=r"colour picture\. .* grey-scale PNG"):
        terrain_from(tmp_path / "red.png")


class Trap:
    """Unpickling it makes a folder."""

    def __init__(self, folder):
        self.folder = str(folder)

    def __reduce__(self):
        return os.mkdir, (self.folder,)


def test_objects_among_heights_are_refused_and_not_unpickled(tmp_path):
    sprung = tmp_path / "sprung"
    np.save(tmp_path / "objects.npy", np.array([[Trap(sprung)]], dtype=object))
    (tmp_path / "bare.npy").write_bytes(pickle.dumps(Trap(sprung)))
    with pytest.raises(EverystepError, match="Python objects"):
        load(str(tmp_path / "objects.npy"))
    with pytest.raises(EverystepError, match=r"it cannot be read as \.npy"):
        load(str(tmp_path / "bare.npy"))
    assert not sprung.exists()


@pytest.mark.parametrize("ending", ["npy", "png"])
def test_whichever_byte_of_a_file_is_damaged_the_answer_is_a_problem_or_a_sentence(ending, tmp_path):
    files(tmp_path)
    path = tmp_path / f"ridge.{ending}"
    sound = path.read_bytes()
    for i in range(len(sound)):
        path.write_bytes(sound[:i] + bytes([sound[i] ^ 0xFF]) + sound[i + 1 :])
        try:
            assert load(str(path), horizon=12).actions == 4
        except EverystepError as error:
            assert str(error).startswith(f"problem '{path}': ")  # noqa: PT017


def test_a_terrain_comes_back_from_its_file_with_heights_kernel_and_coordinates(hills, tmp_path):
    save_problem(hills, tmp_path / "problem.npz")
    again = load(str(tmp_path / "problem.npz"))
    for name in ("dense_P", "r", "g", "start"):
        np.testing.assert_array_equal(getattr(again, name), getattr(hills, name))
    assert (again.kernel, again.name, again.grid.rows) == (hills.kernel, hills.name, hills.grid.rows)
    np.testing.assert_array_equal(again.grid.heights, hills.grid.heights)
    assert again.coordinates.keys() == hills.coordinates.keys() == {"position", "landing", "move"}
    for name, array in hills.coordinates.items():
        np.testing.assert_array_equal(again.coordinates[name], array)


def test_heights_to_draw_must_fit_the_map(tmp_path):
    with pytest.raises(EverystepError, match=r"^heights have shape \(2, 3\); .*\(1, 2\)"):
        es.FiniteCMDP(
            np.full((2, 2, 2), 0.5),
            np.zeros((2, 2)),
            -np.ones((2, 2)),
            grid=Grid(("SG",), np.zeros((2, 3))),
        )


@pytest.mark.usefixtures("sketched")
def test_a_person_runs_an_agent_on_heights_of_their_own(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    np.savetxt("ridge.csv", RIDGE, delimiter=",")
    run = ["run", "--agents", "lsvi-ae", "--episodes", "5", "--seeds", "2", "--horizon", "12", "--out", "mine"]
    assert main.main([*run, "--problem", "ridge.csv"]) == 0
    assert "safe optimum" in capsys.readouterr().out
    drawn = {path.stem for path in (tmp_path / "mine" / "figures").glob("[!.]*")}
    assert drawn == {"map", "learning", "heatmap", "regret"}
    assert main.main([*run, "--problem", "alps.csv"]) == 2
    assert capsys.readouterr().err.startswith("everystep: problem 'alps.csv': the file cannot be opened (No such file")


def test_a_map_with_heights_is_shaded_by_them_and_says_so(hills):
    with mpl.rc_context(figures.STYLE):
        (axes,) = figures.lake_map(hills).axes
        (lake_axes,) = figures.lake_map(es.problems.frozen_lake()).axes
    (image,) = axes.images
    np.testing.assert_array_equal(image.get_array(), hills.grid.heights)
    assert "darker = higher" in axes.get_title()
    assert {text.get_text() for text in axes.texts} == {"S", "G"}
    assert not lake_axes.images
    assert "higher" not in lake_axes.get_title()


def test_level_ground_can_be_drawn():
    from matplotlib.figure import Figure

    axes = Figure().subplots()
    figures.cells(axes, Grid(("S.", ".G"), np.full((2, 2), 7.0)), fill=True)
    (image,) = axes.images
    np.testing.assert_array_equal(image.get_array(), np.full((2, 2), 7.0))
    assert [text.get_text() for text in axes.texts] == ["S", "G"]
    assert not axes.collections  # level ground has no contours
