"""Models as text: they read back, and wrong ones are refused with a remedy."""

import pytest

from everystep.agents.model_syntax import GP, gp
from everystep.agents.model_syntax import read as read_cost
from everystep.agents.model_syntax import text as cost_text
from everystep.errors import EverystepError
from everystep.kernels import (
    RBF,
)

pytestmark = pytest.mark.quick


@pytest.mark.parametrize("text", ["auto", "counts", "gp", "gp(rbf(2, on=landing), points=growing)", "[gp, counts]"])
def test_a_cost_model_reads_back_from_its_text(text):
    assert cost_text(read_cost(text)) == text


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("gpp", "write auto, counts"),
        ("gp(2)", "the kernel is 2"),
        ("gp(rbf(2), speed=3)", "gp takes a kernel and points"),
        ("gp(rbf(1), kernel=rbf(2))", "gp takes a kernel"),
        ("gp(points=cloud)", "points is cloud"),
        ("[[gp]]", "write auto"),
        (3, "write auto"),
        ("[]", "write auto"),
    ],
)
def test_a_wrong_cost_model_is_refused_with_a_remedy(value, message):
    with pytest.raises(ValueError, match=message):
        read_cost(value)


def test_a_wrong_gaussian_process_made_in_python_is_refused():
    assert read_cost("gp(kernel=rbf(2, on=landing))") == gp("rbf(2, on=landing)")
    assert gp("rbf(2, on=landing)") == GP(RBF(2.0, on="landing"))
    with pytest.raises(EverystepError, match="gp of nonsense: no kernel"):
        gp("nonsense")
    with pytest.raises(EverystepError, match=r"give one of everystep\.kernels"):
        gp(7)
