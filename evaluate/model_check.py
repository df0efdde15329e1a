"""Does a language model notice that its linear layers multiply by a scheme? Trains one, evaluates it both ways.

Three models with the same weights read the same held-out text: one in fp32, one in a type of 16 bits with the vendor's
GEMM, and the same with a scheme forced on every product of a linear layer. Attention's own products, norms, softmax and
the embedding are the same code in the last two.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import asdict
from pathlib import Path
from time import monotonic

import jax
import jax.numpy as jnp

from catalog.measures import growth
from codegen.build import BuildError
from evaluate.bench import Document, head
from evaluate.cases import Row, facts_of
from evaluate.corpus import Bytes, Corpus, windows
from evaluate.device import DeviceInfo, DeviceMissingError
from evaluate.kernel import KernelError
from evaluate.lm import Config, Parameters, bits, cast, forward
from evaluate.lm_train import Trained, train
from evaluate.lm_weights import load_weights, save_weights
from evaluate.model_arms import Arm, Case, jax_dtype, scheme_arm, vendor_arm
from evaluate.model_sizes import Size
from evaluate.model_statistics import INTERVAL, Tally
from evaluate.model_table import KIND
from evaluate.opened import Kernels

DTYPES = ("fp16", "bf16")


def check(
    cases: Sequence[Case],
    size: Size,
    corpus: Corpus,
    gpu: DeviceInfo | None,
    *,
    commit: str = "unknown",
    weights: Path | None = None,
    note: Callable[[str], None] = lambda text: None,
) -> Document:
    """Train a model, or read its weights, and evaluate it in fp32, by the vendor's GEMM and by each scheme.

    Args:
        cases: the schemes.
        size: of the model.
        corpus: what it reads.
        gpu: where; None for the CPU, where products are emulated.
        commit: revision of this project, for the document.
        weights: a file that keeps the trained weights; if it is there they are read from it.
        note: called with a line now and then.

    Returns:
        A document with the keys of ``evaluate.bench.head``, ``kind``, ``corpus``, ``model``, ``training``,
        ``evaluation`` and ``seconds``, all that it took. It has a row for each case; a kernel that could not be built
        is under ``skipped``.

    Raises:
        RuntimeError: a linear layer was not multiplied by the scheme, or training went astray.
        evaluate.device.DeviceMissingError: JAX has no GPU though one is wanted.
        codegen.build.MissingCompilerError: no nvcc.
        ValueError: the weights are of another model, or the text is too short.
    """
    kernels, started = Kernels(), monotonic()
    with on_device(gpu), ThreadPoolExecutor(os.cpu_count()) as pool:
        # Compiled while the GPU trains; what cannot be compiled says so when it is opened.
        builds = [pool.submit(kernels.build, case.plan, case.candidate, case.dtype, "nn", gpu) for case in cases if gpu]
        trained, reused = _obtained(size, corpus, weights, note)
        found = windows(corpus.held_out, size.config.context, size.sequences)
        batch = min(size.batch, len(found))
        sequences = found[: len(found) // batch * batch]
        wait(builds)
        began = monotonic()
        with contextlib.ExitStack() as stack:
            rows, skipped, baseline = _rows(
                stack, cases, trained.parameters, size.config, sequences, batch, gpu, kernels
            )
        seconds = monotonic() - began
    model = {**asdict(size.config), "parameters": size.config.parameters, "linear_layers": size.config.linear_layers}
    return {
        **head(gpu, commit, "host monotonic clock"),
        "kind": KIND,
        "baseline": baseline,
        "jax": jax.__version__,
        "corpus": corpus.facts(),
        "model": model,
        "training": {**asdict(size.training), "reused": reused, "done": trained.facts},
        "seconds": monotonic() - started,
        "evaluation": {"batch": batch, "sequences": len(sequences), "seconds": seconds, "interval": INTERVAL},
        "rows": rows,
        "skipped": skipped,
    }


@contextlib.contextmanager
def on_device(gpu: DeviceInfo | None) -> Iterator[None]:
    """JAX's arrays go to the GPU, or to the CPU also where there is one.

    Raises:
        evaluate.device.DeviceMissingError: JAX has no GPU.
    """
    if gpu and (reason := why_no_jax_gpu()):
        raise DeviceMissingError(f"{reason}; or use --device cpu --size tiny")
    with jax.default_device(jax.devices("gpu" if gpu else "cpu")[0]):
        yield


def why_no_jax_gpu() -> str:
    """Why JAX cannot use a GPU, in one clause; empty when it can."""
    try:
        jax.devices("gpu")
    except RuntimeError:
        return f"JAX {jax.__version__} has no GPU here, install the cuda13 or cuda12 extra"
    return ""


def _obtained(size: Size, corpus: Corpus, weights: Path | None, note: Callable[[str], None]) -> tuple[Trained, bool]:
    """The trained model, and whether it was there before."""
    made_of = {"model": asdict(size.config), "training": asdict(size.training), "corpus": corpus.sha256}
    if weights and weights.exists():
        note(f"weights from {weights}")
        return load_weights(weights, size.config, made_of), True
    note(f"training {size.config.parameters / 1e6:.3g} M parameters on {len(corpus.trained) / 1e6:.3g} MB")
    told = train(
        corpus.trained, size.config, size.training, lambda step, loss: note(f"step {step}: {loss:.3f} bits per byte")
    )
    if weights:
        save_weights(weights, told, made_of)
    return told, False


def _rows(
    stack: contextlib.ExitStack,
    cases: Sequence[Case],
    parameters: Parameters,
    config: Config,
    sequences: Bytes,
    batch: int,
    gpu: DeviceInfo | None,
    kernels: Kernels,
) -> tuple[list[Row], list[Row], str]:
    """Rows, skipped ones, and the baselines in words."""
    dtypes = list(dict.fromkeys(case.dtype for case in cases))
    vendors = {dtype: stack.enter_context(vendor_arm(dtype, gpu)) for dtype in dtypes}
    arms, skipped = _opened(cases, gpu, kernels)
    narrow = {dtype: cast(parameters, jax_dtype(dtype)) for dtype in dtypes}
    length = config.context
    between, wrong = ([Tally(length) for _ in arms] for _ in range(2))  # to the baseline, and to fp32
    plain = {dtype: Tally(length) for dtype in dtypes}
    for start in range(0, len(sequences), batch):
        tokens = jnp.asarray(sequences[start : start + batch])
        seen, targets = tokens[:, :-1], tokens[:, 1:]
        with jax.default_matmul_precision("highest"):  # else JAX rounds fp32 to TF32
            exact = forward(parameters, seen, config)
        theirs = {dtype: forward(narrow[dtype], seen, config, arm) for dtype, (arm, _) in vendors.items()}
        for dtype, logits in theirs.items():
            plain[dtype].add(_scores(logits, exact, targets))
        for (case, arm), one, other in zip(arms, between, wrong, strict=True):
            ours = forward(narrow[case.dtype], seen, config, arm)
            one.add(_scores(ours, theirs[case.dtype], targets))
            other.add(_scores(ours, exact, targets))
    passes = len(sequences) // batch
    rows = []
    for (case, arm), one, other in zip(arms, between, wrong, strict=True):
        require_forced(arm, config.linear_layers * passes)
        rows.append(
            {
                **_identity(case),
                "M": batch * length,
                "products": arm.products,
                **one.row(),
                "logits_error_fro": other.logits_fro,
                "baseline_logits_error_fro": plain[case.dtype].logits_fro,
                "fp32_bits_per_byte": other.baseline_bits,
            }
        )
    return rows, skipped, "; ".join(told for _, told in vendors.values())


def require_forced(arm: Arm, products: int) -> None:
    """Refuse figures of a model that did not multiply by the scheme everywhere.

    Raises:
        RuntimeError: the arm made another number of products, or none was to be made.
    """
    if products < 1 or arm.products != products:
        raise RuntimeError(
            f"the scheme made {arm.products} products of linear layers where {products} were to be made, so its "
            "figures would not be those of the scheme; report this as a mistake of the model check"
        )


def _opened(
    cases: Sequence[Case], gpu: DeviceInfo | None, kernels: Kernels
) -> tuple[list[tuple[Case, Arm]], list[Row]]:
    arms, skipped = [], []
    for case in cases:
        try:
            arms.append((case, scheme_arm(case, kernels, gpu)))
        except (ValueError, BuildError, KernelError, MemoryError, OSError) as error:
            skipped.append({**_identity(case), "reason": " ".join(str(error).split()) or type(error).__name__})
    return arms, skipped


def _identity(case: Case) -> Row:
    types = {"path": case.path, "dtype": case.dtype, "plane_dtype": case.plane_dtype}
    return {**facts_of(case.plan), **dict(case.facts), **types, "growth": growth(case.plan.scheme)}


@jax.jit
def _scores(ours: jax.Array, theirs: jax.Array, targets: jax.Array) -> dict[str, jax.Array]:
    """What ``Tally.add`` takes: logits [B, T, V] fp32 of two arms, targets [B, T]."""
    best = [jnp.argmax(logits, axis=-1).astype(targets.dtype) for logits in (ours, theirs)]
    difference = ours - theirs
    return {
        "bits": jnp.stack([jnp.sum(bits(logits, targets), axis=-1) for logits in (ours, theirs)]),
        "right": jnp.stack([jnp.sum(choice == targets, axis=-1) for choice in best]),
        "agreed": jnp.sum(best[0] == best[1], axis=-1),
        "square": jnp.sum(difference * difference),
        "scale": jnp.sum(theirs * theirs),
        "largest": jnp.max(jnp.abs(difference)),
        "nonfinite": jnp.sum(~jnp.isfinite(ours)),
    }
