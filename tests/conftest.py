"""Strict everywhere: shapes checked at run time, no silent promotion of types or ranks, 64-bit numbers."""

import os

# Tests compile hundreds of small programs and run each for a moment: that is quicker without LLVM's optimisations.
os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_backend_optimization_level=0"

import jax
import pytest
from jaxtyping import install_import_hook

install_import_hook(["everystep.parts", "everystep.lsvi", "everystep.drive"], "beartype.beartype")

jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")


def pytest_terminal_summary(terminalreporter):
    """Pages that no browser opened are said aloud: a line that nobody overlooks, with the reason."""
    reasons = {str(report.longrepr[2]) for report in terminalreporter.stats.get("skipped", []) if report.longrepr}
    for reason in sorted(each for each in reasons if "no browser" in each):
        terminalreporter.write_sep("!", f"BROWSER TESTS DID NOT RUN: {reason}", red=True, bold=True)


@pytest.fixture(autouse=True)
def _double_precision():
    with jax.enable_x64(True):
        yield


@pytest.fixture(scope="session")
def lake():
    from everystep.problems import frozen_lake

    return frozen_lake()
