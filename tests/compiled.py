"""Count the programs that JAX compiles, or reads from its cache on disk."""

from collections.abc import Callable

from jax import monitoring

_seen: list[str] = []
monitoring.register_event_duration_secs_listener(lambda event, *_, **__: _seen.append(event))


def programs(f: Callable[[], object]) -> int:
    """How many programs a call needs."""
    before = len(_seen)
    f()
    return _seen[before:].count("/jax/core/compile/backend_compile_duration")
