"""The interactive figures, as readers use them: by mouse, finger and keyboard, wide and
narrow.

What a figure should show comes from the library. What it shows is read between the
ticks of its own axes.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import numpy as np
import pytest
from browser import visit
from scipy.special import binom

from lsalib import theory, training
from lsalib.book import stored
from lsalib.tasks import GaussianTask, sample


class Case(NamedTuple):
    """A page's figure: the values of its curves and then of its exact lines, in order,
    given the position of each slider; the right answer; which axes are logarithmic.
    """

    values: Callable[..., list[float]]
    right: str
    log: str = ""


def task(dim: int, context_size: int, prior_mean=0) -> GaussianTask:
    return GaussianTask(np.full(dim, float(prior_mean)), context_size)


def wrong(dim: int, error: float) -> np.ndarray:
    """A guess with this squared error, for the prior mean zero."""
    return np.full(dim, np.sqrt(error / dim))


def gap(examples_C, features_d, squared_error_of_the_guess):
    t = task(features_d, examples_C)
    step = theory.gd_risk(t)
    guess = wrong(features_d, squared_error_of_the_guess)
    return [theory.optimal_risk(t, guess) - step, step]


def answer(squared_error_of_the_guess, examples, features):
    """By the formula of the main theorem."""
    step = theory.gd_risk(task(features, examples))
    price = 2 * squared_error_of_the_guess / (examples * features + 2)
    return [1 + price / step, 1]


def small_task(guess, step_size):
    """Of the two examples the mean of score times residual is (2 * 1 + 1 * 2) / 2."""
    return [guess + 2 * step_size, 3 + 2 * step_size, 4]


def one_feature(step_size_η, c):
    return [2 / 3 + 3 * (step_size_η - 1 / 3) ** 2 + c**2, 2 / 3]


def arrival(training_step, prior_mean_each_entry, learning_rate):
    """One run, trained alone and stopped there."""
    t = task(10, 10, prior_mean_each_entry)
    options = {"learning_rate": learning_rate, "steps": training_step}
    options |= {"objective": "population", "train_guess": True}
    run = training.fit(jax.random.key(0), t, 1, **options)
    return [run.losses[-1], theory.gd_risk(t)]


def pair(examples, features, prior_mean_each_entry):
    """Variances of entries of the Gram matrix: those of its mean given the task, and
    the mean of those given the task, by Isserlis' theorem.
    """
    entry = prior_mean_each_entry**2 + 1  # E w_1^2
    square = features * entry  # E |w|^2
    of_square = features * (4 * entry - 2)  # Var |w|^2
    of_labels = of_square + 2 * (square**2 + of_square) / examples
    return [2 / examples, 1 + (square + entry) / examples, of_labels]


def few_heads(heads_H, squared_error_of_the_guess, examples, features):
    t = task(features, examples)
    least = theory.least_risk(t, heads_H, wrong(features, squared_error_of_the_guess))
    return [least.risk - theory.gd_risk(t)]


def diagonals(training_step, layer):
    """The mean diagonals of the first stored layer with so many heads and this kind."""
    run = stored.load("softmax_heads")
    heads, seed = int(layer[0]), 0 if "sign" in layer else 1
    place = run.about["heads"].index(heads)
    moment = run.about["snapshots"].index(training_step)
    _, A = stored.circuits(run, seed, place, moment)
    return np.diagonal(A[:, :-1, :-1], axis1=1, axis2=2).mean(1)


def ring_and_stripes(scatter_around_the_curve, examples):
    """From the moments of a number u that is uniform between -1 and 1: E u^2 = 1/3, E
    u^4 = 1/5.
    """
    wide = scatter_around_the_curve**2
    square, fourth = 1 + wide / 3, 1 + 2 * wide + wide**2 / 5
    ring = 1 - square**2 / fourth
    # Independent features: 1/e_1 - 1 adds up. Along the stripe the kurtosis is 9/5.
    across = fourth / square**2 - 1
    stripes = across / (1 + 9 / 4 * across)
    share = lambda e: e / (e + examples * (1 - e))
    return [share(ring), share(stripes), 1 / (examples + 1)]


def layers(examples, features):
    """What the best stand-in of each degree misses of 1: the inverse binomial."""
    nu = examples * features / 2
    return [1 / binom(L + nu, L) for L in (1, 2, 3)]


def state_and_guess(initial_state_share_of_w, guess_share_of_w, examples):
    """On the page's tasks, one example after the other."""
    with jax.enable_x64():
        batch = sample(jax.random.key(2), task(10, 10, 2), 20_000)
    X, w = np.asarray(batch.X), np.asarray(batch.w)

    def risk(state, guess):
        found = np.full_like(w, 2 * state)
        for x in X.swapaxes(0, 1)[:examples]:
            left = ((w - 2 * guess) * x).sum(1)  # of the label, by the guess
            found += (left - (found * x).sum(1))[:, None] * x / 12
        return np.square(2 * guess + found - w).sum(1).mean()

    return [risk(initial_state_share_of_w, guess_share_of_w), risk(1, 0)]


CASES = {
    "intro": Case(answer, "A correct guess"),
    "embedding": Case(small_task, "For 3, what the prior mean predicts"),
    "pythagoras": Case(one_feature, "No"),
    "yq_lsa": Case(arrival, "About twice as many", log="xy"),
    "gradients": Case(pair, "Those without a label", log="xy"),
    "heads": Case(few_heads, "One"),
    "softmax": Case(diagonals, "Both signs", log="x"),
    "other_inputs": Case(ring_and_stripes, "It doubles"),
    "depth": Case(layers, "A hundredth", log="xy"),
    "fast_weights": Case(state_and_guess, "Half of the prior mean", log="y"),
    "initial_guess": Case(gap, "It falls to about a tenth", log="xy"),
}

# What a figure shows: the ticks of each axis as [value, pixel]; its dots and the points
# of its lines as [ink, place], and the heights of its levels; what its sliders say and
# show, and by name their positions; the sentence below it, and the values in that.
READ = r"""box => {
  const all = (selector) => [...box.querySelectorAll(selector)];
  const number = (text) => Number(text.replaceAll(",", "").replaceAll("−", "-"));
  const value = (text) => Number.isNaN(number(text)) ? text : number(text);
  const ticks = (anchor, place) => all(`.explorer-axes text[text-anchor=${anchor}]`)
    .map((text) => [value(text.textContent), place(text)])
    .filter(([tick]) => typeof tick === "number");
  const points = (path) => path.getAttribute("d").split(/[ML]/).slice(1);
  const sliders = all("[type=range]").map((input) => [input, input.labels[0]]);
  const name = (label) => label.firstChild.data.match(/[\p{L}\d]+/gu).join("_");
  const says = box.querySelector("[aria-live=polite]").textContent;
  return {
    ticks: {
      x: ticks("middle", (text) => text.x.baseVal[0].value),
      y: ticks("end", (text) => text.y.baseVal[0].value - 4),
    },
    dots: all(".explorer-dots circle:nth-child(even)").map((dot) =>
      [dot.style.fill, `${dot.getAttribute("cx")} ${dot.getAttribute("cy")}`]),
    points: all(".explorer-lines path:not([stroke-dasharray])")
      .flatMap((path) => points(path).map((point) => [path.style.stroke, point])),
    levels: all(".explorer-lines [stroke-dasharray]")
      .map((path) => Number(points(path)[0].match(/ ([\d.]+)/)[1])),
    texts: sliders.map(([input, label]) =>
      [input.getAttribute("aria-valuetext"), label.querySelector("b").textContent]),
    positions: Object.fromEntries(sliders.map(([input, label]) =>
      [name(label), value(label.querySelector("b").textContent)])),
    says,
    said: [...says.split(":")[1].matchAll(/ (−?[\d.,e−]+)[;.](?= |$)/g)]
      .map(([, text]) => number(text)),
  };
}"""
# Moves each slider to this share of its way.
MOVE = """(box, shares) => box.querySelectorAll("[type=range]").forEach((input, k) => {
  input.value = Math.round(shares[k] * input.max);
  input.dispatchEvent(new Event("input", { bubbles: true }));
})"""
NARROW = "document.querySelector('.explorer-frame > svg').clientWidth < 390"


# Of up to four sliders, the shares of their ways at which a figure is read.
SHARES = [[0] * 4, [0.5] * 4, [1] * 4, [0, 0.5, 1, 0], [0.5, 1, 0, 0.5], [1, 0, 0.5, 1]]


class Figure:
    """The interactive figure of an open page."""

    def __init__(self, page, address: str, name: str):
        self.page, self.case = page, CASES[name]
        page.set_viewport_size({"width": 1280, "height": 900})
        page.goto(f"{address}book/{name}.html")
        self.box = page.locator(".explorer")
        self.box.locator("svg").first.wait_for()
        self.ticks = self.look()["ticks"]

    def to_telephone(self) -> None:
        self.page.set_viewport_size({"width": 390, "height": 844})
        self.page.wait_for_function(NARROW)
        self.ticks = self.look()["ticks"]

    def look(self) -> dict:
        return self.box.evaluate(READ)

    def position(self) -> float:
        """That of x, whose slider is the first one."""
        return next(iter(self.look()["positions"].values()))

    def pixel(self, side: str, value):
        """Where a value stands, read off the ticks."""
        at = np.log if side in self.case.log else np.asarray
        values, pixels = np.array(self.ticks[side]).T
        return np.polyval(np.polyfit(at(values), pixels, 1), at(value))


def misses(figure: Figure, shares: list[float]) -> list[str]:
    """What a figure does not show as the library has it, with its sliders at these
    shares of their ways.
    """
    figure.box.evaluate(MOVE, shares)
    shown = figure.look()
    wanted = np.array(figure.case.values(**shown["positions"]))
    x, y = np.array([place.split() for _, place in shown["dots"]], float).T
    heights = np.array([*y, *shown["levels"]])
    differ = {
        "drawn": abs(heights - figure.pixel("y", wanted)).max() > 0.05,
        "across": abs(x - figure.pixel("x", figure.position())).max() > 0.5,
        "says": not np.allclose(shown["said"], wanted, rtol=6e-4, atol=1e-9),
        "off its line": any(dot not in shown["points"] for dot in shown["dots"]),
        "slider": any(heard != seen for heard, seen in shown["texts"]),
        "axis": shown["ticks"] != figure.ticks,
    }
    told = f"for {shown}, expected {wanted}"
    return [f"{name} {told}" for name, found in differ.items() if found]


@pytest.fixture(scope="module")
def page(browser, address):
    with visit(browser, address, "book/initial_guess.html") as (page, noise):
        page.touch = page.context.new_cdp_session(page)
        page.touch.send("Emulation.setTouchEmulationEnabled", {"enabled": True})
        yield page
    assert noise == []


@pytest.mark.parametrize("name", CASES)
def test_a_figure_shows_what_the_library_computes(page, address, name):
    figure = Figure(page, address, name)
    for shares in SHARES:
        assert misses(figure, shares) == []
    # On a telephone the chart and its sliders are on one screen.
    figure.to_telephone()
    assert misses(figure, SHARES[-1]) == []
    stage = figure.box.locator(".explorer-stage").bounding_box()
    controls = figure.box.locator(".explorer-controls").bounding_box()
    assert controls["y"] + controls["height"] - stage["y"] < 600


def test_a_figure_with_other_numbers_is_seen(browser, address):
    """The control: a page whose first curve is two percent too high."""
    falsify = """
      const parse = JSON.parse;
      const higher = (values) =>
        Array.isArray(values) ? values.map(higher) : 1.02 * values;
      JSON.parse = (text) => {
        const data = parse(text);
        if (data.lines) data.lines[0].values = higher(data.lines[0].values);
        return data;
      };"""
    with visit(browser, address, "book/initial_guess.html") as (page, _):
        page.add_init_script(falsify)
        figure = Figure(page, address, "initial_guess")
        found = misses(figure, SHARES[-1])
    assert [miss.partition(" ")[0] for miss in found] == ["drawn", "says"]


# A page that a finger has thrown goes on for a while, and a tap would only stop it.
STILL = """() => new Promise((done) => {
  const before = scrollY;
  setTimeout(() => done(scrollY === before), 200);
})"""


def middle(figure: Figure, value: float) -> tuple[float, float]:
    """The place on the screen, halfway up the chart, at a value of x."""
    frame = figure.box.locator(".explorer-frame")
    frame.evaluate("e => e.scrollIntoView({ block: 'center', behavior: 'instant' })")
    figure.page.wait_for_function(STILL)
    box = frame.bounding_box()
    return box["x"] + figure.pixel("x", value), box["y"] + box["height"] / 2


@pytest.mark.parametrize("name", CASES)
def test_a_dot_follows_mouse_finger_and_keys(page, address, name):
    figure = Figure(page, address, name)
    slider, began = figure.box.get_by_role("slider").first, figure.look()

    # By key: an arrow is one position, and Escape brings all sliders back.
    slider.press("End")
    last = figure.position()
    slider.press("Home")
    first = figure.position()
    slider.press("ArrowRight")
    assert slider.input_value() == "1" and last > figure.position() > first
    figure.box.evaluate(MOVE, SHARES[2])
    slider.press("Escape")
    assert figure.look() == began

    # By mouse: at once, and no longer when the button is up.
    page.mouse.move(*middle(figure, last))
    page.mouse.down()
    assert figure.position() == last
    page.mouse.move(*middle(figure, first), steps=3)
    assert figure.position() == first
    page.mouse.up()
    page.mouse.move(*middle(figure, last))
    assert figure.position() == first

    # By finger: sideways it drags, up or down it scrolls the page; a tap moves, too.
    figure.to_telephone()
    for value in (last, first):
        (x, y), scrolled = middle(figure, value), page.evaluate("scrollY")
        swipe(page, [(195 + k * (x - 195) / 8, y + k) for k in range(9)])
        assert figure.position() == value and page.evaluate("scrollY") == scrolled
    x, y = middle(figure, last)
    lower = f"scrollY > {page.evaluate('scrollY')}"
    swipe(page, [(x, y - 20 * k) for k in range(9)])
    page.wait_for_function(lower)
    assert figure.position() == first
    swipe(page, [middle(figure, last)])
    assert figure.position() == last


def swipe(page, places: list[tuple[float, float]]) -> None:
    """A finger that goes down at the first place, moves through the others, lifts."""
    fingers = [[{"x": x, "y": y}] for x, y in places]
    kinds = ["touchStart", *["touchMove"] * (len(places) - 1), "touchEnd"]
    for kind, points in zip(kinds, [*fingers, []], strict=True):
        touch = {"type": kind, "touchPoints": points}
        page.touch.send("Input.dispatchTouchEvent", touch)


@pytest.mark.parametrize("name", CASES)
def test_each_answer_is_judged_at_once_with_its_reason(page, address, name):
    figure = Figure(page, address, name)
    answer = figure.case.right
    summaries, reasons = figure.box.locator("summary"), figure.box.locator("details p")
    names, said = summaries.all_inner_texts(), reasons.all_text_contents()
    kinds = {answer: "That is right. ", "Show the answer": f"{answer}. "}
    assert answer in names and names[-1] == "Show the answer"
    for name, reason in zip(names, said, strict=True):
        assert reason.startswith(kinds.get(name, "Not quite. ")) and len(reason) > 50
    assert len(set(said)) == len(said)

    def seen() -> list[bool]:
        return [reason.is_visible() for reason in reasons.all()]

    assert not any(seen())
    # By mouse; Escape closes all.
    for summary in summaries.all():
        summary.click()
    assert all(seen())
    summaries.first.press("Escape")
    assert not any(seen())
    summaries.last.press("Enter")
    assert seen() == [name == names[-1] for name in names]


def test_a_screen_reader_hears_question_picture_sliders_and_values(page, address):
    figure = Figure(page, address, "initial_guess")
    group = page.get_by_role("group", name="The context becomes ten times longer.")
    label = "mean squared error against examples C"
    assert group.get_by_role("img", name=label, exact=True).count() == 1
    says = "At examples C = 10: gap 0.7843; one step’s risk 5.238."
    assert figure.look()["says"] == says
    # Nothing moves by itself.
    for name in ("examples C", "features d", "squared error of the guess"):
        group.get_by_role("slider", name=name, exact=True).press("ArrowRight")
    figure.box.locator("summary").first.click()
    assert page.evaluate("document.getAnimations().length") == 0


def test_without_its_script_a_figure_is_a_picture_with_a_question(browser, address):
    path = "book/initial_guess.html"
    for scripts in (True, False):
        with visit(browser, address, path, scripts=scripts) as (page, noise):
            box = page.locator(".explorer")
            if scripts:
                box.locator("svg").first.wait_for()
            picture = page.locator(".cell_output:has(.explorer) > svg.drawing")
            assert picture.is_visible() != scripts
            assert page.locator(".explorer svg").count() == 2 * scripts
            box.locator("summary").first.click()
            assert box.locator("details[open]").inner_text().count("Not quite.") == 1
            assert noise == []
