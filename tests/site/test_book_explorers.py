"""The explorable figures on their pages: every number and every curve against the library; keyboard and failure."""

import re
from contextlib import contextmanager

import numpy as np
import pytest
from browser import visit
from explorer_numbers import FORMULAS, patterns, states

from tools.site.explorer_data import EXPLORERS, UNITS

SET = """(box, state) => {
    const data = JSON.parse(box.querySelector("script").textContent);
    for (const [name, value] of Object.entries(state)) {
        const input = box.querySelector(`[name=${name}]`);
        const { values } = data.controls.find((control) => control.name === name);
        input.value = values ? values.indexOf(value) : value;
        input.dispatchEvent(new Event("input", { bubbles: true }));
    }
    return [JSON.parse(box.dataset.values), box.querySelector(".explorer-says").textContent];
}"""
# The curves of each chart, [colour, points in pixels], its dots, and the ticks of both axes, [value, pixel].
DRAWN = """box => [...box.querySelectorAll("svg[role=img]")].map((chart) => {
    const number = (text) => Number(text.textContent.replace(/,/g, ""));
    const texts = [...chart.querySelectorAll("text")].filter((text) => /^[\\d.,]+$/.test(text.textContent));
    const side = (anchor, place) => texts.filter((text) => text.getAttribute("text-anchor") === anchor)
        .map((text) => [number(text), place(text)]);
    return {
        x: side("middle", (text) => text.x.baseVal[0].value),
        y: side("end", (text) => text.y.baseVal[0].value - 4),
        lines: [...chart.querySelectorAll("path.explorer-line")].map((line) =>
            line.getAttribute("d").match(/[\\d.]+ [\\d.]+/g).map((point) => point.split(" ").map(Number))),
        dots: [...chart.querySelectorAll("circle")].map((dot) => [dot.cx.baseVal.value, dot.cy.baseVal.value]),
    };
})"""


@contextmanager
def opened(browser, address, stem: str):
    """The page's explorer, unfolded."""
    with visit(browser, address, f"book/{stem}.html") as (page, noise):
        page.locator("article details").evaluate_all("all => all.forEach(fold => { fold.open = true; })")
        box = page.locator(".explorer")
        box.locator("svg[role=img]").first.wait_for()
        yield box
        assert noise == []


def numbers(text: str) -> list[float]:
    """The numbers that stand alone in a text."""
    found = re.findall(r"(?<![\w.,\[])-?\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?", text.replace("eq. 23", "").replace("−", "-"))
    return [float(number.replace(",", "")) for number in found]


def close(value, wanted, rtol: float) -> bool:
    if value is None or wanted is None or np.shape(value) != np.shape(wanted):
        return value is wanted
    return bool(np.allclose(value, wanted, rtol=rtol, atol=1e-12))


def misses(values: dict, said: str, wanted: dict) -> list[str]:
    """The numbers of an explorer that are not the library's, and its text, which has four digits, where it differs."""
    wrong = [name for name in wanted if name != "said" and not close(values[name], wanted[name], 1e-6)]
    agree = ["both agree"] * ("limit" in wanted and ("both agree" in said) != (values["limit"] == values["paper"]))
    return wrong + agree + [f"text {numbers(said)}"] * (not close(numbers(said), wanted["said"], 6e-4))


@pytest.mark.parametrize("name", FORMULAS)
def test_every_number_is_the_library_s(browser, address, name):
    stem, formula, grid = FORMULAS[name]
    every = states(name, **grid)
    with opened(browser, address, stem) as box:
        told = [box.evaluate(SET, state) for state in every]
    wrong = {str(s): found for s, said in zip(every, told, strict=True) if (found := misses(*said, formula(**s)))}
    assert wrong == {}
    # The control: the numbers of one state are not those of another.
    assert misses(*told[0], formula(**every[-1])) != []


def on(ticks: list, pixels: np.ndarray, log: bool) -> np.ndarray:
    """Pixels in units of an axis, which is read off its ticks."""
    values, places = np.array(ticks).T
    slope, start = np.polyfit(places, np.log(values) if log else values, 1)
    read = start + slope * pixels
    return np.exp(read) if log else read


def charts(box, logs: list[tuple[bool, bool]]) -> list[dict]:
    """What is drawn, in units of the axes; `logs` says which axes are logarithmic."""

    def place(chart: dict, points: list, x: bool, y: bool) -> list:
        return [on(chart["x"], np.array(points)[:, 0], x), on(chart["y"], np.array(points)[:, 1], y)]

    return [
        {"lines": [place(chart, line, *log) for line in chart["lines"]]}
        | {"dots": place(chart, chart["dots"], *log) if chart["dots"] else None}
        for chart, log in zip(box.evaluate(DRAWN), logs, strict=True)
    ]


def heights(chart: dict, x: float) -> list[float]:
    """The height of each curve at x."""
    return [float(np.interp(x, *line)) for line in chart["lines"]]


@pytest.mark.parametrize("over", ["error", "C", "d", "noise"])
def test_the_answer_s_curves_are_the_risks(browser, address, over):
    state = {"d": 7, "C": 5, "noise": 0.5 * (over == "noise"), "error": 60}
    with opened(browser, address, "intro") as box:
        values, _ = box.evaluate(SET, {"over": over, **state})
        (chart,) = charts(box, [(False, False)])
    wanted = [values[name] for name in ("lsa", "gd", "yq", "bayes") if values[name] is not None]
    assert len(wanted) == (3 if over == "noise" else 4) and wanted[0] > 1.2 * wanted[1]
    np.testing.assert_allclose(heights(chart, state[over])[: len(wanted)], wanted, rtol=0.01)
    np.testing.assert_allclose(chart["dots"][1], [value for k, value in enumerate(wanted) if k != 2], rtol=0.01)


def test_the_price_of_few_heads_is_drawn_from_the_gradient_step(browser, address):
    with opened(browser, address, "heads") as box:
        values, _ = box.evaluate(SET, {"d": 10, "C": 10, "error": 40, "heads": 3})
        (chart,) = charts(box, [(False, False)])
    least, gd, price = chart["lines"]
    assert np.interp(3, *least) == pytest.approx(values["risk"], rel=0.01) and least[1][-1] < 0.9 * values["risk"]
    np.testing.assert_allclose(gd[1], values["gd"], rtol=0.01)
    np.testing.assert_allclose(price, [[3, 3], [values["gd"], values["risk"]]], rtol=0.01)


def test_the_pair_s_curves_are_the_moments(browser, address):
    with opened(browser, address, "gradients") as box:
        values, _ = box.evaluate(SET, {"d": 5, "C": 10, "mean": 1, "entry": "yy"})
        (chart,) = charts(box, [(True, False)])
    wanted = [values[name] for name in ("exact", "independent", "limit", "paper")]
    np.testing.assert_allclose(heights(chart, 10), wanted, rtol=0.01)


@pytest.mark.parametrize("noise", [0, 3])
def test_the_stand_in_s_curves_are_its_density_and_what_is_left(browser, address, noise):
    with opened(browser, address, "initial_guess") as box:
        values, _ = box.evaluate(SET, {"d": 3, "C": 10, "error": 40, "noise": noise})
        density, share = charts(box, [(False, False), (True, True)])
    assert heights(density, 1)[0] == pytest.approx(values["density"], rel=0.01)
    left, *plain = heights(share, 10)
    assert left == pytest.approx(values["left"], rel=0.03)
    # With label noise a second curve shows what would be left without it.
    assert plain == [pytest.approx(2 / (10 * 3 + 2), rel=0.03)] * (noise > 0)
    assert not plain or left < 0.9 * plain[0]


def test_patterns_are_those_that_are_stored(browser, address):
    controls = {control["name"]: control for control in EXPLORERS["patterns"]()["controls"]}
    layers = [name for name, _ in controls["layer"]["options"]]
    with opened(browser, address, "softmax") as box:
        for state in states("patterns", step=controls["step"]["values"], layer=layers):
            wanted = patterns(**state)
            values, said = box.evaluate(SET, state)
            labels = box.locator("svg[role=img]").evaluate_all("all => all.map(e => e.ariaLabel)")
            for A, b, label in zip(wanted["A"], wanted["b"], labels, strict=True):
                features = A[:, :-1][~np.eye(len(A), dtype=bool)[:, :-1]]
                told = [np.trace(A[:-1, :-1]) / (len(A) - 1), abs(features).max(), b[-1], abs(b[:-1]).max()]
                np.testing.assert_allclose(numbers(label)[1:], told, atol=0.0105)
            for key, unit in UNITS.items():
                np.testing.assert_allclose(values.pop(key), wanted.pop(key), atol=0.51 * unit)
            np.testing.assert_allclose(numbers(said), wanted.pop("said"), atol=0.0052)
            for key, value in wanted.items():
                np.testing.assert_allclose(values[key], value, atol=1e-3)


def test_the_keyboard_moves_a_slider_and_the_text_follows(browser, address):
    with opened(browser, address, "intro") as box:
        slider, text = box.get_by_label("features d", exact=True), box.locator("[aria-live=polite]")
        before, value = text.inner_text(), int(slider.input_value())
        slider.press("ArrowRight")
        assert int(slider.input_value()) == value + 1 and text.inner_text() != before
        slider.press("ArrowLeft")
        assert text.inner_text() == before
    with opened(browser, address, "softmax") as box:
        slider = box.get_by_label("training step", exact=True)
        slider.press("End")
        assert slider.get_attribute("aria-valuetext") == "100,000"


def test_an_explorer_that_fails_stays_hidden(browser, address):
    page, errors = browser.new_page(), []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.route("**/explorer-answer.js*", lambda route: route.fulfill(body="explorers.made.answer = () => none.there;"))
    page.goto(f"{address}book/intro.html")
    assert errors == ["none is not defined"] and not page.locator(".explorer").is_visible()
    page.close()
