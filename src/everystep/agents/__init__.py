"""Named agents, their settings, and how both become an algorithm on a problem."""

from everystep.agents.registry import (
    REGISTERED,
    Recipe,
    lsvi,
    lsvi_ae,
    lsvi_new,
    lsvi_primal,
    recipe,
    rpol,
    rslucb_qvi,
    slucb_qvi,
    uniform,
)

__all__ = [
    "REGISTERED",
    "Recipe",
    "lsvi",
    "lsvi_ae",
    "lsvi_new",
    "lsvi_primal",
    "recipe",
    "rpol",
    "rslucb_qvi",
    "slucb_qvi",
    "uniform",
]
