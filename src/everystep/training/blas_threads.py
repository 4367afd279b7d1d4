"""Linear algebra with one thread while an agent learns.

The last digits of a product depend on how many threads BLAS divides it among, and so on the machine. With one thread a
training has the same bits by the command, from Python, in processes and on a cluster. It costs no time: the matrices
are small, and on a busy machine several threads are several times slower.

Compiled work is asynchronous: a block waits for it, because what ended later would use as many threads as before.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

import jax
import scipy.linalg  # noqa: F401  its BLAS, which JAX uses, must be loaded before it is limited
from threadpoolctl import threadpool_limits


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """For a block, or for a function that it decorates."""
    with threadpool_limits(1, user_api="blas"):
        try:
            yield
        finally:
            for each in jax.live_arrays():
                with suppress(RuntimeError):  # deleted by another thread; or it failed, which is raised at its use
                    each.block_until_ready()
