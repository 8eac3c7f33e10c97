"""The interactive figures on their pages: numbers and drawings against the library, questions, drags and failure."""

import re

import numpy as np
import pytest
from browser import visit
from explorer_numbers import DRAWINGS, FORMULAS, PAGES, curves, patterns, states, triangle

from tools.site.explorer_data import EXPLORERS, FULL, UNITS

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
# Of each chart: its curves as [ink, points in pixels], its dots as [ink, x, y], and the ticks of both axes as
# [value, pixel].
DRAWN = """box => [...box.querySelectorAll("svg[role=img]:has(.explorer-axes)")].map((chart) => {
    const number = (text) => Number(text.textContent.replace(/,/g, "").replace("−", "-"));
    const texts = [...chart.querySelectorAll(".explorer-axes text")].filter((text) => !Number.isNaN(number(text)));
    const side = (anchor, place) => texts.filter((text) => text.getAttribute("text-anchor") === anchor)
        .map((text) => [number(text), place(text)]);
    const lines = [...chart.querySelectorAll("path.explorer-line")], dots = chart.querySelectorAll("circle");
    return {
        x: side("middle", (text) => text.x.baseVal[0].value),
        y: side("end", (text) => text.y.baseVal[0].value - 4),
        lines: lines.map((line) => [line.style.stroke,
            line.getAttribute("d").match(/-?[\\d.]+ -?[\\d.]+/g).map((point) => point.split(" ").map(Number))]),
        dots: [...dots].map((dot) => [dot.style.stroke, dot.cx.baseVal.value, dot.cy.baseVal.value]),
    };
})"""

# Of each picture of a head: its cells as [column, row, opacity, ink].
CELLS = """box => [...box.querySelectorAll("svg[role=img]")].map((head) =>
    [...head.querySelectorAll("rect:not(.explorer-border)")].map((cell) =>
        [cell.x.baseVal.value, cell.y.baseVal.value, Number(cell.getAttribute("opacity")), cell.style.fill]))"""


# One page load an explorer; its tests follow one another.
@pytest.fixture(scope="module", params=[pytest.param(name, marks=pytest.mark.xdist_group(name)) for name in PAGES])
def page_of(request, browser, address):
    with visit(browser, address, f"book/{PAGES[request.param]}.html") as (page, noise):
        box = page.locator(".explorer")
        box.locator("svg[role=img]").first.wait_for()
        yield request.param, box
        assert noise == []


@pytest.fixture
def explorer(page_of):
    """An explorer's name, its box with all controls at their start, and the controls."""
    name, box = page_of
    controls = EXPLORERS[name]()["controls"]
    box.evaluate(SET, {control["name"]: control["value"] for control in controls})
    return name, box, controls


def only(*names):
    """For these explorers alone."""
    return pytest.mark.parametrize(
        "page_of", [pytest.param(n, marks=pytest.mark.xdist_group(n)) for n in names], indirect=True
    )


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
    wrong = [
        name for name in wanted.keys() - {"said", "agree", "at_three"} if not close(values[name], wanted[name], 1e-6)
    ]
    agree = ["agree"] * (("agree" in said) != wanted.get("agree", False))
    return wrong + agree + [f"text {numbers(said)}"] * (not close(numbers(said), wanted["said"], 6e-4))


@only(*FORMULAS)
def test_every_number_is_the_library_s(explorer):
    name, box, _ = explorer
    formula, grid = FORMULAS[name]
    every = states(name, **grid)
    told = [box.evaluate(SET, state) for state in every]
    wrong = {str(s): found for s, said in zip(every, told, strict=True) if (found := misses(*said, formula(**s)))}
    assert wrong == {}
    # The control: the numbers of one state are not those of another.
    assert misses(*told[0], formula(**every[-1])) != []


def on(ticks: list, pixels: np.ndarray, log: bool) -> np.ndarray:
    """Pixels in units of an axis, which is read off its ticks."""
    values, places = np.array(ticks).T
    slope, start = np.polyfit(places, np.log(values) if log else values, 1)
    read = start + slope * np.asarray(pixels)
    return np.exp(read) if log else read


def distance(point: np.ndarray, line: list) -> float:
    """From a point to a polyline, in pixels."""
    a, b = np.array(line[:-1]), np.array(line[1:])
    along = np.clip(((point - a) * (b - a)).sum(1) / np.maximum(((b - a) ** 2).sum(1), 1e-9), 0, 1)
    return float(np.linalg.norm(a + along[:, None] * (b - a) - point, axis=1).min())


@only(*dict.fromkeys(name for name, *_ in DRAWINGS))
def test_every_curve_is_the_library_s_and_passes_through_its_own_dot(explorer):
    name, box, _ = explorer
    for state, logs in ((state, logs) for which, state, logs in DRAWINGS if which == name):
        box.evaluate(SET, state)
        drawn = box.evaluate(DRAWN)
        for chart, (log_x, log_y), (x, wanted) in zip(drawn, logs, curves(name, state), strict=True):
            lines = [np.array(points).T for _, points in chart["lines"]]
            pairs = [(on(chart["x"], a, log_x), on(chart["y"], b, log_y)) for a, b in lines]
            heights = [np.interp(x, *pair) for pair in pairs[: len(wanted)]]
            np.testing.assert_allclose(heights, wanted, rtol=0.03 if log_y else 0.01, atol=1e-3)
            first = dict(reversed(chart["lines"]))
            far = {ink: distance(np.array(dot), first[ink]) for ink, *dot in chart["dots"]}
            assert len(far) > 0 and max(far.values()) < 1.5
            if name == "heads":
                np.testing.assert_allclose(pairs[2], [[3, 3], wanted[::-1]], rtol=0.01)
            if name == "stand-in" and len(wanted) == 2:
                assert heights[0] < 0.9 * heights[1]  # label noise is seen


@only("triangle")
def test_the_triangle_s_sides_are_distances(explorer):
    """In pixels, so that both axes of a chart have the same unit of distance."""
    _, box, controls = explorer
    m = controls[0]["values"][70]
    box.evaluate(SET, {"m": m, "c": -0.9})
    plane, sides = box.evaluate(DRAWN)
    v = triangle(m, -0.9)
    length = lambda points: np.linalg.norm(np.subtract(points[-1], points[0]))
    for chart, lines, squares in (
        (plane, plane["lines"], [v["wrong"], v["even"], v["risk"] - v["base"]]),
        (sides, sides["lines"][:3], [v["base"], v["risk"] - v["base"], v["risk"]]),
    ):
        unit = abs(np.polyfit(*np.array(chart["y"]).T, 1)[0])
        np.testing.assert_allclose([length(points) / unit for _, points in lines], np.sqrt(squares), rtol=0.01)
        layer = chart["dots"][-1]
        assert min(distance(np.array(layer[1:]), line) for ink, line in chart["lines"] if ink == layer[0]) < 1.5


@only("patterns")
def test_patterns_are_those_that_are_stored(explorer):
    _, box, (steps, layer) = explorer
    for state in states("patterns", step=steps["values"], layer=[name for name, _ in layer["options"]]):
        wanted = patterns(**state)
        values, said = box.evaluate(SET, state)
        labels = box.locator("svg[role=img]").evaluate_all("all => all.map(e => e.ariaLabel)")
        for A, b, label, cells in zip(wanted["A"], wanted["b"], labels, box.evaluate(CELLS), strict=True):
            drawn = np.full((len(A), len(A) + 1), np.nan)
            for x, y, opacity, ink in cells:
                drawn[int(y), int(x)] = opacity if ink == "var(--fig-yq)" else -opacity
            shares = np.column_stack([A / FULL["A"], b / FULL["b"]]).clip(-1, 1)
            np.testing.assert_allclose(drawn, shares, atol=0.01)
            features = A[:, :-1][~np.eye(len(A), dtype=bool)[:, :-1]]
            told = [np.trace(A[:-1, :-1]) / (len(A) - 1), abs(features).max(), b[-1], abs(b[:-1]).max()]
            np.testing.assert_allclose(numbers(label)[1:], told, atol=0.0105)
        for key, unit in UNITS.items():
            np.testing.assert_allclose(values.pop(key), wanted.pop(key), atol=0.51 * unit)
        np.testing.assert_allclose(numbers(said), wanted.pop("said"), atol=0.0052)
        for key, value in wanted.items():
            np.testing.assert_allclose(values[key], value, atol=1e-3)


@only(*FORMULAS)
def test_no_slider_moves_an_axis(explorer):
    _, box, controls = explorer
    sliders = [control for control in controls if "options" not in control]
    choices = [{c["name"]: value} for c in controls if "options" in c for value, _ in c["options"]] or [{}]
    ticks = lambda: [(chart["x"], chart["y"]) for chart in box.evaluate(DRAWN)]
    for choice in choices:
        box.evaluate(SET, choice)
        before = ticks()
        for slider in sliders:
            ends = [slider["values"][k] for k in (0, -1)] if "values" in slider else [slider["min"], slider["max"]]
            for value in (*ends, slider["value"]):
                box.evaluate(SET, {slider["name"]: value})
                assert ticks() == before and len(before[0][0]) > 1


# A drag ends where? The frame, the place beyond its left upper corner in widths and heights, a slider, its value there.
DRAGS = {
    "answer": [(0, (1.1, 0.5), "error", "max")],
    "heads": [(0, (1.1, 0.5), "heads", "max")],
    "guess": [(0, (1.1, 0.5), "guess", "max"), (1, (1.1, 0.5), "guess", "max")],
    "triangle": [(0, (1.1, -0.1), "m", "max"), (0, (1.1, -0.1), "c", "max"), (1, (0.5, 1.1), "c", "0")],
    "pair": [(0, (-0.1, 0.5), "C", "min")],
    "stand-in": [(0, (1.1, 0.5), "C", "min"), (1, (1.1, 0.5), "C", "max")],
    "patterns": [(0, (1.1, 0.5), "step", "max")],
    "fast-weights": [(0, (1.1, -0.1), "start", "max"), (1, (0.5, 1.1), "start", "1")],
}


def test_the_picture_can_be_dragged(explorer):
    name, box, controls = explorer
    text, mouse = box.locator("[aria-live]"), box.page.mouse
    for number, end, slider, wanted in DRAGS[name]:
        box.evaluate(SET, {control["name"]: control["value"] for control in controls})
        frame = box.locator(".explorer-frame").nth(number)
        frame.evaluate("e => e.scrollIntoView({ block: 'center' })")
        before, place = text.inner_text(), frame.bounding_box()
        mouse.move(place["x"] + 0.4 * place["width"], place["y"] + 0.4 * place["height"])
        mouse.down()
        mouse.move(place["x"] + end[0] * place["width"], place["y"] + end[1] * place["height"], steps=5)
        mouse.up()
        value, reached = box.locator(f"[name={slider}]").evaluate("(e, end) => [e.value, e[end] ?? end]", wanted)
        assert value == reached and text.inner_text() != before
        mouse.move(place["x"] + 0.5 * place["width"], place["y"] + 0.5 * place["height"])
        assert box.locator(f"[name={slider}]").input_value() == value


# Where a finger begins, how far it moves, and whether that drags; if not, it scrolls the page.
SWIPES = {
    "guess": [("svg:has(.explorer-axes)", (100, 0), True), ("svg:has(.explorer-axes)", (0, -200), False)],
    "triangle": [(".explorer-grip", (0, -60), True), ("svg", (0, -200), False)],
}


@only(*SWIPES)
def test_a_finger_drags_or_scrolls_the_page(explorer):
    name, box, _ = explorer
    touch = box.page.context.new_cdp_session(box.page)
    touch.send("Emulation.setTouchEmulationEnabled", {"enabled": True})
    for where, way, drags in SWIPES[name]:
        target = box.locator(".explorer-frame").locator(where).first
        target.evaluate("e => e.scrollIntoView({ block: 'center' })")
        look = lambda: (box.get_attribute("data-values"), box.page.evaluate("scrollY"))
        (values, scroll), place = look(), target.bounding_box()
        x, y = place["x"] + place["width"] / 2, place["y"] + place["height"] / 2
        seen = []
        for k in range(12):
            kind = "touchStart" if k == 0 else "touchEnd" if k == 11 else "touchMove"
            points = [{"x": x + k * way[0] / 10, "y": y + k * way[1] / 10}] if k < 11 else []
            touch.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})
            seen.append(look()[0])
        box.page.wait_for_timeout(200)
        # A drag goes on to its end.
        assert [seen[10] != values, seen[10] != seen[7], look()[1] == scroll] == [drags] * 3
    touch.send("Emulation.setTouchEmulationEnabled", {"enabled": False})


@only("heads")
def test_the_answer_is_hidden_until_it_is_asked_for(explorer):
    _, box, _ = explorer
    choices, show = box.get_by_role("group").get_by_role("button"), box.get_by_role("button", name="Show the answer")
    answer = box.locator(f"#{show.get_attribute('aria-controls')}")
    right = choices.nth(int(box.get_attribute("data-right")) - 1)
    assert choices.count() == 3 and not answer.is_visible() and answer.locator("p").count() == 2
    for choice, verdict in ((right, "You were right."), (choices.last, "Not quite.")):
        choice.press("Enter")
        assert choice.get_attribute("aria-pressed") == "true" and box.locator(".explorer-right").count() == 0
        show.press("Enter")
        assert answer.inner_text().startswith(verdict) and box.locator(".explorer-right").count() == 1
        box.get_by_role("button", name="Hide the answer").press("Enter")
        assert not answer.is_visible()


@only("answer", "patterns")
def test_the_keyboard_moves_a_slider_and_the_text_follows(explorer):
    name, box, _ = explorer
    if name == "patterns":
        slider = box.get_by_label("training step", exact=True)
        slider.press("End")
        assert slider.get_attribute("aria-valuetext") == "100,000"
        return
    slider, text = box.get_by_label("features d", exact=True), box.locator("[aria-live=polite]")
    before, value = text.inner_text(), int(slider.input_value())
    slider.press("ArrowRight")
    assert int(slider.input_value()) == value + 1 and text.inner_text() != before
    slider.press("ArrowLeft")
    assert text.inner_text() == before


def test_an_explorer_that_fails_stays_hidden(browser, address):
    page, errors = browser.new_page(), []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.route("**/explorer-answer.js*", lambda route: route.fulfill(body="explorers.made.answer = () => none.there;"))
    page.goto(f"{address}book/intro.html")
    assert errors == ["none is not defined"] and not page.locator(".explorer").is_visible()
    page.close()
