"""Kernels: the formulas against scikit-learn, their text, and what is refused."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.gaussian_process import kernels as sk

from everystep import kernels
from everystep.errors import EverystepError
from everystep.kernels import (
    RBF,
    Categorical,
    Constant,
    Custom,
    Difference,
    Linear,
    Matern32,
    Matern52,
    check_gram,
    gram,
)

pytestmark = pytest.mark.quick
rng = np.random.default_rng(0)
Y, Z = rng.normal(size=(7, 3)), rng.normal(size=(5, 3))

SAME = {
    "rbf": (RBF(1.7), sk.RBF(1.7)),
    "matern32": (Matern32(0.8), sk.Matern(0.8, nu=1.5)),
    "matern52": (Matern52(2.1), sk.Matern(2.1, nu=2.5)),
    "linear": (Linear(0.3), 0.3 * sk.DotProduct(0)),
    "constant": (Constant(0.4), sk.ConstantKernel(0.4)),
    "a sum": (0.4 * RBF(1.0) + 0.6 * Matern32(2.0), 0.4 * sk.RBF(1.0) + 0.6 * sk.Matern(2.0, nu=1.5)),
    "a product": (RBF(1.0) * Matern52(2.0), sk.RBF(1.0) * sk.Matern(2.0, nu=2.5)),
}


@pytest.mark.parametrize("name", SAME)
def test_a_kernel_equals_scikit_learns(name):
    ours, theirs = SAME[name]
    np.testing.assert_allclose(gram(ours, jnp.asarray(Y), jnp.asarray(Z)), theirs(Y, Z), rtol=0, atol=1e-12)
    np.testing.assert_allclose(kernels.diagonal(ours, jnp.asarray(Y)), theirs.diag(Y), rtol=0, atol=1e-12)


def test_a_categorical_kernel_is_1_for_equal_points_only():
    a = {"action": jnp.array([[0.0], [1.0], [0.0]])}
    np.testing.assert_allclose(gram(Categorical(), a, a), [[1, 0, 1], [0, 1, 0], [1, 0, 1]])
    np.testing.assert_allclose(gram(Categorical(0.25), a, a)[0], [1, 0.25, 1])


def test_a_difference_kernel_is_the_covariance_of_a_difference():
    field = gram(RBF(1.3), jnp.asarray(Y[:, :1]), jnp.asarray(Y[:, :1]))
    moves = np.stack([Y[[0, 2, 4], 0], Y[[1, 3, 5], 0]], 1)
    D = np.zeros((3, 7))
    D[range(3), [0, 2, 4]], D[range(3), [1, 3, 5]] = -1, 1
    ours = gram(Difference(RBF(1.3)), jnp.asarray(moves), jnp.asarray(moves))
    np.testing.assert_allclose(ours, D @ np.asarray(field) @ D.T, atol=1e-12)


def test_a_kernel_looks_only_at_what_it_is_on():
    points = {"position": jnp.asarray(Y[:, :2]), "action": jnp.asarray(Y[:, 2:])}
    np.testing.assert_allclose(gram(RBF(2.0, on="position"), points, points), sk.RBF(2.0)(Y[:, :2]), atol=1e-12)


def test_a_custom_function_is_a_kernel():
    mine = Custom(lambda y, z: jnp.exp(-jnp.abs(y - z).sum()))
    both = 0.5 * mine + 0.5 * RBF(1.0)
    expected = 0.5 * np.exp(-np.abs(Y[:, None] - Z).sum(-1)) + 0.5 * sk.RBF(1.0)(Y, Z)
    np.testing.assert_allclose(gram(both, jnp.asarray(Y), jnp.asarray(Z)), expected, atol=1e-12)


@pytest.mark.parametrize("kernel", [RBF(1.0), Matern32(1.0), Matern52(1.0)], ids=str)
def test_gradients_are_finite_where_points_coincide(kernel):
    y = jnp.ones(3)
    slopes = jax.grad(lambda k: k(y, y) + k(y, 2 * y))(kernel)
    assert np.isfinite(slopes.length)
    assert slopes.length > 0


numbers = st.floats(0.01, 9).map(lambda value: float(f"{value:.3g}"))
names = st.sampled_from(["position", "landing", "action"])

simple = st.one_of(
    st.builds(RBF, numbers, on=names),
    st.builds(Matern32, numbers, on=names),
    st.builds(Matern52, numbers, on=names),
    st.builds(Linear, numbers, on=names),
    st.builds(Categorical, on=names),
    st.builds(Constant, numbers),
    st.builds(lambda length: Difference(RBF(length), on="move"), numbers),
)

any_kernel = st.recursive(
    simple,
    lambda inner: st.one_of(
        st.builds(lambda a, b: a + b, inner, inner),
        st.builds(lambda a, b: a * b, inner, inner),
        st.builds(lambda w, k: w * k, numbers, inner),
    ),
    max_leaves=5,
)


@settings(deadline=None, max_examples=40)
@given(any_kernel)
def test_the_text_of_a_kernel_means_the_same_kernel(kernel):
    again = kernels.read(str(kernel))
    points = {
        "position": jnp.asarray(Y[:, :2]),
        "landing": jnp.asarray(Y[:, 1:]),
        "action": jnp.asarray(Y[:, :1]),
        "move": jnp.asarray(Y[:, :2]),
    }
    first, second = ({name: each[i] for name, each in points.items()} for i in (0, 3))
    np.testing.assert_allclose(again(first, second), kernel(first, second), rtol=1e-9)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("rbff(2)", "Did you mean rbf"),
        ("rbf(2, 3)", "rbf takes length and on"),
        ("rbf(-1)", "give a number above 0"),
        ("rbf(0)", "give a number above 0"),
        ("rbf(2) + 1", "write constant"),
        ("rbf(2) - rbf(3)", r"\+ and \* only"),
        ("rbf(on=2)", "with a name"),
        ("difference(2)", "difference takes field"),
        ("difference(on=move)", "difference takes field"),
        ("__import__('os').system('true')", "names of kernels"),
        ("open('x')", "no kernel 'open'"),
        ("2", "not a number"),
        ("rbf(", "write a kernel"),
        ("rbf(1" + "0" * 400 + ")", "fewer parts and smaller numbers"),
        ("+".join(["rbf(1)"] * 3000), "write a kernel"),
        ("", "write a kernel"),
    ],
)
def test_a_wrong_text_is_refused_with_a_remedy(text, message):
    with pytest.raises(ValueError, match=message):
        kernels.read(text)


@pytest.mark.parametrize(
    ("K", "message"),
    [
        ([[1, 0.9, 0], [0.9, 1, 0.9], [0, 0.9, 1]], "not positive semi-definite"),
        ([[1, 0.2], [0.1, 1]], "not symmetric"),
        ([[2.0, 0], [0, 1]], r"k\(y, y\) = 2; multiply it by 0.5"),
        ([[1, np.nan], [np.nan, 1]], "must be finite"),
    ],
)
def test_what_is_no_kernel_is_refused_in_a_sentence(K, message):
    with pytest.raises(EverystepError, match=message):
        check_gram(np.array(K, float), "mine")


def test_a_kernel_that_is_not_positive_semi_definite_is_refused_before_a_run(lake):
    import everystep as es

    indefinite = Custom(lambda y, z: jnp.where((y == z).all(), 1.0, jnp.sin(7.0 * (y - z).sum() ** 2)), on="landing")
    with pytest.raises(EverystepError, match=r"<lambda>, on=landing.* positive semi-definite"):
        es.run(lake, es.agents.lsvi_ae(cost=es.gp(indefinite)), episodes=1, seeds=1)


def test_kernels_add_to_kernels_and_multiply_by_numbers_above_0():
    with pytest.raises(EverystepError, match="add kernels, and Constant"):
        RBF(1.0) + 0.1
    for factor in (0, -1, np.inf, "2"):
        with pytest.raises(EverystepError, match="multiply by kernels and by numbers above 0"):
            RBF(1.0) * factor


def test_two_functions_of_one_name_differ_in_the_spec():
    import everystep as es

    pond = es.problems.from_map(("SF", "FG"), horizon=3)

    def mine(scale):
        def kernel(y, z):
            return jnp.exp(-scale * ((y - z) ** 2).sum())

        return es.agents.lsvi_ae(cost=es.gp(Custom(kernel, on="landing"))).resolve(pond, 3)["cost"]

    assert mine(1.0) == mine(1.0)
    assert mine(1.0) != mine(2.0)
    assert mine(1.0).startswith("gp(custom(kernel, on=landing)) #")
