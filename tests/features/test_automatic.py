"""Features by evidence: the formula against scikit-learn and SciPy, and what is chosen on data whose scale is known."""

import numpy as np
import pytest
from gymnasium import spaces
from scipy.stats import multivariate_normal
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, DotProduct, WhiteKernel

from everystep.errors import EverystepError
from everystep.features import automatic, polynomial
from everystep.features.automatic import Choice, Seen

pytestmark = pytest.mark.quick
BOX = spaces.Box(-1, 1, (2,), np.float64)
BOUNDS = (np.full(2, -1.0), np.full(2, 1.0))


def test_the_evidence_is_that_of_a_gaussian_process_with_a_dot_product_kernel():
    rng = np.random.default_rng(0)
    phi, y = rng.normal(size=(30, 4)), rng.normal(size=30)
    found, ridge = automatic.log_evidence(phi, np.zeros(30, int), y[:, None])
    by_ridge = []
    for lam in automatic.RIDGES:
        K = np.eye(30) + phi @ phi.T / lam
        variance = max(y @ np.linalg.solve(K, y) / 30, automatic.PRECISION)
        kernel = ConstantKernel(variance / lam) * DotProduct(1e-9) + WhiteKernel(variance)
        process = GaussianProcessRegressor(kernel, alpha=0, optimizer=None).fit(phi, y)
        by_ridge.append(process.log_marginal_likelihood_value_)
    assert found[0] == pytest.approx(max(by_ridge), rel=1e-8)
    assert ridge[0] == automatic.RIDGES[np.argmax(by_ridge)]


def test_actions_are_blocks_of_one_model_and_exact_targets_have_the_least_noise():
    rng = np.random.default_rng(1)
    phi, actions = rng.normal(size=(24, 3)), rng.integers(0, 2, 24)
    y = np.where(actions == 1, phi[:, 0], -phi[:, 2])  # without noise, and linear for each action
    found, ridge = automatic.log_evidence(phi, actions, y[:, None])
    crossed = np.concatenate([phi * (actions == a)[:, None] for a in (0, 1)], 1)
    K = automatic.PRECISION * (np.eye(24) + crossed @ crossed.T / ridge[0])
    assert found[0] == pytest.approx(multivariate_normal(np.zeros(24), K).logpdf(y), rel=1e-8)


def data(f, n=600):
    rng = np.random.default_rng(2)
    x, a = rng.uniform(-1, 1, (n, 2)), rng.integers(0, 2, n)
    return Seen(x, a, np.asarray(f(x, a), float)[:, None])


def lengths(choice: Choice):
    return automatic.to_plain(choice.spec)["lengths"]


def test_the_scale_of_each_coordinate_is_recovered():
    for quick in (0, 1):
        seen = data(lambda x, a, j=quick: np.sin(5 * x[:, j] + a) + 0.2 * x[:, 1 - j])
        found = lengths(automatic.choose(BOX, 2, seen, BOUNDS, 0, polynomials=True))
        assert found[quick] < 1
        assert found[1 - quick] == 2


def test_the_fewest_products_that_fit_are_chosen():
    line = automatic.choose(BOX, 2, data(lambda x, a: x[:, 0] - a * x[:, 1]), BOUNDS, 0, polynomials=True)
    bowl = automatic.choose(BOX, 2, data(lambda x, a: x[:, 0] * x[:, 1]), BOUNDS, 0, polynomials=True)
    assert str(line.spec) == str(polynomial(1, [-1.0, -1.0], [1.0, 1.0]))
    assert str(bowl.spec) == str(polynomial(2, [-1.0, -1.0], [1.0, 1.0]))
    assert lengths(automatic.choose(BOX, 2, data(lambda x, a: x[:, 0]), BOUNDS, 0, polynomials=False)) == [2.0, 2.0]
    wave = automatic.choose(BOX, 2, data(lambda x, a: np.sin(6 * x[:, 0])), BOUNDS, 0, polynomials=True)
    assert automatic.described(wave.spec) == "fourier(75, lengthscale=[0.5, 2])"


def test_one_target_that_features_cannot_represent_is_not_outweighed_by_others():
    seen = data(lambda x, a: np.sin(6 * x[:, 1]))
    linear = np.stack([seen.observations @ w for w in np.random.default_rng(4).normal(size=(9, 2))], 1)
    many = Seen(seen.observations, seen.actions, np.concatenate([seen.targets, linear], 1))
    assert lengths(automatic.choose(BOX, 2, many, BOUNDS, 0, polynomials=True))[1] == 0.5


def test_the_same_data_and_seed_give_the_same_choice_which_survives_as_numbers():
    seen = data(lambda x, a: np.sin(4 * x[:, 0]), n=automatic.MOST_ROWS + 50)
    one, again = (automatic.choose(BOX, 2, seen, BOUNDS, 5, polynomials=True) for _ in range(2))
    assert str(one.spec) == str(again.spec)
    assert one.ridge == again.ridge
    for spec in (one.spec, polynomial(2, [-1.0, -2.0], [1.0, 2.0])):
        assert str(automatic.from_plain(automatic.to_plain(spec), 5)) == str(spec)


def test_targets_that_never_change_leave_the_standard():
    assert lengths(automatic.choose(BOX, 2, data(lambda x, a: 0 * a), BOUNDS, 0, polynomials=True)) == [1.0, 1.0]


def test_bounds_are_declared_ones_or_a_wider_range_of_what_was_seen():
    space = spaces.Box(np.array([-4, -np.inf, -1e9]), np.array([4, np.inf, 1e9]), dtype=np.float64)
    x = np.stack([np.linspace(0, 1, 201), np.linspace(10, 12, 201), np.linspace(0, 1, 201)], 1)
    low, high = automatic.look(space, x)
    assert (low[0], high[0]) == (-4, 4)
    assert low[1] == pytest.approx(9, abs=0.03)
    assert high[1] == pytest.approx(13, abs=0.03)
    assert low[2] == pytest.approx(-0.5, abs=0.03)  # declared bounds of which hardly anything was seen
    assert [each.tolist() for each in automatic.look(space, x[:0])] == [[-4, -1, -1e9], [4, 1, 1e9]]
    low, high = automatic.look(space, x[:1].repeat(3, 0))  # a coordinate that never changed
    assert (low < high).all()


def test_length_scales_are_in_units_of_what_was_seen():
    """A coordinate of which a twentieth is used gets features twenty times as fine, and the declared bounds."""
    wide = (np.array([-20.0, -1.0]), np.array([20.0, 1.0]))
    seen = data(lambda x, a: np.sin(4 * x[:, 0]))
    found = automatic.choose(spaces.Box(*wide, dtype=np.float64), 2, seen, wide, 0, polynomials=False)
    narrow = automatic.choose(BOX, 2, seen, BOUNDS, 0, polynomials=False)
    share = automatic.share_seen(wide, seen.observations)
    assert share[0] == pytest.approx(0.1, rel=0.05)  # what was seen and half of it more on each side
    assert share[1] == 1
    assert found.spec.settings["parts"][0].settings["low"] == [-20.0, -1.0]
    assert lengths(found)[0] <= 2 * share[0] + 1e-9
    assert found.evidence.mean() >= narrow.evidence.mean() - 0.3
    still = np.zeros((3, 2))
    np.testing.assert_array_equal(automatic.share_seen(wide, still), 1)  # coordinates that never changed


@pytest.mark.parametrize(
    ("space", "words"),
    [
        (spaces.Box(0, 255, (8, 8, 3), np.uint8), r"have 192 numbers, .* at most 64; give features="),
        (spaces.Dict(a=BOX, b=BOX), "not for a dictionary or a tuple"),
    ],
)
def test_images_and_dictionaries_are_refused_with_advice(space, words):
    with pytest.raises(EverystepError, match=words):
        automatic.check_space(space)
