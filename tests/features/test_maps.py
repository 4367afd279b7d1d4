"""Feature maps: norms, and formulas against brute force."""

from itertools import product

import numpy as np
import pytest
from helpers.features import OF_A_LIST, OF_PAIRS, OF_STATES, PLANE, box, discrete, inside, made, shoved
from hypothesis import given, settings
from hypothesis import strategies as st

from everystep import features as fs
from everystep.errors import EverystepError

pytestmark = pytest.mark.quick


@pytest.mark.parametrize("name", OF_STATES)
@settings(max_examples=30, deadline=None)
@given(x=st.lists(st.tuples(st.floats(-1e6, 1e6), st.floats(-1e6, 1e6)), min_size=1, max_size=4))
def test_norms_are_at_most_one_wherever_one_looks(name, x):
    features = fs.bind(OF_STATES[name], PLANE, 3)
    phi = features(np.array(x))
    assert phi.shape == (len(x), 3, features.d)
    assert np.linalg.norm(phi, axis=-1).max() <= 1 + 1e-12


@pytest.mark.parametrize("name", [*OF_STATES, *OF_PAIRS, *OF_A_LIST])
def test_features_have_the_length_they_report_and_a_norm_of_at_most_1(name):
    features, obs = made(name)
    phi = features(obs)
    assert phi.shape == (len(obs), features.actions, features.d)
    assert phi.dtype == np.float64
    assert np.linalg.norm(phi, axis=-1).max() <= 1 + 1e-9
    assert np.abs(phi).max() > 0


@pytest.mark.parametrize("name", [*OF_STATES, "one-hot", "table of states", "function of states"])
def test_crossed_features_are_the_kronecker_product_of_action_and_state(name):
    features, obs = made(name)
    assert features.crossed
    psi = features.state(obs)
    assert psi.shape == (len(obs), features.d // 2)
    explicit = np.stack([np.kron(np.eye(2), each[None]) for each in psi])
    np.testing.assert_array_equal(features(obs), explicit)


@pytest.mark.parametrize("signs", [-1, (1, -1), (-1, 1), 1])
@pytest.mark.parametrize("image", [(1, 0, 2), (0, 1, 2), (2, 1, 0), (2, 1, 0, 3, 5, 4)])
def test_mirrored_features_are_those_of_the_mirror_image(image, signs):
    wide = box([-2.0, -10.0], [2.0, 10.0])
    features = fs.bind(fs.mirrored(fs.fourier(6, 0.9), image, signs), wide, len(image))
    x = inside(15, 3)
    factors = np.broadcast_to(np.array(signs, float), (2,))
    np.testing.assert_array_equal(features(x * factors)[:, list(image)], features(x))
    # against the definition, one observation and one action at a time
    psi = fs.bind(fs.fourier(6, 0.9), wide, 1).state
    pairs = sorted({min(a, b) for a, b in enumerate(image)})
    for n, a in product(range(3), range(len(image))):
        here, there = psi(x[n : n + 1])[0], psi((x * factors)[n : n + 1])[0]
        block = here if a < image[a] else there if a > image[a] else (here + there) / 2
        expected = np.zeros((len(pairs), 12))
        expected[pairs.index(min(a, image[a]))] = block
        np.testing.assert_allclose(features(x[n : n + 1])[0, a], expected.ravel(), rtol=0, atol=1e-15)
    assert features.d == 12 * len(pairs)


def test_landing_features_are_those_of_where_actions_lead():
    spec = fs.joined(fs.fourier(4, 0.5, low=-5, high=15), fs.polynomial(2, low=-5, high=15))
    features = fs.bind(fs.landing(spec, shoved), PLANE, 2)
    psi = fs.bind(spec, box([-np.inf] * 2, [np.inf] * 2), 1).state
    x = inside(10, 4)
    phi = features(x)
    assert (features.d, features.crossed) == (psi(x).shape[1], False)
    for n, a in product(range(10), range(2)):
        np.testing.assert_allclose(phi[n, a], psi(np.array(shoved(x[n]))[a][None])[0], rtol=0, atol=1e-15)
    left, right = features(np.array([[0.5, 2.0], [-1.5, 2.0]]))[[0, 1], [0, 1]]  # both lead to (-0.5, ...)
    other = features(np.array([[-1.5, 2.0]]))[0, 0]
    np.testing.assert_allclose(left, right, rtol=0, atol=1e-15)
    assert np.abs(left - other).max() > 1e-3


def test_fourier_features_approach_the_rbf_kernel_as_their_number_grows():
    x, y = inside(40, 1), inside(40, 2)
    to_unit = lambda z: (z - [0, 5]) / [2, 5]
    kernel = np.exp(-((to_unit(x) - to_unit(y)) ** 2).sum(1) / (2 * 0.6**2))
    errors = []
    for size in (50, 5000):
        psi = fs.bind(fs.fourier(size, 0.6), PLANE, 1).state
        assert np.allclose(np.linalg.norm(psi(x), axis=1), 1, rtol=0, atol=1e-12)
        errors.append(np.abs((psi(x) * psi(y)).sum(1) - kernel).mean())
    assert errors[1] < 0.02
    assert errors[1] < errors[0] / 4


def test_fourier_features_are_those_of_their_seed():
    one, same, other = (fs.bind(fs.fourier(10, seed=seed), PLANE, 1)(inside(5)) for seed in (0, 0, 1))
    np.testing.assert_array_equal(one, same)
    assert np.abs(one - other).max() > 0.1


def test_a_polynomial_has_every_product_once():
    x = inside(6)
    u = (x - [0, 5]) / [2, 5]
    psi = fs.bind(fs.polynomial(3), PLANE, 1).state(x)
    brute = [u[:, 0] ** i * u[:, 1] ** j for i, j in product(range(4), repeat=2) if i + j <= 3]
    brute = np.stack(brute, 1) / np.sqrt(10)
    order = lambda columns: columns[:, np.lexsort(columns)]
    np.testing.assert_allclose(order(psi), order(brute), rtol=0, atol=1e-14)


def test_centres_are_normalised_exponentials():
    x = inside(6)
    at = np.array([[0.0, 5.0], [1.0, 2.0], [-1.0, 9.0]])
    apart = ((x[:, None] - at) / [2, 5] / 0.4) ** 2
    brute = np.exp(-apart.sum(-1) / 2)
    psi = fs.bind(fs.centres(at, 0.4), PLANE, 1).state(x)
    np.testing.assert_allclose(psi, brute / np.linalg.norm(brute, axis=1, keepdims=True), rtol=0, atol=1e-14)


def test_far_from_every_centre_the_nearest_one_answers():
    psi = fs.bind(fs.centres(np.array([[0.0, 5.0], [1.0, 2.0]]), 0.001), PLANE, 1).state(np.array([[2.0, 0.0]]))
    np.testing.assert_allclose(psi, [[0.0, 1.0]])


@given(st.integers(1, 9), st.integers(1, 6))
@settings(max_examples=20, deadline=None)
def test_tiles_light_one_tile_in_every_tiling(tilings, bins):
    features = fs.bind(fs.tiles(tilings, bins), PLANE, 1)
    corners = np.array([[-2.0, 0.0], [2.0, 10.0], [-2.0, 10.0], [9.0, -9.0]])
    psi = features.state(np.concatenate([inside(10), corners])).reshape(14, tilings, -1)
    np.testing.assert_allclose(psi.max(-1), 1 / np.sqrt(tilings))
    assert ((psi > 0).sum(-1) == 1).all()


def test_tilings_differ_along_every_coordinate():
    line = np.stack([np.linspace(-2, 2, 400), np.full(400, 5.0)], 1)
    for x in (line, line[:, ::-1] * [0, 2.5] + [0, 5]):
        psi = fs.bind(fs.tiles(4, 2), PLANE, 1).state(x)
        assert len(np.unique(psi, axis=0)) >= 8  # two tiles distinguished in four steps each


@pytest.mark.filterwarnings("error")
def test_sizes_whose_squares_overflow_are_measured_without_a_warning():
    huge = np.array([[[3e200, 4e200]], [[0.0, 0.0]]])
    with pytest.raises(EverystepError, match=r"norm of 5e\+200"):
        fs.bind(fs.table(huge), discrete(2), 1)
    assert np.allclose(fs.bind(fs.table(huge, normalise=True), discrete(2), 1)(np.array([0])), [[[0.6, 0.8]]])
