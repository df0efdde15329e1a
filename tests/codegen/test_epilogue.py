"""Epilogues as data: what they are, what they mean, and that a text without one says nothing of them."""

import ctypes
import itertools
import math
from importlib.resources import files

import numpy as np
import pytest

from codegen.emit import TARGETS, TEXTS, emit, emit_header, fused_emitter
from codegen.epilogue import STEPS, Epilogue, apply, operand_shape
from codegen.epilogue_text import declaration, switched
from codegen.extras import Operands, extras_of
from tests.codegen.schemes import plans

PLAN = plans()["winograd"]
EVERY = Epilogue.parse(",".join(STEPS))


def test_a_text_names_the_steps_in_their_order():
    epilogue = Epilogue.parse(" residual, bias ,scale,gelu")
    assert epilogue.steps == ("residual", "bias", "scale", "gelu") and str(epilogue) == "residual,bias,scale,gelu"
    assert (
        epilogue.operands == ("residual", "bias") and epilogue.scales and epilogue.suffix == "residual_bias_scale_gelu"
    )
    assert Epilogue.parse(epilogue) is epilogue and epilogue and not Epilogue.parse("") and not Epilogue()
    assert [operand_shape(name, 3, 5) for name in epilogue.operands] == [(3, 5), (5,)]
    assert Epilogue.parse("relu,bias,relu").steps == ("relu", "bias", "relu")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("bias,dropout", "dropout is left out, since it needs random numbers that training frameworks keep; apply it"),
        ("softmax", "softmax cannot be a step of an epilogue, since a row of C is spread over many tiles; apply it"),
        ("rmsnorm", "a row of C is spread over many tiles"),
        ("bias,tanh", "unknown step 'tanh' of an epilogue; choose from bias, column_scale, column_shift, residual, "),
        ("bias,,gelu", "unknown step ''"),
        ("bias,gelu,bias", "step bias of an epilogue has one operand, so it can be there once"),
        ("scale,scale", "step scale of an epilogue has one operand"),
        (1, "an epilogue is a text such as 'bias,gelu', not 1"),
    ],
)
def test_what_is_no_epilogue_is_one_sentence(text, message):
    with pytest.raises(ValueError, match=message):
        Epilogue.parse(text)
    with pytest.raises(ValueError, match=message):
        fused_emitter("sm_90a").emit(PLAN, epilogue=text)


def test_steps_mean_what_their_names_say():
    c = np.array([[-2.0, 0.5, 3.0], [1.0, -1.0, 0.0]])
    vector, matrix = np.array([1.0, -2.0, 4.0]), np.arange(6.0).reshape(2, 3)
    expected = {
        "bias": c + vector,
        "column_scale": c * vector,
        "column_shift": c + vector,
        "residual": c + matrix,
        "scale": c * 0.25,
        "relu": np.maximum(c, 0),
        "gelu": [[x * (1 + math.erf(x / math.sqrt(2))) / 2 for x in row] for row in c],
        "gelu_tanh": c * (1 + np.tanh(math.sqrt(2 / math.pi) * (c + 0.044715 * c**3))) / 2,
        "silu": c / (1 + np.exp(-c)),
    }
    assert set(expected) == set(STEPS)
    given = {name: vector for name in EVERY.operands} | {"residual": matrix, "scale": 0.25}
    for step, result in expected.items():
        np.testing.assert_allclose(apply(Epilogue((step,)), c, given), result, rtol=1e-14, atol=1e-15)
    in_order = apply(Epilogue.parse("bias,relu,column_scale"), c, given)
    np.testing.assert_array_equal(in_order, np.maximum(c + vector, 0) * vector)
    assert (in_order != apply(Epilogue.parse("column_scale,relu,bias"), c, given)).any()


def test_functions_have_their_limits_at_infinity():
    c = np.array([[np.inf, -np.inf, np.nan]])
    for step in ("relu", "gelu", "gelu_tanh", "silu"):
        with np.errstate(all="raise", under="ignore"):
            np.testing.assert_array_equal(apply(Epilogue((step,)), c, {}), [[np.inf, 0, np.nan]])


def test_operands_that_do_not_fit_are_refused():
    c = np.zeros((2, 3))
    with pytest.raises(ValueError, match="the epilogue bias,gelu needs bias; it was given nothing"):
        apply(Epilogue.parse("bias,gelu"), c, {})
    with pytest.raises(ValueError, match=r"bias must have the shape \[3\], not \[2\]"):
        apply(Epilogue.parse("bias"), c, {"bias": np.zeros(2)})
    with pytest.raises(ValueError, match="the epilogue bias needs bias; it was given residual"):
        extras_of(Epilogue.parse("bias"), Operands({"residual": 16}))


def test_the_struct_has_what_the_header_declares():
    members = [line.split("/*")[0].strip(" ;").split() for line in declaration(EVERY).splitlines() if ";" in line]
    members = [(" ".join(words[:-1]), words[-1]) for words in members if words[0] != "}"]
    kinds = {"const void*": ctypes.c_void_p, "int64_t": ctypes.c_int64, "double": ctypes.c_double}
    addresses = {name: 16 * i for i, name in enumerate(EVERY.operands, 1)}
    found = extras_of(EVERY, Operands(addresses, 7, 0.5))
    assert found._fields_ == [(name, kinds[kind]) for kind, name in members]
    assert (found.bias, found.residual, found.residual_ld, found.scale) == (16, 64, 7, 0.5)
    assert extras_of(Epilogue.parse("relu"), Operands()) is None
    assert "typedef struct SCHEME_extras SCHEME_extras;" in declaration(Epilogue.parse("relu"))


@pytest.mark.parametrize("target", ["cuda", "sm_80", "sm_90a"])
def test_a_text_speaks_of_its_epilogue_alone(target):
    def written(**options):
        if target == "cuda":
            return emit(PLAN, "cuda", **options), emit_header(PLAN, "cuda", **options)
        return fused_emitter(target).emit(PLAN, **options), fused_emitter(target).header(PLAN, **options)

    for text in (*written(), *written(epilogue="")):
        assert "EPILOGUE" not in text and "xtras*" not in text and "struct Steps" not in text
    source, header = written(epilogue="bias,gelu")
    assert source.count("_bias_gelu_") > 5 and "// after    bias,gelu, for each element of C in fp32\n" in source
    for text in (source, header):
        assert "EPILOGUE" not in text and "EXTRAS" not in text and "SCHEME" not in text
        assert text.count("const void* bias; /* N elements, added to each row */") == 1 and "residual" not in (
            text if text is header else ""
        )


def test_every_switch_of_the_device_code_is_resolved():
    root = files("codegen.kernels")
    paths = [*root.iterdir(), *root.joinpath("hopper").iterdir(), *root.joinpath("ampere").iterdir()]
    switches = 0
    for path in paths:
        if path.name.endswith((".cuh", ".h")):
            text = path.read_text(encoding="utf-8")
            switches += text.count("#ifdef SUBCUBIC_EPILOGUE\n")
            for epilogue, few in itertools.product((Epilogue(), EVERY), (False, True)):
                found = switched(text, epilogue, few)
                assert "SUBCUBIC_EPILOGUE" not in found and "SUBCUBIC_FEW" not in found, path
    assert switches > 20


@pytest.mark.parametrize("target", [target for target in TARGETS if target != "cuda"])
def test_other_targets_refuse_an_epilogue(target):
    with pytest.raises(ValueError, match=f"target {target} has no epilogue; apply bias to the result, or choose cuda"):
        emit(PLAN, target, epilogue="bias")
    assert target in TEXTS or emit(PLAN, target)


def test_golden_winograd_bf16_ampere_bias_gelu(golden):
    golden(fused_emitter("sm_80").emit(PLAN, dtype="bf16", epilogue="bias,residual,gelu"))
