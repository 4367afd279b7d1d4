"""Linear algebra with one thread inside of a block, and as before after it."""

import jax
import jax.numpy as jnp
import pytest
from jax import lax
from threadpoolctl import threadpool_info, threadpool_limits

from everystep.training.blas_threads import one_blas_thread

pytestmark = pytest.mark.quick


def threads():
    return {each["num_threads"] for each in threadpool_info() if each["user_api"] == "blas"}


def test_one_thread_in_a_block_and_in_a_decorated_function_also_after_an_error():
    with threadpool_limits(2, user_api="blas"):
        before = threads()
        with one_blas_thread():
            assert threads() == {1}
        assert threads() == before
        with pytest.raises(KeyError), one_blas_thread():
            raise KeyError
        assert threads() == before
        assert one_blas_thread()(threads)() == {1}


def test_a_block_ends_after_the_compiled_work_that_it_began():
    work = jax.jit(lambda x: lax.fori_loop(0, 50, lambda i, y: y @ y / 300, x))
    with one_blas_thread():
        made = work(jnp.ones((300, 300)))
    assert made.is_ready()
