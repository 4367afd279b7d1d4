"""Specifications of features: saved and made again, and what is refused."""

import io
import json
from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest
from helpers.features import OF_A_LIST, OF_PAIRS, OF_STATES, PLANE, box, bunch, discrete, inside, made, shoved

import everystep as es
from everystep import features as fs
from everystep.errors import EverystepError

pytestmark = pytest.mark.quick


@pytest.mark.parametrize("name", [*OF_STATES, *OF_PAIRS, *OF_A_LIST])
def test_features_come_back_from_json_and_plain_arrays(name):
    features, obs = made(name)
    saved = json.loads(json.dumps(features.to_json()))
    file = io.BytesIO()
    np.savez(file, **features.arrays())
    file.seek(0)
    again = fs.rebuild(saved, np.load(file, allow_pickle=False))
    np.testing.assert_array_equal(again(obs), features(obs))
    assert (again.d, again.actions, again.crossed) == (features.d, features.actions, features.crossed)
    assert again.remarks == features.remarks


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: fs.mirrored(fs.fourier(5), [1, 2, 0]), "the image of 0 is 1, but that of 1 is 2"),
        (lambda: fs.mirrored(fs.fourier(5), [1]), r"actions of mirrored are \[1\]"),
        (lambda: fs.mirrored(fs.fourier(5), "left"), "actions of mirrored are 'left'"),
        (lambda: fs.mirrored(fs.fourier(5), []), r"actions of mirrored are \[\]"),
        (lambda: fs.mirrored(fs.fourier(5), [0.5, 1]), "actions of mirrored are"),
        (lambda: fs.mirrored(fs.fourier(5), [1, 0], signs=2), "signs of mirrored are 2; give 1 or -1"),
        (lambda: fs.mirrored(fs.fourier(5), [1, 0], signs="x"), "signs of mirrored are 'x'"),
        (lambda: fs.mirrored("auto", [1, 0]), "mirrored takes features of the observation and not 'auto'"),
        (lambda: fs.mirrored(fs.mirrored(fs.fourier(5), [1, 0]), [1, 0]), "mirrored takes features"),
        (lambda: fs.bind(fs.mirrored(fs.fourier(5), [1, 0]), PLANE, 3), r"mirrored are \[1, 0\], but there are 3"),
        (lambda: fs.bind(fs.mirrored(fs.fourier(5), [1, 0], [-1] * 3), PLANE, 2), "signs of mirrored has 3 numbers"),
        (lambda: fs.bind(fs.mirrored(fs.one_hot(), [1, 0]), discrete(4), 2), "mirrored needs observations that are"),
        (lambda: fs.bind(fs.joined(fs.mirrored(fs.fourier(5), [1, 0])), PLANE, 2), "instead of joining them"),
        (lambda: fs.bind(fs.mirrored(fs.function(lambda x: np.eye(2)), [1, 0]), PLANE, 2), "pass crossed=True"),
    ],
)
def test_a_mirror_that_makes_no_sense_is_refused_in_one_sentence(make, sentence):
    with pytest.raises(EverystepError, match=sentence):
        make()


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: fs.landing("auto", shoved), "landing takes features of measurements and not 'auto'"),
        (lambda: fs.landing(fs.one_hot(), shoved), "landing takes features of measurements"),
        (lambda: fs.landing(fs.fourier(3), 7), "lead of landing is 7; give a function"),
        (lambda: fs.bind(fs.landing(fs.fourier(3), shoved), PLANE, 2), "landing by shoved failed at observation"),
        (lambda: fs.bind(fs.landing(fs.polynomial(1, -9, 9), shoved), PLANE, 3), r"returned shape \(2, 3\)"),
        (lambda: fs.bind(fs.landing(fs.polynomial(1, -9, 9), sum), PLANE, 2), r"landing by sum returned .*\(A, k\)"),
    ],
)
def test_a_landing_that_makes_no_sense_is_refused_in_one_sentence(make, sentence):
    with pytest.raises(EverystepError, match=sentence):
        make()


def test_bounds_given_replace_those_of_the_space_where_they_are_given():
    space = box([-4.8, -np.inf], [4.8, np.inf])
    features = fs.bind(fs.polynomial(1, low=[None, -3], high=[None, 3]), space, 1)
    np.testing.assert_allclose(features(np.array([[2.4, 1.5]]))[0, 0] * np.sqrt(3), [1, 0.5, 0.5], rtol=1e-6)


def test_one_hot_counts_the_members_of_a_tuple_of_lists():
    space = bunch(discrete(3), SimpleNamespace(nvec=np.array([2, 4]), shape=(2,)))
    features = fs.bind(fs.one_hot(), space, 2)
    every = np.array(list(product(range(3), range(2), range(4))), float)
    np.testing.assert_array_equal(features.state(every), np.eye(24))


def test_a_function_of_a_list_is_kept_as_a_table_and_so_can_be_saved():
    features, obs = made("function")
    assert "phi" in features.arrays()
    np.testing.assert_allclose(features(obs)[1], np.array([[1.0, 4], [4, 1]]) / 9)


def test_a_function_of_vectors_is_called_on_each():
    features = fs.bind(lambda x: np.stack([x, -x]) / 20, PLANE, 2)
    assert features.d == 2
    np.testing.assert_allclose(features(inside(3))[:, 1], -inside(3) / 20)
    with pytest.raises(EverystepError, match=r"<lambda>.* features="):
        fs.rebuild(features.to_json(), features.arrays())
    again = fs.rebuild(features.to_json(), features.arrays(), lambda x: np.stack([x, -x]) / 20)
    np.testing.assert_array_equal(again(inside(3)), features(inside(3)))


def test_long_features_of_a_function_are_cut_only_if_asked():
    f = lambda x: np.stack([x, 0 * x])
    with pytest.raises(EverystepError, match="norm of 5"):
        fs.bind(fs.function(f), PLANE, 2)(np.array([[0.0, 5.0]]))
    features = fs.bind(fs.function(f, normalise=True), PLANE, 2)
    np.testing.assert_allclose(features(np.array([[0.0, 5.0], [0.3, 0.4]]))[:, 0], [[0, 1], [0.3, 0.4]])
    assert features.remarks == ("features longer than 1 were cut to length 1",)


def test_the_divisor_of_a_table_is_reported():
    features = fs.bind(fs.table(np.full((2, 1, 4), 3.0), normalise=True), discrete(2), 1)
    np.testing.assert_allclose(features(np.array([0]))[0, 0], 0.5)
    assert features.remarks == ("features were divided by their largest norm, 6",)


def test_features_already_made_are_taken_as_they_are():
    features, _ = made("tiles")
    assert fs.bind(features, PLANE, 2) is features
    with pytest.raises(EverystepError, match="are for 2 actions, but there are 3"):
        fs.bind(features, PLANE, 3)


def test_the_package_shows_them_under_one_name():
    assert es.features.fourier is fs.fourier
    assert str(fs.fourier(20, 0.5)) == "fourier(size=20, lengthscale=0.5, seed=0)"
    assert str(fs.tiles(2, 3, constant=True)) == "joined(parts=[tiles(tilings=2, bins=(3,)), constant()])"


def raises(x):
    raise RuntimeError("no sensor")


WRONG = {
    "no finite bounds at coordinate 1, 3": lambda: fs.bind(
        fs.fourier(), box([-4.8, -np.inf, -0.4, -3.4e38], [4.8, np.inf, 0.4, 3.4e38]), 2
    ),
    "low of tiles is 3 and high is 2 at coordinate 0": lambda: fs.bind(fs.tiles(low=3), PLANE, 1),
    "high of tiles is .*; give a number, or 2 of them": lambda: fs.bind(fs.tiles(high=[1, 2, 3]), PLANE, 1),
    "one_hot needs observations that are integers": lambda: fs.bind(fs.one_hot(), PLANE, 1),
    "has a norm of 2": lambda: fs.bind(np.full((3, 2, 1), 2.0), discrete(3), 2),
    "table has 3 rows, but there are 4 observations": lambda: fs.bind(np.zeros((3, 2, 1)), discrete(4), 2),
    r"table has shape \(3, 2, 1\), but there are 5 actions": lambda: fs.bind(np.zeros((3, 2, 1)), discrete(3), 5),
    r"phi of table has shape \(3,\)": lambda: fs.table(np.zeros(3)),
    "phi of table holds nan": lambda: fs.table(np.full((2, 2), np.nan)),
    "size of fourier is 0": lambda: fs.fourier(0),
    "lengthscale of fourier is -1": lambda: fs.fourier(lengthscale=-1),
    "lengthscale of fourier has 3 numbers for 2 coordinates": lambda: fs.bind(fs.fourier(2, (1, 2, 3)), PLANE, 1),
    "centres have 3 coordinates, but observations have 2": lambda: fs.bind(fs.centres(np.zeros((4, 3)), 1.0), PLANE, 1),
    "tiles makes 80000 features of a state, more than 20000": lambda: fs.bind(fs.tiles(8, 9), box([0] * 4, [1] * 4), 1),
    "polynomial makes .* choose a lower degree": lambda: fs.bind(fs.polynomial(9), box([0] * 40, [1] * 40), 1),
    r"returned shape \(2, 3\)": lambda: fs.bind(lambda x: np.zeros((2, 3)), PLANE, 4),
    r"returned shape \(2,\); return \(4, 2\) per observation": lambda: fs.bind(
        fs.function(lambda x: np.zeros(2), d=2), PLANE, 4
    )(inside(1)),
    "failed at observation .* .RuntimeError: no sensor": lambda: fs.bind(raises, PLANE, 2),
    "returned inf at observation": lambda: fs.bind(lambda x: np.full((2, 2), np.inf), PLANE, 2),
    "features are 'fourier'; give auto, everystep.features": lambda: fs.bind("fourier", PLANE, 2),
    r"observations have shape \(2,\)": lambda: made("tiles")[0](np.zeros(2)),
    "an observation is nan at coordinate 1": lambda: made("tiles")[0](np.array([[0.0, np.nan]])),
    "an observation is 9 at coordinate 0": lambda: made("one-hot")[0](np.array([4, 9])),
    "there are none of the state alone": lambda: made("table")[0].state(np.array([3])),
    "is not made of numbers": lambda: fs.flatten("left"),
    "is not made of Discrete": lambda: fs.bind(fs.fourier(), SimpleNamespace(), 1),
    "must return features of the state; pass crossed=True": lambda: fs.bind(
        fs.joined(fs.tiles(), fs.function(raises)), PLANE, 1
    ),
    "saved features cannot be read": lambda: fs.rebuild({"kind": "Fourierr"}, {}),
}


@pytest.mark.parametrize("sentence", WRONG)
def test_wrong_features_are_refused_in_a_sentence(sentence):
    with pytest.raises(EverystepError, match=sentence):
        WRONG[sentence]()
