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


def pixel(ticks: list, value: float, log: bool = False) -> float:
    """The pixel of a value on an axis."""
    values, places = np.array(ticks).T
    slope, start = np.polyfit(np.log(values) if log else values, places, 1)
    return float(start + slope * (np.log(value) if log else value))


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


# The frame of a chart, where a drag ends in units of its axes, and the values that the controls then have: of all that
# they can take, those nearest on the axes. Without a height the drag stays in the middle.
DRAGS = {
    "answer": [(0, (23.4, None), {"error": 23})],
    "heads": [(0, (5.3, None), {"heads": 5})],
    "guess": [(1, (2.33, None), {"guess": 2.3})],
    "triangle": [(0, (0.62, -0.63), {"m": 37 / 60, "c": -0.65}), (1, (0.8, 1.05), {})],
    "pair": [(0, (7300, None), {"C": 10_000})],
    "stand-in": [(0, (1.083, None), {"C": 30}), (1, (73, None), {"C": 100})],
    "fast-weights": [(0, (0.9, 0.66), {"start": 0.8}), (1, (2, 3.1), {"start": 0.3})],
}
LOG = [("pair", 0), ("stand-in", 1)]  # these have a logarithmic axis of x
SLIDERS = """box => Object.fromEntries(JSON.parse(box.querySelector("script").textContent).controls
    .filter(({ options }) => !options).map(({ name, values }) => {
        const at = Number(box.querySelector(`[name=${name}]`).value);
        return [name, values ? values[at] : at];
    }))"""


def drag(box, number: int, way) -> dict[str, float]:
    """Where the sliders stand after a drag from a frame's middle; what the pointer does later changes nothing."""
    frame, mouse, said = box.locator(".explorer-frame").nth(number), box.page.mouse, box.locator("[aria-live]")
    frame.evaluate("e => e.scrollIntoView({ block: 'center' })")
    before, place = said.inner_text(), frame.bounding_box()
    start = np.array([place["x"] + place["width"] / 2, place["y"] + place["height"] / 2])
    mouse.move(*start)
    mouse.down()
    mouse.move(*(start + way), steps=3)
    mouse.up()
    reached = box.evaluate(SLIDERS)
    mouse.move(*start)
    assert said.inner_text() != before and box.evaluate(SLIDERS) == reached
    return reached


@only(*DRAGS)
def test_a_drag_ends_at_the_value_below_the_pointer(explorer):
    name, box, controls = explorer
    for number, (x, y), wanted in DRAGS[name]:
        box.evaluate(SET, {control["name"]: control["value"] for control in controls})
        size = box.locator(".explorer-frame").nth(number).bounding_box()
        middle, axes = np.array([size["width"], size["height"]]) / 2, box.evaluate(DRAWN)[number - (name == "guess")]
        end = pixel(axes["x"], x, (name, number) in LOG), middle[1] if y is None else pixel(axes["y"], y)
        reached = drag(box, number, end - middle)
        if (name, number) == ("triangle", 1):
            # Step and c shrink together, in their own units: the layer is as far from the best step as the pointer.
            assert np.hypot(np.sqrt(3) * (reached["m"] - 1 / 3), reached["c"]) == pytest.approx(y, abs=0.03)
            assert reached["c"] / (reached["m"] - 1 / 3) == pytest.approx(0.8 / (2 / 3), rel=0.1)
        else:
            assert {key: reached[key] for key in wanted} == pytest.approx(wanted)


@only("guess", "patterns")
def test_a_picture_without_axes_can_be_dragged(explorer):
    """A token by forty pixels a unit; a training from the left edge to the right one."""
    name, box, controls = explorer
    if name == "guess":
        assert drag(box, 0, [93, 0])["guess"] == pytest.approx(2.3)
    else:
        width, steps = box.locator(".explorer-frame").bounding_box()["width"], controls[0]["values"]
        assert drag(box, 0, [0.2 * width, 0])["step"] == steps[round(0.7 * (len(steps) - 1))]


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
