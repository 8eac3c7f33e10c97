"""Looking inside: roles of tokens, where the answer's place looks, what values do, and swapped guesses."""

import re
from types import SimpleNamespace

import jax
import numpy as np
import sts_models_reference as reference
from refusals import refusals
from scipy.special import softmax
from sts_models_reference import TINY, tiny

from lsalib.sts import design, prompts
from lsalib.sts.design import Item
from lsalib.sts.experiment import ANSWERS
from lsalib.sts.models import _answers as answers
from lsalib.sts.models import _llama as llama
from lsalib.sts.prompts import ROLES, Example
from studies.experiments import looking, probes

CONTEXT = [Example("A dog runs.", "A dog is running.", 4.8, 4.1), Example("Rain: again", "It snows.", 1.533, 0.07)]
ITEM = Item(0, 0, [0, 1], CONTEXT, Example("A cat.", "A car.", None, 2.5))
PROMPT = prompts.build(ITEM.context, ITEM.query, guesses=True)


class Pieces:
    """A tokenizer that cuts at spaces and after every digit; its ids mean nothing."""

    def encode(self, text):
        found = list(re.finditer(r"\s?\d|\s?[^\s\d]+|\s", text))
        ids = [sum(map(ord, one[0])) % TINY.vocab for one in found]
        return SimpleNamespace(ids=ids, offsets=[one.span() for one in found])

    def encode_batch(self, texts):
        return list(map(self.encode, texts))


IDS, SOME = np.random.default_rng(0).integers(0, TINY.vocab, 12).tolist(), [[4], [4, 9], [2]]
TREE, VALUES = answers.answer_tree(SOME), np.array([0.0, 2.5, 5.0])
PARAMS, CONFIG, TOKENS = tiny(), TINY._replace(context=512), Pieces().encode(PROMPT).ids
MODEL = SimpleNamespace(stored=SimpleNamespace(config=CONFIG, params=PARAMS, tokenizer=Pieces()))


def test_every_character_has_its_role():
    found = looking._roles(PROMPT)
    assert len(found) == len(PROMPT) and set(found) == set(ROLES)
    parts = {role: "".join(sign for sign, other in zip(PROMPT, found, strict=True) if other == role) for role in ROLES}
    assert parts["instruction"] == PROMPT.split("\n\n")[0]
    assert parts["context sentences"] == " A dog runs. A dog is running. Rain: again It snows."
    assert parts["context guess"] == " 4.10 0.07" and parts["context score"] == " 4.8 1.533"
    assert parts["query sentences"] == " A cat. A car." and parts["query guess"] == " 2.50"
    assert "".join(parts.values()).count("Score:") == 3
    # A token has the role of its last character.
    roles = looking._taken_apart(MODEL, PROMPT)[1]
    pieces = [PROMPT[begin:end] for begin, end in Pieces().encode(PROMPT).offsets]
    assert "".join(piece for piece, role in zip(pieces, roles, strict=True) if ROLES[role] == "query guess") == " 2.50"
    assert pieces[-1] == "\nScore:" and ROLES[roles[-1]] == "frame"
    # The neutral line has the same role.
    neutral = looking._roles(prompts.build(ITEM.context, ITEM.query, guesses=True, neutral=True))
    assert neutral.count("query guess") == 5 and set(neutral) == set(ROLES)
    # Without guesses there are none, and the query's score is not there to be read.
    found = set(looking._roles(prompts.build(ITEM.context, ITEM.query, guesses=False)))
    assert found == set(ROLES) - {"context guess", "query guess"}


def test_the_gain_acts_on_the_values_alone():
    """By hand for one layer and one reader: attention to token 3 stays, what it brings goes."""
    params = tiny()
    x, one = params.embedding[np.array(IDS)], TINY._replace(layers=1)
    params = params._replace(layers=jax.tree.map(lambda leaf: np.asarray(leaf)[:1], params.layers))
    read = jax.jit(lambda gain: llama.forward(params, one, x, value_gain=gain))
    out, silent = (jax.tree.map(np.asarray, read(np.float32(np.arange(12) != k)[None])) for k in (12, 3))
    np.testing.assert_array_equal(out.weights, silent.weights)
    np.testing.assert_array_equal(silent.cache.values[0, :, 3], 0)
    np.testing.assert_array_equal(silent.cache.keys, out.cache.keys)
    assert (np.abs(silent.hidden - out.hidden).max(1) > 0).tolist() == [False] * 3 + [True] * 9


def test_relevance_is_the_derivative_by_the_gain(x64):
    params = tiny()
    found = looking._inside(params, TINY, np.pad(np.int32(IDS), (0, 4)), 12, TREE, VALUES)
    expected, relevance, _ = map(np.asarray, found)

    def score(layer, token, change):
        gain = np.ones((2, 11))
        gain[layer, token] += change
        return softmax(reference.logprobs(params, TINY, IDS, SOME, gain)) @ VALUES

    np.testing.assert_allclose(expected, score(0, 0, 0), rtol=1e-5)
    h = 1e-4
    for layer, token in ((0, 0), (0, 7), (1, 3), (1, 10)):
        slope = (score(layer, token, h) - score(layer, token, -h)) / (2 * h)
        np.testing.assert_allclose(relevance[layer, token], slope, rtol=1e-4, atol=1e-7)
        assert abs(relevance[layer, token] + slope) > 1e-5
    assert (relevance[:, 11:] == 0).all() and (relevance[:, :11] != 0).all()


def test_a_look_adds_up():
    seen = looking.look(MODEL, PROMPT)
    assert seen.attention.shape == seen.relevance.shape == (2, len(TOKENS))
    masses = looking.by_role(seen.attention, seen.roles)
    np.testing.assert_allclose(masses.sum(1), 1, rtol=1e-5)
    guess = [n for n, role in enumerate(seen.roles) if ROLES[role] == "query guess"]
    np.testing.assert_allclose(masses[:, ROLES.index("query guess")], seen.attention[:, guess].sum(1))
    x = np.asarray(PARAMS.embedding)[np.array(TOKENS)]
    weights = np.asarray(jax.jit(lambda x: llama.forward(PARAMS, CONFIG, x).weights)(x))
    np.testing.assert_allclose(seen.attention, weights.mean(1)[:, -1], atol=1e-5)
    # Control: with permuted roles the masses are others.
    others = looking.by_role(seen.attention, np.random.default_rng(0).permutation(seen.roles))
    assert np.abs(others - masses).max() > 1e-3


test_bad_input_is_refused = refusals(
    (lambda: looking._roles("Hello"), "prompt must be one that build wrote as a completion"),
    (lambda: looking._roles("Hello\n\nSentence 1: A\nSentence 3: B"), "prompt must be one that build wrote"),
)


def test_what_is_silent_in_a_tree_is_what_is_silent_in_whole_prompts():
    """Each answer to each prompt by a pass of plain NumPy."""
    endings = [Pieces().encode(f" {answer}").ids for answer in ANSWERS[::10]]
    arms = [("guess", ()), ("guess", (1,)), ("sentences", (0, 1))]
    found = probes._silenced(MODEL, ITEM, False, arms)
    for row, (part, layers) in zip(found, arms, strict=True):
        for values, v in zip(row, probes.GUESSES, strict=True):
            prompt = prompts.build(ITEM.context, ITEM.query._replace(guess=v), guesses=True)
            ids, roles, _ = looking._taken_apart(MODEL, prompt)
            gain = np.ones((2, len(ids)))
            gain[np.array(layers, int)[:, None], np.flatnonzero(roles == ROLES.index(f"query {part}"))] = 0
            whole = reference.logprobs(PARAMS, CONFIG, ids, endings, gain)
            np.testing.assert_allclose(values[::10], whole, atol=1e-4)
            assert part == "sentences" or np.abs(found[2 - len(layers), :, ::10] - whole).max() > 1e-3
    # Where the guess stands first, another part stands last; silent is as much of it.
    other = probes._silenced(MODEL, ITEM, True, [("guess", ()), ("guess", (1,)), ("end", (1,))])
    assert min(np.abs(other[a] - other[b]).max() for a, b in ((0, 1), (0, 2), (1, 2))) > 1e-4
    assert probes.guess_first(PROMPT).split("\n")[-4:-1] == [
        "Initial guess: 2.50",
        "Sentence 1: A cat.",
        "Sentence 2: A car.",
    ]


def test_guesses_after_one_context_are_those_of_whole_prompts():
    """The model is a stand-in whose answers depend on the whole text."""

    def score_logprobs(texts, endings):
        return np.array([[hash(text + ending) % 97 for ending in endings] for text in texts], float)

    asked = design.Experiment("any", "guess", "strong")
    runs = [ITEM._replace(query=ITEM.query._replace(guess=v)) for v in (1.0, 2.0)]
    model = SimpleNamespace(score_logprobs=score_logprobs)
    texts = [design.prompt(asked, run) for run in runs]
    # An answer's probability, given all that stands before it.
    whole = score_logprobs(texts, [f" {answer}" for answer in ANSWERS]) - score_logprobs(texts, [""])
    np.testing.assert_array_equal(probes.guessed(model, asked, runs), whole)
    assert (probes.guessed(model, asked, runs[::-1]) != whole).any()
