"""Trained weights as a file: one npz with the arrays of the model and, as JSON, what decides and describes them."""

from __future__ import annotations

import json
import os
import secrets
import zipfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from catalog.files import TEMPORARY_PREFIX, reason
from evaluate.lm import Config, Parameters, shapes
from evaluate.lm_train import Trained

_FACTS = "facts"


def save_weights(path: Path, trained: Trained, made_of: dict[str, Any]) -> None:
    """Write a model to a file, whole or not at all.

    Args:
        path: of the file; an earlier one is replaced.
        trained: the model.
        made_of: what decides it, such as its sizes, the text and the training, for ``load_weights`` to compare.

    Raises:
        OSError: the file cannot be written.
    """
    leaves = jax.tree_util.tree_leaves_with_path(trained.parameters)
    arrays: dict[str, Any] = {_key(place): np.asarray(leaf) for place, leaf in leaves}
    arrays[_FACTS] = np.array(json.dumps({"made_of": made_of, "facts": trained.facts}))
    scratch = path.parent / f"{TEMPORARY_PREFIX}{secrets.token_hex(8)}"
    try:
        with open(scratch, "xb") as file:  # by its name alone NumPy would change it
            np.savez(file, **arrays)
        os.replace(scratch, path)
    except OSError as error:
        raise OSError(f"cannot write weights to {path}: {reason(error)}; choose another place or make room") from None
    finally:
        with suppress(OSError):
            scratch.unlink(missing_ok=True)


def load_weights(path: Path, config: Config, made_of: dict[str, Any]) -> Trained:
    """Read what ``save_weights`` wrote.

    Args:
        path: of the file.
        config: of the model that is wanted.
        made_of: as when it was saved.

    Raises:
        ValueError: the file is damaged, or holds a model that came to be in another way.
        OSError: it cannot be read.
    """
    remedy = "remove it, or name another file by --weights"
    try:
        # NumPy leaves a file open that it cannot read.
        with open(path, "rb") as file, np.load(file, allow_pickle=False) as arrays:
            told = json.loads(str(arrays[_FACTS]))
            other = [key for key, value in made_of.items() if told["made_of"].get(key) != value]
            if not other:
                return Trained(_parameters(arrays, config), told["facts"])
    except (ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile) as error:
        raise ValueError(f"{path} holds no weights of a model ({error}); {remedy}") from None
    raise ValueError(f"{path} holds a model of another {' and '.join(other)}; {remedy}")


def _parameters(arrays: Any, config: Config) -> Parameters:
    def read(place: Any, wanted: Any) -> jax.Array:
        found = arrays[_key(place)]
        if found.shape != wanted.shape or found.dtype != wanted.dtype:
            raise ValueError(f"{_key(place)} is {found.dtype} {found.shape}")
        return jnp.asarray(found)

    parameters: Parameters = jax.tree_util.tree_map_with_path(read, shapes(config))
    return parameters


def _key(place: Any) -> str:
    return jax.tree_util.keystr(place)
