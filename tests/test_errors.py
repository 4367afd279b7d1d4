"""The exception that users see: one printable line with the field and the value."""

import numpy as np
import pytest

from everystep import errors
from everystep.errors import EverystepError

pytestmark = pytest.mark.quick


@pytest.mark.parametrize(
    ("value", "number"),
    [
        (3, 3),
        (3.0, 3),
        ("3", 3),
        (np.int32(3), 3),
        (np.float64(3), 3),
        (np.array(3), 3),
    ],
)
def test_whole_numbers_of_any_kind_are_read(value, number):
    found = errors.whole_number("x", value)
    assert (type(found), found) == (int, number)


@pytest.mark.parametrize("value", [0, 2.5, "two", True, None, np.nan, [3], 3 + 0j, np.array([3]), 2**31])
def test_what_is_no_whole_number_is_refused_with_its_field(value):
    with pytest.raises(EverystepError, match=r"^x is .*; give a whole number"):
        errors.whole_number("x", value)


@pytest.mark.parametrize(("value", "inside"), [(0.5, True), ("1e-3", True), (1, True), (-0.1, False), (np.inf, False)])
def test_real_numbers_have_ends(value, inside):
    if inside:
        assert errors.real_number("x", value, 0, 1) == float(value)
    else:
        with pytest.raises(EverystepError, match=r"x is .* from 0 to 1"):
            errors.real_number("x", value, 0, 1)


def test_words_booleans_paths_and_lists_are_checked():
    assert errors.one_of("x", "a", ("a", "b")) == "a"
    assert errors.true_or_false("x", np.bool_(True)) is True
    assert errors.path_from("x", "a/b").name == "b"
    assert errors.listed("x", (i for i in range(3))) == [0, 1, 2]
    assert errors.number_below("x", np.int8(2), 3) == 2
    for call, words in (
        (lambda: errors.one_of("x", "c", ("a", "b")), "'c'; choose a or b"),
        (lambda: errors.true_or_false("x", 1), "True or False"),
        (lambda: errors.path_from("x", ""), "empty"),
        (lambda: errors.listed("x", iter(int, 1), most=5), "more than 5"),
        (lambda: errors.number_below("x", 3, 3), "from 0 to 2"),
        (lambda: errors.check_type("x", 3, str, "a text"), "a text"),
    ):
        with pytest.raises(EverystepError, match=words):
            call()


def test_an_unknown_name_is_answered_with_similar_ones():
    error = errors.unknown("agent", "lsvi-a", ["lsvi-ae", "uniform"], "See the list.")
    assert "lsvi-ae" in str(error)
    assert "uniform" not in str(error)


def test_errors_of_the_users_code_become_ours_and_ctrl_c_passes():
    sentence = lambda name, words: f"it raised {name} ({words})"
    with pytest.raises(EverystepError, match=r"it raised KeyError \('x'\)"), errors.user_code(sentence):
        {}["x"]
    with pytest.raises(EverystepError, match="exit"), errors.user_code(sentence):
        raise SystemExit(3)
    with pytest.raises(KeyboardInterrupt), errors.user_code(sentence):
        raise KeyboardInterrupt
    with pytest.raises(EverystepError, match=r"^ours$"), errors.user_code(sentence):
        raise EverystepError("ours")


def test_masked_values_are_found_in_lists():
    masked = np.ma.array([1, 2], mask=[False, True])
    assert errors.is_masked([0, [masked]])
    assert not errors.is_masked([0, np.ma.array([1, 2])])
    assert errors.as_number(masked[1]) is None


def test_control_characters_and_line_breaks_do_not_reach_the_terminal():
    error = EverystepError("two\nlines \x1b[2J")
    assert str(error) == "two lines \\x1b[2J"


@pytest.mark.parametrize("kind", ["missing", "folder", "too large"])
def test_only_regular_files_of_a_size_are_opened(tmp_path, kind):
    path = tmp_path / "file"
    path.write_bytes(b"12345")
    errors.check_openable(path, at_most=5)
    wrong = {"missing": tmp_path / "none", "folder": tmp_path, "too large": path}[kind]
    with pytest.raises(EverystepError, match="the file"):
        errors.check_openable(wrong, at_most=4)
