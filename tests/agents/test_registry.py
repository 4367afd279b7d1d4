"""Signatures, docstrings and the stub of agents come from their settings."""

import inspect
import runpy
from pathlib import Path

import pytest

import everystep as es

pytestmark = pytest.mark.quick


def parameters(of):
    return inspect.signature(of).parameters


def test_the_signature_and_the_docstring_of_an_agent_show_its_settings():
    for name, definition in es.agents.REGISTERED.items():
        if make := getattr(es.agents, name.replace("-", "_"), None):
            assert set(parameters(make)) == set(definition.settings)
            for key in definition.settings:
                assert f"\n{key} " in make.__doc__
    shown = parameters(es.agents.lsvi_ae)
    assert (shown["optimism"].default, shown["beta"].default, shown["rectify"].default) == (1.0, "auto", True)
    assert "beta: float | Literal[\"auto\"] = 'auto'" in str(inspect.signature(es.agents.lsvi_ae))
    front, _, behind = es.agents.lsvi_ae.__doc__.partition("Its settings:")
    assert "argmax_a" in front
    assert ">>> " in behind


def test_the_stub_of_the_agents_is_current():
    release = Path(__file__).resolve().parents[2] / "release" / "stub.py"
    found = runpy.run_path(str(release))
    assert found["stub"]() == found["STUB"].read_text(encoding="utf-8").removesuffix("\n"), "run `make stub`"
