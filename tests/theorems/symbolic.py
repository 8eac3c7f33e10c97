"""Expectations of polynomials in Gaussian tasks, for a symbolic dimension d and a
symbolic number C of tokens.

A polynomial is a sympy expression in entries with index labels, such as ``x(i, a) *
x(i, b) / C``: a feature label that occurs twice is summed over 1..d, a token label over
the C tokens, and a feature label that occurs once is free. By Isserlis' theorem a mean
is a sum over pairings. A pair puts equal the tokens of its two entries, and links their
features by a covariance; what tokens remain distinct give a factor C each, every closed
loop of features gives a trace, that of the identity d, and every open chain a product
between its two ends. No number is put in for d or C.
"""

from collections import Counter
from itertools import combinations, product
from math import prod
from typing import NamedTuple

import sympy
from sympy import Dummy, Expr, Function, Symbol
from sympy.core.function import AppliedUndef

d, C, sigma2 = sympy.symbols("d C sigma2", positive=True)
# Entries: feature a of token i, of the task's deviation from its mean, of the query;
# the label noise of token i.
RANDOM = x, eps, query, noise = tuple(map(Function, ("x", "eps", "query", "noise")))


class Law(NamedTuple):
    """Covariances as letters, "" for the identity; the fourth moment of a feature, the
    fourth cumulant of the noise.

    Whatever is not Gaussian is symmetric, and occurs at most four times in a product.
    """

    features: str = ""
    prior: str = ""
    kurtosis: Expr = sympy.Integer(3)
    noise_cumulant: Expr = sympy.Integer(0)


WHITE = Law()
GENERAL = Law("L", "P")


def fresh() -> Dummy:
    return Dummy("index")


def inner(left: str, word: str, right: str) -> Expr:
    """The product of matrices between two vectors or free labels."""
    return Symbol(
        "({}|{}|{})".format(*min((left, word, right), (right, word[::-1], left)))
    )


def trace(word: str) -> Expr:
    """The trace of a product of symmetric matrices, the same for all rotations and for
    the reversed product.
    """
    turns = [w[k:] + w[:k] for w in (word, word[::-1]) for k in range(len(word))]
    return Symbol(f"tr({min(turns)})") if turns else d


def mean(polynomial: Expr, law: Law = WHITE) -> Expr:
    """The expectation over features, task weights, label noise and query."""
    terms = sympy.Add.make_args(sympy.expand(polynomial))
    return sympy.Add(*(_mean_of_product(term, law) for term in terms))


def _mean_of_product(term: Expr, law: Law) -> Expr:
    factor, entries = sympy.Integer(1), []
    for base, power in term.as_powers_dict().items():
        if isinstance(base, AppliedUndef):
            entries += [base] * int(power)
        else:
            factor *= base**power
    labels = Counter(label for entry in entries for label in _features(entry))
    if any(count > 2 for count in labels.values()):
        raise ValueError(
            f"a feature label must occur at most twice in a product, got {term}"
        )
    choices = [
        _pairings([e for e in entries if e.func == kind], law) for kind in RANDOM
    ]
    given = [entry for entry in entries if entry.func not in RANDOM]
    tokens = {entry.args[0] for entry in entries if entry.func in (x, noise)}
    parts = []
    for chosen in product(*choices):
        pairs = [pair for _, found in chosen for pair in found]
        contracted = _contracted(pairs, given, labels, tokens, law)
        parts.append(prod(cumulant for cumulant, _ in chosen) * contracted)
    return factor * sympy.Add(*parts)


def _features(entry: AppliedUndef) -> tuple:
    """The labels of an entry that run over features."""
    return {x: entry.args[1:], noise: ()}.get(entry.func, entry.args)


def _pairings(legs: list, law: Law):
    """All ways to part the entries of one kind into blocks: the product of the blocks'
    cumulants, and all pairs of a block's first entry with another.
    """
    if not legs:
        yield sympy.Integer(1), []
        return
    (first, *others), kind = legs, legs[0].func
    cumulants = {2: sigma2 if kind == noise else sympy.Integer(1)}
    if fourth := {x: law.kurtosis - 3, noise: law.noise_cumulant}.get(kind, 0):
        cumulants[4] = fourth
    for size, cumulant in cumulants.items():
        for chosen in combinations(range(len(others)), size - 1):
            rest = [leg for k, leg in enumerate(others) if k not in chosen]
            own = [(first, others[k]) for k in chosen]
            for factor, pairs in _pairings(rest, law):
                yield cumulant * factor, own + pairs


def _contracted(
    pairs: list, given: list, labels: Counter, tokens: set, law: Law
) -> Expr:
    """What one way to part the entries contributes, but for the cumulants."""
    letters = {x: law.features, query: law.features, eps: law.prior}
    same_token, equal, links, ends = [], [], [], []
    for left, right in pairs:
        if left.func in (x, noise):
            same_token.append((left.args[0], right.args[0]))
        if left.func != noise:
            link = left.args[-1], right.args[-1], letters[left.func]
            (links if link[2] else equal).append(link)
    for entry in given:
        (links if len(entry.args) == 2 else ends).append((*entry.args, str(entry.func)))
    ends += [(label, label.name) for label, count in labels.items() if count == 1]
    classes = _classes(labels, [link[:2] for link in equal])
    free = set(_classes(tokens, same_token).values())
    return C ** len(free) * _network(classes, links, ends)


def _classes(labels, pairs: list) -> dict:
    """Each label's representative, where pairs are equal."""
    of = {label: label for label in labels}
    for left, right in pairs:
        kept, lost = of[left], of[right]
        of = {label: kept if root == lost else root for label, root in of.items()}
    return of


def _network(classes: dict, links: list, ends: list) -> Expr:
    """The product of the loops and chains that links make of equal labels' classes."""
    links = [(classes[left], classes[right], letter) for left, right, letter in links]
    degrees = Counter(root for link in links for root in link[:2])
    names = {root: [] for root in classes.values()}
    for label, name in ends:
        names[classes[label]].append(name)
    value = sympy.Integer(1)
    for root, found in names.items():
        if not degrees[root]:
            value *= _alone(found)
        elif degrees[root] + len(found) != 2:
            raise ValueError(
                "matrices must form loops and chains; a fourth cumulant leaves them no "
                "index"
            )
    for root, found in names.items():
        word, last = _walk(root, links) if found else ("", root)
        # else walked from the other end
        value *= inner(found[0], word, names[last][-1]) if word else 1
    while links:
        _, root, letter = links.pop()
        value *= trace(letter + _walk(root, links)[0])
    return value


def _alone(names: list) -> Expr:
    """What a class without links contributes, by the names of its ends."""
    if len(names) == 2:
        return inner(names[0], "", names[1])
    return Symbol(f"same{sorted(names)}") if names else d


def _walk(root, links: list) -> tuple[str, object]:
    """Follow the links from a class as far as they lead, and use them up."""
    word = ""
    while link := next((link for link in links if root in link[:2]), None):
        links.remove(link)
        root, word = link[1 if link[0] == root else 0], word + link[2]
    return word, root


def same(derived: Expr, formula: Expr) -> bool:
    """Equal as rational functions."""
    return sympy.fraction(sympy.together(derived - formula))[0].expand() == 0


def all_zero(expressions) -> bool:
    """Whether each vanishes identically."""
    return all(same(expression, 0) for expression in expressions)


def certify(derived: Expr, formula: Expr) -> None:
    """The formula is what is derived; as a control, another one is not."""
    assert same(derived, formula)
    assert not same(derived, formula + C)


def without_noise(expression: Expr) -> Expr:
    return expression.subs(sigma2, 0)


def at_infinity(expression: Expr) -> Expr:
    """The limit of a rational function of C."""
    t = Symbol("t")
    return sympy.cancel(expression.subs(C, 1 / t)).subs(t, 0)
