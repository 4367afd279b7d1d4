"""The lake: its dynamics, its two optima, maps drawn by hand, and problems read from files."""

import gc
import os
import pickle
import warnings
from collections import Counter
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from everystep.errors import EverystepError
from everystep.mdp import planner
from everystep.mdp.world import step
from everystep.problems import from_arrays, from_map, frozen_lake, load

LEFT, DOWN, RIGHT, UP = range(4)
MOVES = {LEFT: (0, -1), DOWN: (1, 0), RIGHT: (0, 1), UP: (-1, 0)}
repeatable = settings(derandomize=True, deadline=None, database=None, max_examples=60)


def aim(rows, x, a):
    """The cell that action a aims at from cell x, found on the drawing itself."""
    row, column = divmod(x, len(rows[0]))
    row, column = row + MOVES[a][0], column + MOVES[a][1]
    inside = 0 <= row < len(rows) and 0 <= column < len(rows[0])
    return row * len(rows[0]) + column if inside and rows[row][column] != "#" else x


def slippery(rows, x, a):
    """{next cell: probability} on the drawing: 0.9 as intended, 0.05 to each side."""
    cells = Counter()
    for direction, probability in ((a, 0.9), ((a + 1) % 4, 0.05), ((a + 3) % 4, 0.05)):
        cells[aim(rows, x, direction)] += probability
    return cells


# --- the paper's lake -------------------------------------------------------------------------------------------
@pytest.mark.quick
def test_the_lake_has_the_two_optima_of_its_documentation(lake):
    assert planner.solve(lake).value == pytest.approx(5.2256161694573, abs=1e-9)
    assert planner.solve(lake, safe=False).value == pytest.approx(5.8231480984017, abs=1e-9)


def test_paid_on_each_step_spent_at_the_goal_the_lake_has_two_other_optima():
    lake = frozen_lake(reward="at_goal")
    assert planner.solve(lake).value == pytest.approx(11.088532, abs=1e-6)
    assert planner.solve(lake, safe=False).value == pytest.approx(12.690393, abs=1e-6)


def test_paid_at_the_goal_values_outgrow_the_horizon_on_the_way():
    """At the goal by step 13, a reward of 6 remains in each of three steps, and 0.01 in the twelve before: 18.12."""
    lake = frozen_lake(reward="at_goal")
    lake.check(cap=18.12)
    with pytest.raises(EverystepError, match=r"^cap is 15, below the unconstrained optimum"):
        lake.check(cap=15)


@pytest.mark.quick
def test_the_lake_is_that_of_the_paper(lake):
    assert (lake.states, lake.actions, lake.horizon, lake.constraints) == (100, 4, 15, 1)
    assert lake.stationary
    assert lake.start.tolist() == [0]
    assert lake.check(cap=15) == ()


def test_the_unconstrained_optimum_walks_towards_hazards_and_the_safe_one_never_does(lake):
    assert planner.evaluate(lake, planner.solve(lake, safe=False).policy).violation > 0.1
    assert planner.evaluate(lake, planner.solve(lake).policy).violation == 0


def test_the_lake_obeys_its_drawing_everywhere(lake):
    rows = lake.grid.rows
    for x in range(100):
        for a in range(4):
            at_goal = rows[x // 10][x % 10] == "G"
            want = {x: 1.0} if at_goal else slippery(rows, x, a)
            got = {y: lake.dense_P[0, x, a, y] for y in np.flatnonzero(lake.dense_P[0, x, a]).tolist()}
            assert got == pytest.approx(want, abs=1e-15)
            target = aim(rows, x, a)
            hazard = rows[target // 10][target % 10] == "H"
            assert lake.g[0, 0, x, a] == (1 if hazard and not at_goal else -1)


@pytest.mark.parametrize("slip", [0.0, 0.3, 1.0])
def test_a_move_goes_aside_as_often_as_the_slip_says(slip):
    lake = from_map(("SFF", "FFF", "FFG"), slip=slip)
    np.testing.assert_allclose(lake.dense_P[0, 4, RIGHT, [5, 1, 7]], [1 - slip, slip / 2, slip / 2], rtol=0, atol=1e-15)


def test_a_slip_that_is_no_probability_is_refused():
    with pytest.raises(EverystepError, match=r"slip is 1\.5; give a number from 0 to 1\."):
        from_map(("SG",), slip=1.5)


# --- what a map means -------------------------------------------------------------------------------------------
def test_a_move_goes_as_intended_nine_times_in_ten_and_slips_to_each_side_otherwise():
    lake = from_map(("SFF", "FFF", "FFG"))
    middle = 4
    np.testing.assert_allclose(lake.dense_P[0, middle, RIGHT, [5, 1, 7]], [0.9, 0.05, 0.05], rtol=0, atol=1e-15)
    np.testing.assert_allclose(lake.dense_P[0, middle, UP, [1, 3, 5]], [0.9, 0.05, 0.05], rtol=0, atol=1e-15)


def test_leaving_the_grid_keeps_the_place():
    lake = from_map(("SFF", "FFF", "FFG"))
    np.testing.assert_allclose(lake.dense_P[0, 0, LEFT, [0, 3]], [0.95, 0.05], rtol=0, atol=1e-15)


def test_the_goal_is_never_left_and_pays_nothing_more():
    lake = from_map(("SFF", "FGF", "FFF"))
    np.testing.assert_array_equal(lake.dense_P[0, 4, :, 4], 1)
    np.testing.assert_array_equal(lake.r[0, 4], 0.01)


def test_entering_the_goal_pays_six_and_every_other_step_a_hundredth():
    lake = from_map(("SG",), horizon=3)
    arrival = lambda u: step(lake.world, 0, 0, RIGHT, u, 0.0, 0.0)
    stayed, entered = arrival(0.05), arrival(0.5)
    assert (int(stayed.x_next), stayed.reward) == (0, 0.01)
    assert (int(entered.x_next), entered.reward) == (1, 6.0)
    assert lake.r[0, 0, RIGHT] == pytest.approx(0.9 * 6 + 0.1 * 0.01)
    assert planner.solve(lake).value == pytest.approx(
        (0.9 * 6 + 0.1 * 0.01) * (1 + 0.1 + 0.01) + 0.01 * (0.9 + 0.99), abs=1e-12
    )


def test_paid_at_the_goal_the_step_that_enters_it_pays_a_hundredth():
    lake = from_map(("SG",), reward="at_goal")
    np.testing.assert_array_equal(lake.r[0, 1], 6.0)
    np.testing.assert_allclose(lake.r[0, 0], 0.01, rtol=0, atol=1e-15)


def test_walls_are_never_entered():
    lake = from_map(("SF#", "F#F", "FFG"))
    open_cells = [x for x, letter in enumerate("SF#F#FFFG") if letter != "#"]
    assert (lake.dense_P[0][open_cells][:, :, [2, 4]] == 0).all()
    np.testing.assert_allclose(lake.dense_P[0, 1, RIGHT, [0, 1]], [0, 1], rtol=0, atol=1e-15)


def test_walls_need_no_safe_action():
    lake = from_map(("SHF", "H#H", "FHG"), horizon=4)
    assert (lake.g[0, 0, 4] == 1).all()
    assert lake.check() == ()


def test_aiming_at_a_hazard_is_unsafe_and_leaving_one_is_not():
    lake = from_map(("SHF", "FFG"))
    assert lake.g[0, 0, 0].tolist() == [-1, -1, 1, -1]
    assert lake.g[0, 0, 1].tolist() == [-1, -1, -1, 1]  # up stays in place, and the place is a hazard


def test_pushing_a_wall_while_standing_on_a_hazard_is_unsafe():
    lake = from_map(("SG", "H#"))
    assert lake.g[0, 0, 2].tolist() == [1, 1, 1, -1]


@pytest.mark.parametrize("cost", ["intended", "realised"])
def test_at_the_goal_every_action_is_safe(cost):
    lake = from_map(("SHF", "HGH", "FHF"), cost=cost)
    np.testing.assert_array_equal(lake.g[0, 0, 4], -1)


def test_hazards_do_not_end_an_episode():
    lake = from_map(("SHG",))
    assert lake.dense_P[0, 1, RIGHT, 2] == pytest.approx(0.9)


def test_a_map_may_have_several_goals():
    lake = from_map(("GSFG",), horizon=2)
    np.testing.assert_array_equal(lake.dense_P[0, [0, 3], :, [0, 3]], 1)
    assert lake.r[0, 1, LEFT] == pytest.approx(0.9 * 6 + 0.1 * 0.01)
    assert lake.r[0, 2, RIGHT] == pytest.approx(0.9 * 6 + 0.1 * 0.01)


def test_a_dot_is_ice_like_an_f():
    dots, letters = from_map(("S.H", "..G")), from_map(("SFH", "FFG"))
    for name in ("dense_P", "r", "g", "start"):
        np.testing.assert_array_equal(getattr(dots, name), getattr(letters, name))


def test_the_start_is_the_cell_marked_s():
    assert from_map(("FFG", "FSF")).start.tolist() == [4]


def test_realised_costs_are_seen_on_arrival_and_mean_twice_the_chance_of_a_hit_less_one():
    lake = from_map(("SFF", "FHF", "FFG"), cost="realised")
    hit = lake.dense_P[0, :, :, 4]
    goal = np.arange(9)[:, None] == 8
    np.testing.assert_allclose(lake.g[0, 0], np.where(goal, -1, 2 * hit - 1), rtol=0, atol=1e-15)
    assert lake.g[0, 0, 1, DOWN] == pytest.approx(0.8)
    slipped, fell = (step(lake.world, 0, 1, DOWN, u, 0.0, 0.0) for u in (0.02, 0.5))
    assert (int(slipped.x_next), slipped.cost.tolist()) == (0, [-1])
    assert (int(fell.x_next), fell.cost.tolist()) == (4, [1])
    np.testing.assert_allclose(fell.g, [0.8], rtol=0, atol=1e-15)


def test_intended_costs_are_seen_as_they_are_wherever_the_step_leads():
    lake = from_map(("SFF", "FHF", "FFG"))
    outcomes = [step(lake.world, 0, 1, DOWN, u, 0.0, 0.0) for u in (0.02, 0.5)]
    assert [int(outcome.x_next) for outcome in outcomes] == [0, 4]
    assert [outcome.cost.tolist() for outcome in outcomes] == [[1], [1]]


# --- maps that cannot be ----------------------------------------------------------------------------------------
BAD = [
    (("SFF", "FF"), "row 2 has 2 cells, row 1 has 3. Make all rows equally long."),
    ((), "the map is empty. Draw it as rows of S, F, H, G and #."),
    (("", ""), "the map is empty. Draw it as rows of S, F, H, G and #."),
    (("  ",), "the map is empty. Draw it as rows of S, F, H, G and #."),
    (("SFF", "FxG"), "row 2, column 2 is 'x'. Use S, F or ., H, G and # only."),
    (("sFG",), "row 1, column 1 is 's'. Use S, F or ., H, G and # only."),
    (("FFG",), "the map has 0 cells S. Give it exactly one start."),
    (("SFS", "FFG"), "the map has 2 cells S. Give it exactly one start."),
    (("SFF",), "the map has no cell G. Give it a goal."),
]
SURROUNDED = [
    pytest.param(("SGFHF", "FFHFH", "FFFHF"), "row 2, column 4", id="ice between four hazards"),
    pytest.param(("SGF", "FFH", "FHH"), "row 3, column 3", id="a hazard in a corner of hazards"),
    pytest.param(("SFF", "FF#", "G#H"), "row 3, column 3", id="a hazard between walls"),
]


@pytest.mark.parametrize(("rows", "sentence"), BAD, ids=[sentence.split(".")[0] for _, sentence in BAD])
def test_a_bad_map_is_refused_in_one_sentence(rows, sentence):
    with pytest.raises(EverystepError) as error:
        from_map(rows)
    assert str(error.value) == sentence


@pytest.mark.parametrize("cost", ["intended", "realised"])
@pytest.mark.parametrize(("rows", "place"), SURROUNDED)
def test_a_cell_from_which_every_action_aims_at_a_hazard_is_named_and_allowed(rows, place, cost):
    (remark,) = [each for each in from_map(rows, cost=cost).check() if "no safe action" in each]
    assert f"(the cell in {place})" in remark


@pytest.mark.parametrize(("setting", "options"), [("reward", "once or at_goal"), ("cost", "intended or realised")])
def test_an_unknown_reading_of_reward_or_cost_is_refused(setting, options):
    with pytest.raises(EverystepError, match=rf"^{setting} is 'twice'; choose {options}\.$"):
        from_map(("SG",), **{setting: "twice"})


@pytest.mark.parametrize("horizon", [0, -3, 1.5, "soon"])
def test_a_lake_needs_a_horizon_of_at_least_one_step(horizon):
    with pytest.raises(EverystepError, match=rf"^horizon is {horizon}; give a whole number of at least 1\.$"):
        from_map(("SG",), horizon=horizon)


def test_a_horizon_in_words_of_digits_is_read_as_a_number():
    assert from_map(("SG",), horizon="3").horizon == 3


def test_a_horizon_shorter_than_the_way_to_the_goal_is_remarked_and_allowed():
    rows = ("SFF", "FFF", "FFG")
    assert from_map(rows, horizon=4).check() == ()
    (remark,) = from_map(rows, horizon=3).check()
    assert remark == "the horizon 3 is shorter than the 4 steps from S to G: the goal can never be reached."
    assert planner.solve(from_map(rows, horizon=3)).value == pytest.approx(0.03)


def test_a_goal_behind_walls_is_remarked_and_allowed():
    (remark,) = from_map(("SF#G",)).check()
    assert remark == "no path leads from S to G: the goal can never be reached."


def test_the_way_to_the_goal_is_counted_around_walls_and_to_the_nearest_goal():
    assert from_map(("S#G", "FFF"), horizon=4).check() == ()
    assert "than the 4 steps" in from_map(("S#G", "FFF"), horizon=3).check()[0]
    assert from_map(("GFSFFFG",), horizon=2).check() == ()


# --- any map ----------------------------------------------------------------------------------------------------
@st.composite
def maps(draw):
    height, width = draw(st.integers(1, 5)), draw(st.integers(2, 5))
    cells = draw(st.lists(st.sampled_from("FFFF.HG#"), min_size=height * width, max_size=height * width))
    start, goal = draw(st.permutations(range(height * width)))[:2]
    cells[start], cells[goal] = "S", "G"
    return tuple("".join(cells[i * width : (i + 1) * width]) for i in range(height))


def without_a_safe_action(rows):
    """Cells that are neither wall nor goal and from which every action aims at a hazard."""
    text = "".join(rows)
    return [
        x for x, letter in enumerate(text) if letter not in "#G" and all(text[aim(rows, x, a)] == "H" for a in range(4))
    ]


@repeatable
@given(maps())
def test_a_map_has_a_remark_exactly_when_a_cell_has_no_safe_action(rows):
    stuck, lake = without_a_safe_action(rows), from_map(rows)
    remarks = lake.check()[len(lake.remarks) :]
    assert len(remarks) == bool(stuck)
    if stuck:
        row, column = divmod(stuck[0], len(rows[0]))
        assert f"the cell in row {row + 1}, column {column + 1})" in remarks[0]


solvable = maps().filter(lambda rows: not without_a_safe_action(rows))


@pytest.mark.quick
@repeatable
@given(solvable, st.sampled_from(["once", "at_goal"]), st.sampled_from(["intended", "realised"]))
def test_every_lake_obeys_its_drawing(rows, reward, cost):
    lake = from_map(rows, reward=reward, cost=cost)
    text = "".join(rows)
    P, r, g = lake.dense_P[0], lake.r[0], lake.g[0, 0]
    np.testing.assert_allclose(P.sum(-1), 1, rtol=0, atol=1e-12)
    for x, letter in enumerate(text):
        for a in range(4):
            if letter == "G":
                assert P[x, a, x] == 1
                assert r[x, a] == (0.01 if reward == "once" else 6)
                assert g[x, a] == -1
                continue
            want = slippery(rows, x, a)
            got = {y: P[x, a, y] for y in np.flatnonzero(P[x, a]).tolist()}
            assert got == pytest.approx(want, abs=1e-12)
            entering = sum(p for y, p in want.items() if text[y] == "G") if reward == "once" else 0
            assert r[x, a] == pytest.approx(6 * entering + 0.01 * (1 - entering), abs=1e-12)
            if cost == "intended":
                assert g[x, a] == (1 if text[aim(rows, x, a)] == "H" else -1)
            else:
                hit = sum(p for y, p in want.items() if text[y] == "H")
                assert g[x, a] == pytest.approx(2 * hit - 1, abs=1e-12)


@repeatable
@given(solvable)
def test_successors_are_neighbours_or_the_cell_itself_and_walls_never_follow(rows):
    lake = from_map(rows)
    width = len(rows[0])
    assert lake.sizes.successors <= 5
    for x, _, y in np.argwhere(lake.dense_P[0] > 0).tolist():
        distance = abs(x // width - y // width) + abs(x % width - y % width)
        assert distance <= 1
        assert y == x or "".join(rows)[y] != "#"


@repeatable
@given(solvable)
def test_a_lake_and_its_mirror_images_are_worth_the_same(rows):
    images = [
        tuple(row[::-1] for row in rows),
        rows[::-1],
        tuple("".join(column) for column in zip(*rows, strict=True)),
    ]
    for safe in (True, False):
        value = planner.solve(from_map(rows, horizon=6), safe).value
        for image in images:
            assert planner.solve(from_map(image, horizon=6), safe).value == pytest.approx(value, abs=1e-12)


# --- files ------------------------------------------------------------------------------------------------------
def test_a_registered_problem_is_loaded_by_name_with_the_horizon_asked_for(lake):
    assert load("frozen-lake").horizon == 15
    longer = load("frozen-lake", horizon=20)
    assert longer.horizon == 20
    np.testing.assert_array_equal(longer.dense_P, lake.dense_P)


def test_a_mistyped_name_is_answered_with_the_nearest_one():
    with pytest.raises(EverystepError, match=r"^no problem 'frozen-lak'\. Did you mean frozen-lake\?"):
        load("frozen-lak")


@pytest.mark.quick
@pytest.mark.parametrize("ending", ["\n", "", "\n\n", "\r\n"])
def test_a_map_is_read_from_a_text_file_however_its_lines_end(tmp_path, ending):
    path = tmp_path / "pond.txt"
    path.write_bytes((("\r\n" if ending == "\r\n" else "\n").join(("SFH", "FFG")) + ending).encode())
    pond = load(str(path))
    assert (pond.name, pond.horizon, pond.grid.rows) == ("pond", 15, ("SFH", "FFG"))
    assert load(str(path), horizon=4).horizon == 4


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"SFH\nFG\n", "row 2 has 2 cells, row 1 has 3. Make all rows equally long."),
        (b"", "the map is empty. Draw it as rows of S, F, H, G and #."),
        (b"\xff\xfe\x00", "the file cannot be read as text. Give a map with one row per line."),
    ],
)
def test_a_bad_map_file_is_named_with_what_is_wrong_in_it(tmp_path, content, sentence):
    path = tmp_path / "pond.txt"
    path.write_bytes(content)
    with pytest.raises(EverystepError) as error:
        load(str(path))
    assert str(error.value) == f"problem '{path}': {sentence}"


@pytest.mark.parametrize("suffix", ["txt", "npz"])
def test_a_file_that_is_not_there_is_named(tmp_path, suffix):
    with pytest.raises(EverystepError, match=r"\(No such file or directory\)\. Check the path\.$"):
        load(str(tmp_path / f"pond.{suffix}"))


ARRAYS = {
    "P": np.full((2, 2, 2), 0.5),
    "r": np.array([[0.0, 1.0], [0.5, 0.0]]),
    "g": np.array([[-1.0, 1.0], [0.0, -1.0]]),
    "start": 1,
    "horizon": 3,
}


@pytest.fixture
def saved(tmp_path):
    """Save ARRAYS with changes (None leaves one out) and return the path."""

    def save(**changes):
        path = tmp_path / "mine.npz"
        np.savez(path, **{key: value for key, value in (ARRAYS | changes).items() if value is not None})
        return str(path)

    return save


def test_a_problem_is_read_from_arrays(saved):
    mine = load(saved())
    assert (mine.name, mine.horizon, mine.start.tolist()) == ("mine", 3, [1])
    np.testing.assert_array_equal(mine.dense_P[0], ARRAYS["P"])
    np.testing.assert_array_equal(mine.r[0], ARRAYS["r"])
    np.testing.assert_array_equal(mine.g[0, 0], ARRAYS["g"])


def test_a_horizon_asked_for_replaces_the_one_in_the_file(saved):
    assert load(saved(), horizon=7).horizon == 7
    assert load(saved(horizon=None), horizon=7).horizon == 7


def test_noise_and_features_are_read_where_the_file_has_them(saved):
    seen = np.broadcast_to(ARRAYS["r"][..., None], (2, 2, 2))
    phi = np.random.default_rng(1).random((2, 2, 5))
    mine = load(saved(reward_on_arrival=seen, cost_sigma=0.25, reward_sigma=0.5, features=phi))
    np.testing.assert_array_equal(mine.world.reward_seen[0], np.moveaxis(seen, 0, -1))
    np.testing.assert_array_equal(mine.features, phi)
    assert (mine.world.reward_sigma, mine.world.cost_sigma.tolist()) == (0.5, [0.25])


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"g": None}, "it has no g. Save P, r, g, start, horizon in it."),
        ({"P": None, "horizon": None}, "it has no P and no horizon. Save P, r, g, start, horizon in it."),
        ({"horizon": [3, 3]}, "horizon has shape (2,); save one whole number."),
        ({"horizon": 2.5}, "horizon is 2.5; give a whole number of at least 1."),
        ({"start": 2}, "start is 2; give states between 0 and 1."),
        ({"r": np.zeros(3)}, "r has shape (3,); give (2, 2), or (3, 2, 2) when it depends on the step."),
        ({"P": np.full((2, 2, 2), 0.25)}, "P sums to 0.5 over the next states at state 0, action 0; make it sum to 1."),
        ({"g": np.array(["a", "b"])}, "g is not an array of numbers; give one."),
    ],
)
def test_arrays_that_make_no_problem_are_refused_with_the_name_of_the_file(saved, changes, sentence):
    path = saved(**changes)
    with pytest.raises(EverystepError) as error:
        load(path)
    assert str(error.value) == f"problem '{path}': {sentence}"


@pytest.mark.parametrize(
    "changes",
    [{"reward_sigma": np.ones(2)}, {"reward_sigma": "loud"}, {"cost_sigma": "loud"}],
    ids=["two noises of one reward", "noise of rewards in words", "noise of costs in words"],
)
def test_noise_that_is_no_number_is_refused_like_any_other_array(saved, changes):
    (name,) = changes
    with pytest.raises(EverystepError, match=name):
        load(saved(**changes))


UNREADABLE = "it cannot be read as .npz. Write it with numpy.savez."


def test_an_empty_file_is_no_archive(tmp_path):
    path = tmp_path / "mine.npz"
    path.write_bytes(b"")
    with pytest.raises(EverystepError, match=UNREADABLE):
        from_arrays(path)


def test_a_file_of_something_else_is_no_archive(tmp_path):
    path = tmp_path / "mine.npz"
    path.write_bytes(b"P = 1, r = 2, g = 3\n")
    with pytest.raises(EverystepError, match=UNREADABLE):
        from_arrays(path)


def test_an_archive_cut_short_is_refused(saved):
    path = saved()
    with open(path, "rb+") as file:
        file.truncate(300)
    with pytest.raises(EverystepError, match=UNREADABLE):
        from_arrays(path)


def damaged(path):
    """The archive many times, each with another byte flipped."""
    sound = Path(path).read_bytes()
    for i in range(len(sound)):
        Path(path).write_bytes(sound[:i] + bytes([sound[i] ^ 0xFF]) + sound[i + 1 :])
        yield i


def test_whichever_byte_of_an_archive_is_damaged_the_answer_is_a_problem_or_a_sentence_and_it_is_closed(saved):
    path = saved()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in damaged(path):
            with suppress(EverystepError):
                assert from_arrays(path).states == 2
        gc.collect()
    assert not caught


class Trap:
    """Unpickling it makes a folder."""

    def __init__(self, folder):
        self.folder = str(folder)

    def __reduce__(self):
        return os.mkdir, (self.folder,)


def test_objects_in_a_file_are_refused_and_not_unpickled(saved, tmp_path):
    sprung = tmp_path / "sprung"
    path = saved(r=np.array([[Trap(sprung)]], dtype=object))
    with pytest.raises(EverystepError, match="Python objects"):
        load(path)
    assert not sprung.exists()
    # The trap works: loading with pickles allowed triggers it.
    with np.load(path, allow_pickle=True) as file:
        file["r"]
    assert sprung.exists()


def test_a_bare_pickle_named_like_an_archive_is_refused_and_not_unpickled(tmp_path):
    sprung, path = tmp_path / "sprung", tmp_path / "mine.npz"
    path.write_bytes(pickle.dumps(Trap(sprung)))
    with pytest.raises(EverystepError, match=r"^problem '.*mine\.npz': it "):
        load(str(path))
    assert not sprung.exists()
    pickle.loads(path.read_bytes())
    assert sprung.exists()
