"""Features: norms, formulas against brute force, spaces of all kinds, saved and made again, and what is refused."""

import io
import json
from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import everystep as es
from everystep import features as fs
from everystep.errors import EverystepError

pytestmark = pytest.mark.quick


def box(low, high):
    low, high = np.broadcast_arrays(np.asarray(low, np.float32), np.asarray(high, np.float32))
    return SimpleNamespace(low=low, high=high, shape=low.shape)


def discrete(n, start=0):
    return SimpleNamespace(n=n, start=start, shape=())


def bunch(*spaces):
    return SimpleNamespace(spaces=spaces)


PLANE = box([-2.0, 0.0], [2.0, 10.0])
OF_STATES = {
    "fourier": fs.fourier(30, 0.7, seed=1),
    "fourier with a constant": fs.fourier(5, (0.3, 2.0), constant=True),
    "centres on a grid": fs.centres((4, 3)),
    "given centres": fs.centres([[0.0, 5.0], [1.0, 2.0], [-1.0, 9.0]], 0.4),
    "polynomial": fs.polynomial(3),
    "tiles": fs.tiles(4, (5, 3)),
    "joined": fs.joined(fs.tiles(2, 2), fs.polynomial(1), fs.fourier(3)),
}
OF_PAIRS = {
    "mirrored": fs.mirrored(fs.fourier(7, 0.8, seed=2), actions=[1, 0]),
    "mirrored in one coordinate": fs.mirrored(fs.joined(fs.tiles(2, 3), fs.polynomial(2)), [1, 0], signs=[-1, 1]),
    "mirrored actions alone": fs.mirrored(fs.polynomial(2), actions=[0, 1]),
}
OF_A_LIST = {
    "one-hot": fs.one_hot(),
    "table": fs.table(np.random.default_rng(0).dirichlet(np.ones(3), (6, 2))),
    "table of states": fs.table(np.eye(6, 3)),
    "table divided": fs.table(5 * np.random.default_rng(1).normal(size=(6, 2, 4)), normalise=True),
    "function": fs.function(lambda x: np.array([[1.0, x], [x, 1.0]]) / 9),
    "function of states": fs.function(lambda x: np.array([0.5, x / 12]), crossed=True),
}


def inside(n, seed=0):
    return np.random.default_rng(seed).uniform([-2, 0], [2, 10], (n, 2))


def made(name):
    """Features of a name above with two actions, and some observations for them."""
    if name in OF_STATES | OF_PAIRS:
        return fs.bind((OF_STATES | OF_PAIRS)[name], PLANE, 2), inside(20)
    return fs.bind(OF_A_LIST[name], discrete(6, start=3), 2), np.arange(3, 9)


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


def test_mirrored_features_as_text_are_those_of_the_function():
    from everystep.features import syntax

    spec = syntax.read("mirrored(fourier(20, lengthscale=0.5), actions=[1, 0], signs=[-1, 1])")
    again = fs.mirrored(fs.fourier(20, lengthscale=0.5), [1, 0], [-1, 1])
    np.testing.assert_array_equal(fs.bind(spec, PLANE, 2)(inside(4)), fs.bind(again, PLANE, 2)(inside(4)))
    assert str(again) == "mirrored(spec=fourier(size=20, lengthscale=0.5, seed=0), actions=(1, 0), signs=(-1.0, 1.0))"


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: fs.mirrored(fs.fourier(5), [1, 2, 0]), "the image of 0 is 1, but that of 1 is 2"),
        (lambda: fs.mirrored(fs.fourier(5), [1]), r"actions of mirrored are \[1\]; give the image of each action"),
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


def shoved(x):
    """Where two actions lead: one to the left or to the right."""
    return [[x[0] - 1, x[1]], [x[0] + 1, x[1]]]


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


def test_observations_outside_their_bounds_are_clipped_and_reported():
    features = fs.bind(fs.polynomial(1), PLANE, 1)
    np.testing.assert_array_equal(features(np.array([[50.0, -3.0]])), features(np.array([[2.0, 0.0]])))
    assert features.remarks == ("observations were scaled to [-1, 1] from -2 to 2, 0 to 10, and clipped outside",)


def test_bounds_given_replace_those_of_the_space_where_they_are_given():
    space = box([-4.8, -np.inf], [4.8, np.inf])
    features = fs.bind(fs.polynomial(1, low=[None, -3], high=[None, 3]), space, 1)
    np.testing.assert_allclose(features(np.array([[2.4, 1.5]]))[0, 0] * np.sqrt(3), [1, 0.5, 0.5], rtol=1e-6)


def test_one_hot_counts_the_members_of_a_tuple_of_lists():
    space = bunch(discrete(3), SimpleNamespace(nvec=np.array([2, 4]), shape=(2,)))
    features = fs.bind(fs.one_hot(), space, 2)
    every = np.array(list(product(range(3), range(2), range(4))), float)
    np.testing.assert_array_equal(features.state(every), np.eye(24))


def test_an_observation_of_any_kind_becomes_a_row():
    assert fs.flatten(np.int64(3)).shape == ()
    assert fs.flatten(3) == 3
    np.testing.assert_array_equal(fs.flatten(((1, 2.5), np.eye(2))), [1, 2.5, 1, 0, 0, 1])
    np.testing.assert_array_equal(fs.flatten({"b": np.array([2.0]), "a": 1}), [1, 2])
    assert fs.flatten(np.float32(0.5)).shape == (1,)


def test_spaces_of_gymnasium_are_understood():
    spaces = pytest.importorskip("gymnasium").spaces
    space = spaces.Dict(
        {
            "speed": spaces.Box(0, 10, (2, 2)),
            "gear": spaces.Discrete(5, start=1),
            "lights": spaces.MultiBinary(3),
            "doors": spaces.MultiDiscrete([2, 3]),
            "pair": spaces.Tuple((spaces.Discrete(2), spaces.Box(-1, 1, ()))),
        }
    )
    space.seed(0)
    obs = np.stack([fs.flatten(space.sample()) for _ in range(10)])
    features = fs.bind(fs.fourier(20), space, 3)
    assert obs.shape == (10, 12)
    assert features(obs).shape == (10, 3, features.d)
    single = spaces.Discrete(4, start=2)
    np.testing.assert_array_equal(
        fs.bind(fs.one_hot(), single, 1).state(np.array([fs.flatten(2), fs.flatten(5)]))[0, 0], 1
    )
    assert fs.bind(fs.fourier(5), single, 1)(np.array([2, 5])).shape == (2, 1, 10)


def test_a_function_of_a_list_is_kept_as_a_table_and_so_can_be_saved():
    features, obs = made("function")
    assert "phi" in features.arrays()
    np.testing.assert_allclose(features(obs)[1], np.array([[1.0, 4], [4, 1]]) / 9)


def test_a_function_of_vectors_is_called_on_each():
    features = fs.bind(lambda x: np.stack([x, -x]) / 20, PLANE, 2)
    assert features.d == 2
    np.testing.assert_allclose(features(inside(3))[:, 1], -inside(3) / 20)
    with pytest.raises(EverystepError, match=r"a custom function \(<lambda>\), which is not saved; give features= a"):
        fs.rebuild(features.to_json(), features.arrays())
    again = fs.rebuild(features.to_json(), features.arrays(), lambda x: np.stack([x, -x]) / 20)
    np.testing.assert_array_equal(again(inside(3)), features(inside(3)))


def test_long_features_of_a_function_are_cut_only_if_asked():
    f = lambda x: np.stack([x, 0 * x])
    with pytest.raises(EverystepError, match="returned a norm of 5; it must be at most 1: divide"):
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
    "no finite bounds at coordinate 1, 3; give fourier low= and high= .4 numbers": lambda: fs.bind(
        fs.fourier(), box([-4.8, -np.inf, -0.4, -3.4e38], [4.8, np.inf, 0.4, 3.4e38]), 2
    ),
    "low of tiles is 3 and high is 2 at coordinate 0": lambda: fs.bind(fs.tiles(low=3), PLANE, 1),
    "high of tiles is .*; give a number, or 2 of them": lambda: fs.bind(fs.tiles(high=[1, 2, 3]), PLANE, 1),
    "one_hot needs observations that are integers": lambda: fs.bind(fs.one_hot(), PLANE, 1),
    "has a norm of 2; it must be at most 1: divide by it, or pass normalise=True": lambda: fs.bind(
        np.full((3, 2, 1), 2.0), discrete(3), 2
    ),
    "table has 3 rows, but there are 4 observations": lambda: fs.bind(np.zeros((3, 2, 1)), discrete(4), 2),
    r"table has shape \(3, 2, 1\), but there are 5 actions; give shape \(3, 5, 1\)": lambda: fs.bind(
        np.zeros((3, 2, 1)), discrete(3), 5
    ),
    r"phi of table has shape \(3,\)": lambda: fs.table(np.zeros(3)),
    "phi of table holds nan": lambda: fs.table(np.full((2, 2), np.nan)),
    "size of fourier is 0": lambda: fs.fourier(0),
    "lengthscale of fourier is -1": lambda: fs.fourier(lengthscale=-1),
    "lengthscale of fourier has 3 numbers for 2 coordinates": lambda: fs.bind(fs.fourier(2, (1, 2, 3)), PLANE, 1),
    "centres have 3 coordinates, but observations have 2": lambda: fs.bind(fs.centres(np.zeros((4, 3)), 1.0), PLANE, 1),
    "tiles makes 80000 features of a state, more than 20000; ask for fewer bins": lambda: fs.bind(
        fs.tiles(8, 9), box([0] * 4, [1] * 4), 1
    ),
    "polynomial makes .* choose a lower degree": lambda: fs.bind(fs.polynomial(9), box([0] * 40, [1] * 40), 1),
    r"returned shape \(2, 3\); return \(4, d\) per observation": lambda: fs.bind(lambda x: np.zeros((2, 3)), PLANE, 4),
    r"returned shape \(2,\); return \(4, 2\) per observation": lambda: fs.bind(
        fs.function(lambda x: np.zeros(2), d=2), PLANE, 4
    )(inside(1)),
    "failed at observation .* .RuntimeError: no sensor": lambda: fs.bind(raises, PLANE, 2),
    "returned inf at observation": lambda: fs.bind(lambda x: np.full((2, 2), np.inf), PLANE, 2),
    "features are 'fourier'; give auto, everystep.features": lambda: fs.bind("fourier", PLANE, 2),
    r"observations have shape \(2,\); these features need \(n, 2\)": lambda: made("tiles")[0](np.zeros(2)),
    "an observation is nan at coordinate 1": lambda: made("tiles")[0](np.array([[0.0, np.nan]])),
    "an observation is 9 at coordinate 0; it must be a whole number from 3 to 8": lambda: made("one-hot")[0](
        np.array([4, 9])
    ),
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


@pytest.mark.filterwarnings("error")
def test_sizes_whose_squares_overflow_are_measured_without_a_warning():
    huge = np.array([[[3e200, 4e200]], [[0.0, 0.0]]])
    with pytest.raises(EverystepError, match=r"norm of 5e\+200"):
        fs.bind(fs.table(huge), discrete(2), 1)
    assert np.allclose(fs.bind(fs.table(huge, normalise=True), discrete(2), 1)(np.array([0])), [[[0.6, 0.8]]])
