"""The model of the model check and what it reads: its training, its weights, its corpus, on tiny sizes."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from evaluate import corpus as corpora
from evaluate.corpus import drawn, standard_library, windows
from evaluate.lm import Config, bits, forward, initial
from evaluate.lm_train import Training, rate, train
from evaluate.lm_weights import load_weights, save_weights
from evaluate.model_check import check
from evaluate.model_sizes import resized
from tests.evaluate.test_model_check import CASES, SMALL, on_the_host, text

__all__ = ["on_the_host", "text"]


def test_the_same_seed_gives_the_same_model(text):
    def weights(seed):
        parameters = train(text.trained, SMALL.config, replace(SMALL.training, seed=seed)).parameters
        return [np.asarray(leaf) for leaf in jax.tree.leaves(parameters)]

    one, again, other = weights(0), weights(0), weights(1)
    assert all((x == y).all() for x, y in zip(one, again, strict=True))
    assert not any((x == y).all() for x, y in zip(one, other, strict=True) if x.ndim == 2)


def test_training_ends_when_its_seconds_are_over(text):
    told = train(text.trained, SMALL.config, replace(SMALL.training, steps=10_000, seconds=1e-6)).facts
    assert (told["steps"], told["ended_by"]) == (10, "seconds")


def test_the_learning_rate_rises_and_falls():
    training = Training(steps=100, rate=1.0, warm_up=10)
    rates = [rate(training, step) for step in range(1, 101)]
    assert rates[0] == pytest.approx(0.1, rel=1e-2) and np.argmax(rates) == 9
    assert rates[9] > 0.95 and rates[-1] == pytest.approx(0.1)


def test_tokens_see_only_what_came_before():
    config = SMALL.config
    parameters = initial(config, 0)
    tokens = np.random.default_rng(0).integers(0, 256, (1, 16)).astype(np.uint8)
    changed = tokens.copy()
    changed[0, 9] += 1
    one, other = (np.asarray(forward(parameters, jnp.asarray(each), config)) for each in (tokens, changed))
    assert (one[0, :9] == other[0, :9]).all() and (one[0, 9:] != other[0, 9:]).any(axis=-1).all()


def test_bits_are_those_of_a_code():
    even = jnp.zeros((1, 1, 256))
    assert bits(even, jnp.zeros((1, 1), jnp.uint8))[0, 0] == pytest.approx(8)
    sure = even.at[0, 0, 200].set(1000.0)
    assert bits(sure, jnp.full((1, 1), 200, jnp.uint8))[0, 0] == pytest.approx(0)


def test_weights_are_kept_and_read_again(text, tmp_path):
    path = tmp_path / "model.npz"
    first = check(CASES[:1], SMALL, text, None, weights=path)
    told = []
    again = check(CASES[:1], SMALL, text, None, weights=path, note=told.append)
    assert (first["training"]["reused"], again["training"]["reused"]) == (False, True)
    assert told == [f"weights from {path}"] and again["rows"] == first["rows"]
    assert again["training"]["done"] == first["training"]["done"]
    other = resized(SMALL, steps=None, seconds=None, seed=1)
    with pytest.raises(ValueError, match="a model of another training; remove it"):
        check(CASES[:1], other, text, None, weights=path)
    assert [file.name for file in tmp_path.iterdir()] == ["model.npz"]
    path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(ValueError, match="holds no weights of a model"):
        check(CASES[:1], SMALL, text, None, weights=path)


def test_weights_of_another_shape_are_refused(text, tmp_path):
    save_weights(tmp_path / "w", train(text.trained, SMALL.config, SMALL.training), {"model": 1})
    with pytest.raises(ValueError, match="holds no weights of a model"):
        load_weights(tmp_path / "w", replace(SMALL.config, hidden=128), {"model": 1})


def test_files_are_held_out_whole_and_tests_left_out(tmp_path):
    names = [f"m{number}.py" for number in range(40)]
    for name in [*names, "test/t.py", "site-packages/s.py", "a/tests/t.py"]:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"# {name}")
    found = standard_library(tmp_path)
    parts = [bytes(part).decode().split("\0")[:-1] for part in (found.trained, found.held_out)]
    held = [name for name in sorted(names) if corpora._held_out(name)]
    assert parts[1] == [f"# {name}" for name in held] and 0 < len(held) < 8
    assert sorted(parts[0] + parts[1]) == sorted(f"# {name}" for name in names)
    assert found.facts()["files"] == 40 and found.facts()["held_out_files"] == len(held)
    (tmp_path / "m3.py").write_text("# M3.py")
    assert standard_library(tmp_path).sha256 != found.sha256
    with pytest.raises(LookupError, match="too few to train on"):
        standard_library(tmp_path / "test")


def test_sequences_of_the_evaluation_do_not_overlap():
    text = np.arange(101, dtype=np.uint8)
    found = windows(text, 10, 100)
    assert found.shape == (10, 11) and (found[:, :-1].ravel() == np.arange(100)).all()
    assert (windows(text, 10, 3)[:, 0] == [0, 40, 90]).all()
    with pytest.raises(ValueError, match="use a smaller context"):
        windows(text, 101, 1)
    starts = drawn(text, 99, 200, np.random.default_rng(0))[:, 0]
    assert set(starts) == {0, 1}  # the last byte is drawn too


@pytest.mark.parametrize(
    "make",
    [
        lambda: Config(layers=0),
        lambda: Config(width=24, heads=8),
        lambda: Training(steps=0),
        lambda: Training(seconds=float("nan")),
        lambda: train(np.zeros(5, np.uint8), SMALL.config, SMALL.training),
    ],
)
def test_sizes_that_cannot_be_meant_are_refused(make):
    with pytest.raises(ValueError):
        make()


def test_a_loss_that_is_no_number_ends_the_training(text):
    with pytest.raises(RuntimeError, match="smaller learning rate"):
        train(text.trained, SMALL.config, replace(SMALL.training, steps=20, rate=1e30))


def test_weights_that_cannot_be_kept_name_the_file_and_leave_the_old_ones(text, tmp_path, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    path = tmp_path / "w"
    path.write_text("old")
    trained = train(text.trained, SMALL.config, SMALL.training)
    monkeypatch.setattr("evaluate.lm_weights.np.savez", full)
    with pytest.raises(OSError, match=r"^cannot write weights to .*w: no space left on device; choose another place"):
        save_weights(path, trained, {"model": 1})
    assert path.read_text() == "old" and list(tmp_path.iterdir()) == [path]
