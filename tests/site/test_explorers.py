"""The interactive figures, as readers use them: by mouse, finger and keyboard, wide and
narrow.

What a figure should show comes from the library. What it shows is read between the
ticks of its own axes.
"""

import re
from collections.abc import Callable
from typing import NamedTuple

import jax
import numpy as np
import pytest
from browser import visit
from scipy.special import binom

from lsalib import theory, training
from lsalib.book import stored
from lsalib.tasks import GaussianTask


class Case(NamedTuple):
    """A page's figure: the values of its curves and then of its exact lines, in order,
    given the positions of its sliders, that of x first, which is named like xlabel.
    """

    values: Callable[..., list[float]]
    sliders: dict[str, list]
    log: str
    right: str


def task(dim: int, context_size: int) -> GaussianTask:
    return GaussianTask(np.zeros(dim), context_size)


def wrong(dim: int, error: float) -> np.ndarray:
    """A guess with this squared error, for the prior mean zero."""
    return np.full(dim, np.sqrt(error / dim))


def gap(examples, features, error):
    t = task(features, examples)
    step = theory.gd_risk(t)
    return [theory.optimal_risk(t, wrong(features, error)) - step, step]


def answer(error, examples, features):
    """By the formula of the main theorem."""
    step = theory.gd_risk(task(features, examples))
    return [1 + 2 * error / (examples * features + 2) / step, 1]


def small_task(guess, step_size):
    """Of the two examples the mean of score times residual is (2 * 1 + 1 * 2) / 2."""
    return [guess + 2 * step_size, 3 + 2 * step_size, 4]


def one_feature(step_size, c):
    return [2 / 3 + 3 * (step_size - 1 / 3) ** 2 + c**2, 2 / 3]


def arrival(step, mean, rate):
    """One run, trained alone and stopped there."""
    t = GaussianTask([float(mean)] * 10, 10)
    options = {"objective": "population", "train_guess": True, "steps": step}
    run = training.fit(jax.random.key(0), t, 1, learning_rate=rate, **options)
    return [run.losses[-1], theory.gd_risk(t)]


def pair(examples, features, mean):
    """Variances of entries of the Gram matrix: those of its mean given the task, and
    the mean of those given the task, by Isserlis' theorem.
    """
    square = features * (mean**2 + 1)  # E |w|^2
    of_square = 2 * features + 4 * features * mean**2  # Var |w|^2
    with_label = 1 + (square + mean**2 + 1) / examples
    return [
        2 / examples,
        with_label,
        of_square + 2 * (square**2 + of_square) / examples,
    ]


def few_heads(heads, error, examples, features):
    """The risk of explicit weights; those of the best step are known."""
    t, g = task(features, examples), wrong(features, error)
    few = theory.few_heads_weights if heads < features else None
    params = few(t, heads, g) if few else theory.optimal_weights(t, g)
    with jax.enable_x64(True):
        return [theory.population_risk(params, t, g), theory.gd_risk(t)]


def diagonals(step, layer):
    """The mean diagonals of the first stored layer with so many heads and this kind."""
    run = stored.load("softmax_heads")
    heads, seed = int(layer[0]), 0 if "sign" in layer else 1
    place = run.about["heads"].index(heads)
    moment = run.about["snapshots"].index(step)
    _, A = stored.circuits(run, seed, place, moment)
    shown = np.full(4, np.nan)
    shown[: len(A)] = [np.trace(each[:-1, :-1]) / (len(each) - 1) for each in A]
    return [*shown]


def ring_and_stripes(scatter, examples):
    """From the moments of a number u that is uniform between -1 and 1: E u^2 = 1/3, E
    u^4 = 1/5.
    """
    square = 1 + scatter**2 / 3
    fourth = 1 + 2 * scatter**2 + scatter**4 / 5
    ring = 1 - square**2 / fourth
    # Independent features: 1/e_1 - 1 adds up. Along the stripe the kurtosis is 9/5.
    across = fourth / square**2 - 1
    stripes = 1 / (1 + 5 / 4 + 1 / across) if across else 0
    share = lambda e: e / (e + examples * (1 - e))
    return [share(ring), share(stripes), 1 / (examples + 1)]


def layers(examples, features):
    """What the best stand-in of each degree misses of 1: the inverse binomial."""
    nu = examples * features / 2
    return [1 / binom(L + nu, L) for L in (1, 2, 3)]


def state_and_guess(state, guess, examples):
    """By the formula, for ten features and a prior mean with the square 40."""
    left = (11 / 12) ** examples
    return [left * (10 + 40 * (1 - state - guess) ** 2), left * 10]


CASES = {
    "intro": Case(
        answer,
        {
            "squared error of the guess": [2, 40, 60],
            "examples": [5, 100],
            "features": [5, 20],
        },
        log="",
        right="A correct guess",
    ),
    "embedding": Case(
        small_task,
        {"guess": [0, 2.6, 6], "step size": [0, 0.4, 1]},
        log="",
        right="For 3, what the prior mean predicts",
    ),
    "pythagoras": Case(
        one_feature,
        {"step size η": [-0.4, 0.8, 1.2], "c": [-1.5, 0, 0.5]},
        log="",
        right="No",
    ),
    "yq_lsa": Case(
        arrival,
        {
            "training step": [330, 950],
            "prior mean, each entry": [1, 3],
            "learning rate": [0.0005, 0.002],
        },
        log="xy",
        right="About twice as many",
    ),
    "gradients": Case(
        pair,
        {
            "examples": [1, 30, 100_000],
            "features": [1, 10],
            "prior mean, each entry": [0, 0.5, 3],
        },
        log="xy",
        right="Those without a label",
    ),
    "heads": Case(
        few_heads,
        {
            "heads H": [1, 4, 12],
            "squared error of the guess": [0, 40],
            "examples": [3, 30],
            "features": [2, 5],
        },
        log="",
        right="One",
    ),
    "softmax": Case(
        diagonals,
        {
            "training step": [200, 3000, 100_000],
            "layer": ["4 heads", "2 heads, one sign", "1 head", "2 heads"],
        },
        log="x",
        right="Both signs",
    ),
    "other_inputs": Case(
        ring_and_stripes,
        {"scatter around the curve": [0, 0.5, 1], "examples": [1, 8, 32]},
        log="",
        right="Nothing",
    ),
    "depth": Case(
        layers,
        {"examples": [1, 20, 1000], "features": [1, 10, 20]},
        log="xy",
        right="A hundredth",
    ),
    "fast_weights": Case(
        state_and_guess,
        {
            "initial state, share of w⋆": [0, 0.5, 1.5],
            "guess, share of w⋆": [0, 0.25, 1],
            "examples": [1, 10],
        },
        log="",
        right="Half of the prior mean",
    ),
    "initial_guess": Case(
        gap,
        {
            "examples C": [1, 30, 1000],
            "features d": [2, 20],
            "squared error of the guess": [1, 40],
        },
        log="xy",
        right="It falls to about a tenth",
    ),
}

# What a figure shows: its ticks as [value, pixel], its dots as [ink, x, y], the heights
# of its levels, the inks of its names, all lines as points, and what it says.
READ = """box => {
  const all = (selector) => [...box.querySelectorAll(selector)];
  const number = (text) =>
    Number(text.textContent.replaceAll(",", "").replace("−", "-"));
  const side = (anchor, place) => all(`.explorer-axes text[text-anchor=${anchor}]`)
    .filter((text) => !Number.isNaN(number(text)))
    .map((text) => [number(text), place(text)]);
  const points = (path) => path.getAttribute("d").match(/[\\d.]+ [\\d.]+/g)
    .map((point) => point.split(" ").map(Number));
  return {
    x: side("middle", (text) => text.x.baseVal[0].value),
    y: side("end", (text) => text.y.baseVal[0].value - 4),
    dots: all(".explorer-dots circle:nth-child(even)")
      .map((dot) => [dot.style.fill, dot.cx.baseVal.value, dot.cy.baseVal.value]),
    lines: all(".explorer-lines path:not([stroke-dasharray])")
      .map((path) => [path.style.stroke, points(path)]),
    levels: all(".explorer-lines [stroke-dasharray]").map((path) => points(path)[0][1]),
    names: all(".explorer-names text").map((text) => text.textContent),
    sliders: all("[type=range]").map((input) => [
      input.getAttribute("aria-valuetext"), input.previousElementSibling.textContent]),
    says: box.querySelector("[aria-live=polite]").textContent,
  };
}"""
# Moves a slider to the position with this text; whether there is one.
MOVE = """(input, text) => {
  for (let k = 0; k <= Number(input.max); k += 1) {
    input.value = k;
    input.dispatchEvent(new Event("input", { bubbles: true }));
    if (input.getAttribute("aria-valuetext") === text) return true;
  }
  return false;
}"""


def position_text(value) -> str:
    """A slider's position, as the figure says it."""
    return value if isinstance(value, str) else f"{value:,}".replace("-", "−")


class Figure:
    """The interactive figure of an open page."""

    def __init__(self, page, address: str, name: str):
        self.page, self.case, self.ticks = page, CASES[name], []
        page.set_viewport_size({"width": 1280, "height": 900})
        page.goto(f"{address}book/{name}.html")
        self.box = page.locator(".explorer")
        self.box.locator("svg").first.wait_for()

    def slider(self, name: str):
        return self.box.get_by_role("slider", name=name, exact=True)

    def look(self) -> dict:
        return self.box.evaluate(READ)

    def set(self, *positions) -> dict:
        """Move all sliders; what the figure then shows."""
        texts = [position_text(each) for each in positions]
        for name, text in zip(self.case.sliders, texts, strict=True):
            assert self.slider(name).evaluate(MOVE, text), (name, text)
        shown = self.look()
        assert shown["sliders"] == [[text, text] for text in texts]
        self.ticks.append([shown["x"], shown["y"]])
        return shown

    def axis(self, shown: dict, side: str) -> Callable[[float, bool], float]:
        """From a value to its pixel or, turned, from a pixel to its value: read off the
        ticks.
        """
        values, pixels = np.array(shown[side]).T
        log = side in self.case.log
        slope, zero = np.polyfit(np.log(values) if log else values, pixels, 1)
        turned = lambda pixel: (pixel - zero) / slope
        value = lambda pixel: np.exp(turned(pixel)) if log else turned(pixel)
        pixel = lambda value: slope * (np.log(value) if log else value) + zero
        return lambda number, back=False: (value if back else pixel)(number)


def grid(case: Case) -> list[tuple]:
    """Positions in which each slider is at each of its values."""
    most = max(map(len, case.sliders.values()))
    pick = lambda values, n: values[n % len(values)]
    straight = [tuple(pick(v, n) for v in case.sliders.values()) for n in range(most)]
    turned = [
        tuple(pick(v, n + k) for k, v in enumerate(case.sliders.values()))
        for n in range(most)
    ]
    return list(dict.fromkeys(straight + turned))


def misses(figure: Figure, positions: tuple) -> list[str]:
    """What a figure does not show as the library has it."""
    wanted = np.array(figure.case.values(*positions), float)
    shown = figure.set(*positions)
    read, there = figure.axis(shown, "y"), np.isfinite(wanted)
    drawn = [y for _, _, y in shown["dots"]] + shown["levels"]
    values = np.array([read(y, back=True) for y in drawn])
    room = 0 if "y" in figure.case.log else np.ptp([v for v, _ in shown["y"]])
    found = []
    if not np.allclose(values, wanted[there], rtol=4e-3, atol=3e-3 * room):
        found.append(f"{positions}: drawn {values}, expected {wanted[there]}")
    texts = re.findall(r" (−?[\d.,e−]+)[;.](?= |$)", shown["says"].partition(":")[2])
    said = [float(text.replace("−", "-").replace(",", "")) for text in texts]
    if not np.allclose(said, wanted[there], rtol=6e-4, atol=1e-4 * room):
        found.append(f"{positions}: says {said}, expected {wanted[there]}")
    x = figure.axis(shown, "x")(positions[0])
    for ink, *dot in shown["dots"]:
        lines = [points for color, points in shown["lines"] if color == ink]
        apart = min(np.hypot(*(np.array(line) - dot).T).min() for line in lines)
        if apart > 0.1 or abs(dot[0] - x) > 0.5:
            found.append(
                f"{positions}: a dot {apart} from its line, {dot[0] - x} off x"
            )
    return found


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
    places = grid(figure.case)
    assert [miss for positions in places for miss in misses(figure, positions)] == []
    # No slider moves an axis.
    assert len({str(ticks) for ticks in figure.ticks}) == 1 and len(figure.ticks) > 2
    # On a telephone the chart and its sliders are on one screen.
    page.set_viewport_size({"width": 390, "height": 844})
    page.wait_for_function(
        "document.querySelector('.explorer-frame > svg').clientWidth < 390"
    )
    assert misses(figure, places[1]) == []
    stage, controls = (
        figure.box.locator(f".explorer-{part}").bounding_box()
        for part in ("stage", "controls")
    )
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
        found = misses(figure, grid(figure.case)[1])
        assert any("drawn" in miss for miss in found)
        assert any("says" in miss for miss in found)


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
    box, shown = frame.bounding_box(), figure.look()
    across = figure.axis(shown, "x")(value)
    return box["x"] + across, box["y"] + box["height"] / 2


@pytest.mark.parametrize("name", CASES)
def test_a_dot_follows_mouse_finger_and_keys(page, address, name):
    figure = Figure(page, address, name)
    label, (first, *_, last) = next(iter(figure.case.sliders.items()))
    slider = figure.slider(label)
    says = lambda: figure.look()["says"]
    at = lambda: slider.get_attribute("aria-valuetext")
    begin, began = at(), says()

    # By mouse: at once, and no longer when the button is up.
    page.mouse.move(*middle(figure, last))
    page.mouse.down()
    assert at() == position_text(last) and says() != began
    page.mouse.move(*middle(figure, first), steps=3)
    assert at() == position_text(first)
    page.mouse.up()
    page.mouse.move(*middle(figure, last))
    assert at() == position_text(first)

    # By key: an arrow is one position, and Escape goes back to where all began.
    slider.focus()
    page.keyboard.press("End")
    page.keyboard.press("Home")
    before = says()
    page.keyboard.press("ArrowRight")
    assert slider.input_value() == "1" and says() != before
    page.keyboard.press("Escape")
    assert (at(), says()) == (begin, began)

    # By finger: sideways it drags, up or down it scrolls the page; a tap moves, too.
    page.set_viewport_size({"width": 390, "height": 844})
    page.wait_for_function(
        "document.querySelector('.explorer-frame > svg').clientWidth < 390"
    )
    for value in (last, first):
        (x, y), scrolled = middle(figure, value), page.evaluate("scrollY")
        swipe(page, [(195 + k * (x - 195) / 8, y + k) for k in range(9)])
        assert at() == position_text(value) and page.evaluate("scrollY") == scrolled
    (x, y), scrolled = middle(figure, last), page.evaluate("scrollY")
    swipe(page, [(x, y - 20 * k) for k in range(9)])
    page.wait_for_function(f"scrollY > {scrolled}")
    assert at() == position_text(first)
    swipe(page, [middle(figure, last)])
    assert at() == position_text(last)


def swipe(page, places: list[tuple[float, float]]) -> None:
    """A finger that goes down at the first place, moves through the others, lifts."""
    for k, (x, y) in enumerate(places):
        touch(page, "touchMove" if k else "touchStart", [{"x": x, "y": y}])
    touch(page, "touchEnd", [])


def touch(page, kind: str, points: list[dict]) -> None:
    page.touch.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})


@pytest.mark.parametrize("name", CASES)
def test_each_answer_is_judged_at_once_with_its_reason(page, address, name):
    figure = Figure(page, address, name)
    answers = figure.box.locator("details")
    summaries = answers.locator("summary").all()
    names = [summary.inner_text() for summary in summaries]
    reasons = [answer.locator("p") for answer in answers.all()]
    assert len(names) >= 3 and names[-1] == "Show the answer"
    right = names.index(figure.case.right)
    shown = lambda: [reason.is_visible() for reason in reasons]
    assert not any(shown())

    # Wrong, then a change of mind, by mouse.
    for k in [n for n in range(len(names) - 1) if n != right] + [right]:
        summaries[k].click()
        said = reasons[k].inner_text()
        assert said.startswith("That is right. " if k == right else "Not quite. ")
        assert len(said) > 50
    assert len({reason.inner_text() for reason in reasons}) == len(names)
    # By key, and all closed by Escape.
    summaries[right].focus()
    page.keyboard.press("Escape")
    assert not any(shown())
    summaries[-1].focus()
    page.keyboard.press("Enter")
    assert shown()[-1] and reasons[-1].inner_text().startswith(f"{names[right]}. ")
    # By finger, on a telephone.
    page.set_viewport_size({"width": 390, "height": 844})
    summaries[right].scroll_into_view_if_needed()
    box = summaries[right].bounding_box()
    swipe(page, [(box["x"] + 60, box["y"] + box["height"] / 2)])
    reasons[right].wait_for(state="visible")


def test_a_screen_reader_hears_the_question_the_sliders_and_the_values(page, address):
    figure = Figure(page, address, "initial_guess")
    group = page.get_by_role("group", name="The context becomes ten times longer.")
    assert group.count() == 1
    for name in figure.case.sliders:
        assert group.get_by_role("slider", name=name, exact=True).count() == 1
    label = "mean squared error against examples C"
    assert group.get_by_role("img", name=label, exact=True).count() == 1
    figure.set(10, 10, 40)
    says = "At examples C = 10: gap 0.7843; one step’s risk 5.238."
    assert figure.look()["says"] == says


def test_nothing_moves_by_itself(page, address):
    figure = Figure(page, address, "initial_guess")
    figure.slider("examples C").press("ArrowRight")
    figure.box.locator("summary").first.click()
    assert page.evaluate("document.getAnimations().length") == 0


def test_without_its_script_a_figure_is_a_picture_with_a_question(browser, address):
    path = "book/initial_guess.html"
    with visit(browser, address, path, scripts=False) as (page, noise):
        box = page.locator(".explorer")
        picture = page.locator(".cell_output:has(.explorer) > svg.drawing")
        assert picture.is_visible() and not box.locator("svg").count()
        box.locator("summary").first.click()
        assert box.locator("details[open]").inner_text().count("Not quite.") == 1
        assert noise == []
    with visit(browser, address, path) as (page, _):
        page.locator(".explorer svg").first.wait_for()
        assert not page.locator(
            ".cell_output:has(.explorer) > svg.drawing"
        ).is_visible()
