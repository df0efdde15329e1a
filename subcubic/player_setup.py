"""What the verbs of the player need before they begin: its libraries, a device, a place for what JAX compiles."""

from __future__ import annotations

import os

from subcubic.errors import UsageError
from subcubic.options import Device

_LIBRARIES = ("mctx", "flax", "optax", "orbax")


def prepare(device: Device = Device.AUTO) -> None:
    """Refuse in one sentence what is not here, and keep what JAX compiles for the next run.

    Args:
        device: where to play; the GPU if there is one, for ``auto``.

    Raises:
        UsageError: the extra is not installed.
        DeviceMissingError: JAX finds no GPU.
    """
    from importlib.util import find_spec

    missing = [name for name in _LIBRARIES if find_spec(name) is None]
    if missing:
        raise UsageError(f"the player needs {', '.join(missing)}: pip install -e '.[player]' in the checkout")
    import jax

    if device is Device.CPU:
        jax.config.update("jax_platforms", "cpu")
    if device is Device.GPU and jax.default_backend() != "gpu":
        from evaluate.device import DeviceMissingError

        raise DeviceMissingError("JAX finds no GPU; install the extra cuda13 or cuda12, or use --device cpu")
    _keep_compiled()


def _keep_compiled() -> None:
    """Keep what JAX compiles, half a minute's work, unless the user has chosen a place for it."""
    import jax

    from catalog.files import cache_folder

    if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
        jax.config.update("jax_compilation_cache_dir", str(cache_folder() / "jax"))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.5)
