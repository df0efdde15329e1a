"""The model check with fused kernels on a real device."""

import pytest

from catalog.known import winograd
from codegen.plan import plan
from evaluate.corpus import standard_library
from evaluate.device import require_gpu
from evaluate.lm import Config
from evaluate.lm_train import Training
from evaluate.model_arms import Case, path_of
from evaluate.model_check import DTYPES, check, why_no_jax_gpu
from evaluate.model_sizes import Size

pytestmark = [pytest.mark.gpu, pytest.mark.slow]

SIZE = Size(Config(2, 512, 8, 2048, 256), Training(steps=100, batch=8, rate=1e-3, warm_up=20), 8, 64)


def test_a_model_hardly_notices_a_fused_kernel():
    if reason := why_no_jax_gpu():
        pytest.skip(reason)
    gpu = require_gpu()
    plans = [plan(winograd(), levels) for levels in (1, 2)]
    cases = [Case(each, dtype, dtype, path_of(each, dtype, gpu)) for each in plans for dtype in DTYPES]
    found = check(cases, SIZE, standard_library(), gpu)
    assert found["skipped"] == [] and "cublasGemmEx" in found["baseline"] and found["device"] == gpu.name
    assert len(found["rows"]) == 4
    for row in found["rows"]:
        assert (row["path"], row["products"], row["M"], row["nonfinite_logits"]) == ("fused", 9 * 8, 2048, 0)
        assert 1 < row["baseline_bits_per_byte"] < 5 and abs(row["bits_per_byte_relative"]) < 5e-3
        assert row["top1_agreement"] > 0.9
        # Equal logits would mean that both arms are the same kernel.
        assert row["baseline_logits_error_fro"] < row["logits_error_fro"] < 0.1
