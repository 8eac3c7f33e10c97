"""The interactive figures: numbers, drawings and drags against the library, in one
visit each.
"""

import re
from pathlib import Path

import numpy as np
import pytest
from browser import visit
from explorer_numbers import DRAWINGS, FORMULAS, LOG, PAGES, patterns, states, triangle

from tools.site.explorer_data import FULL, explorers

SCRIPT = Path(__file__).with_name("drawn.js").read_text(encoding="utf-8")


class Explorer:
    """An open interactive figure: `set` moves its controls, `look` reads what is drawn."""

    def __init__(self, name, page):
        self.name, self.page, self.box, self.controls = (
            name,
            page,
            page.locator(".explorer"),
            explorers()[name]["controls"],
        )
        self.box.locator("svg[role=img]").first.wait_for()
        page.evaluate(SCRIPT)

    def look(self, what, argument=None):
        return self.box.evaluate(
            f"(box, argument) => drawn.{what}(box, argument)", argument
        )

    def set(self, **state):
        """All controls are where they began, but these; returns the figure's numbers
        and what it says.
        """
        return self.look(
            "set",
            {control["name"]: control["value"] for control in self.controls} | state,
        )


@pytest.mark.parametrize("name", PAGES)
def test_an_explorer_shows_what_the_library_computes_and_follows_the_pointer(
    browser, address, name
):
    with visit(browser, address, f"book/{PAGES[name]}.html") as (page, noise):
        explorer = Explorer(name, page)
        if name in FORMULAS:
            the_numbers_are_the_library_s(explorer)
            no_slider_moves_an_axis(explorer)
        every_dot_lies_on_the_curve_of_its_color(explorer)
        {
            "triangle": the_sides_are_distances,
            "patterns": the_patterns_are_the_stored_ones,
        }.get(name, id)(explorer)
        the_keyboard_moves_a_slider(explorer)
        a_drag_ends_at_the_value_below_the_pointer(explorer)
        a_finger_drags_or_scrolls_the_page(explorer)
        assert noise == []


def numbers(text: str) -> list[float]:
    """The numbers that stand alone in a text."""
    found = re.findall(
        r"(?<![\w.,\[])-?\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?",
        text.replace("eq. 23", "").replace("−", "-"),
    )
    return [float(number.replace(",", "")) for number in found]


def close(value, wanted, rtol: float) -> bool:
    if value is None or wanted is None or np.shape(value) != np.shape(wanted):
        return value is wanted
    return bool(np.allclose(value, wanted, rtol=rtol, atol=1e-12))


def misses(values: dict, said: str, wanted: dict) -> list[str]:
    """The numbers of an explorer that are not the library's, and its text, which has
    four digits, where it differs.
    """
    keys = wanted.keys() - {"said", "agree"}
    wrong = [name for name in keys if not close(values[name], wanted[name], 1e-6)]
    agree = ["agree"] * (("agree" in said) != wanted.get("agree", False))
    return (
        wrong
        + agree
        + [f"text {numbers(said)}"] * (not close(numbers(said), wanted["said"], 6e-4))
    )


def the_numbers_are_the_library_s(explorer):
    formula, grid = FORMULAS[explorer.name]
    every = states(explorer.name, **grid)
    told = [explorer.set(**state) for state in every]
    wrong = {
        str(s): found
        for s, said in zip(every, told, strict=True)
        if (found := misses(*said, formula(**s)))
    }
    assert wrong == {}
    # The control: the numbers of one state are not those of another.
    assert misses(*told[0], formula(**every[-1])) != []


def axis(ticks: list, log: bool) -> tuple:
    """Two functions, read off an axis: from pixels to values and back."""
    values, places = np.array(ticks).T
    slope, start = np.polyfit(places, np.log(values) if log else values, 1)
    to, back = (np.exp, np.log) if log else (np.asarray, np.asarray)
    return lambda pixels: to(
        start + slope * np.asarray(pixels)
    ), lambda value: (back(value) - start) / slope


def distance(point: np.ndarray, line: list) -> float:
    """From a point to a polyline, in pixels."""
    a, b = np.array(line[:-1]), np.array(line[1:])
    along = np.clip(
        ((point - a) * (b - a)).sum(1) / np.maximum(((b - a) ** 2).sum(1), 1e-9), 0, 1
    )
    return float(np.linalg.norm(a + along[:, None] * (b - a) - point, axis=1).min())


def every_dot_lies_on_the_curve_of_its_color(explorer):
    """The numbers below the picture are the library's; the dots show them."""
    for state in (state for which, state in DRAWINGS if which == explorer.name):
        explorer.set(**state)
        for chart in explorer.look("charts"):
            first = dict(reversed(chart["lines"]))
            far = {
                ink: distance(np.array(dot), first[ink]) for ink, *dot in chart["dots"]
            }
            assert len(far) > 0 and max(far.values()) < 1.5


def the_sides_are_distances(explorer):
    """In pixels, so that both axes of a chart have the same unit of distance."""
    m = explorer.controls[0]["values"][70]
    explorer.set(m=m, c=-0.9)
    (plane, sides), v = explorer.look("charts"), triangle(m, -0.9)
    for chart, squares in (
        (plane, [v["wrong"], v["even"], v["risk"] - v["base"]]),
        (sides, [v["base"], v["risk"] - v["base"], v["risk"]]),
    ):
        unit = abs(np.polyfit(*np.array(chart["y"]).T, 1)[0])
        lengths = [
            np.linalg.norm(np.subtract(points[-1], points[0]))
            for _, points in chart["lines"][:3]
        ]
        np.testing.assert_allclose(
            np.divide(lengths, unit), np.sqrt(squares), rtol=0.01
        )


def the_patterns_are_the_stored_ones(explorer):
    steps, layer = explorer.controls
    for state in states(
        "patterns", step=steps["values"], layer=[name for name, _ in layer["options"]]
    ):
        wanted = patterns(**state)
        values, said = explorer.set(**state)
        for A, b, (label, cells) in zip(
            wanted["A"], wanted["b"], explorer.look("heads"), strict=True
        ):
            drawn = np.full((len(A), len(A) + 1), np.nan)
            for x, y, opacity, ink in cells:
                drawn[int(y), int(x)] = opacity if ink == "var(--fig-yq)" else -opacity
            shares = np.column_stack([A / FULL["A"], b / FULL["b"]]).clip(-1, 1)
            np.testing.assert_allclose(drawn, shares, atol=0.01)
            features = A[:, :-1][~np.eye(len(A), dtype=bool)[:, :-1]]
            told = [
                np.trace(A[:-1, :-1]) / (len(A) - 1),
                abs(features).max(),
                b[-1],
                abs(b[:-1]).max(),
            ]
            np.testing.assert_allclose(numbers(label)[1:], told, atol=0.0105)
        np.testing.assert_allclose(numbers(said), wanted.pop("said"), atol=0.0052)
        for key, value in wanted.items():
            np.testing.assert_allclose(values[key], value, atol=1e-3)
    # Two heads are a pair of opposite signs, unless they are named for their one sign.
    pair, single = (
        np.prod(patterns(steps["values"][-1], name)["mu"])
        for name in ("2 heads", "2 heads of one sign")
    )
    assert pair < 0 < single


def no_slider_moves_an_axis(explorer):
    sliders = [control for control in explorer.controls if "options" not in control]
    ends = [
        {s["name"]: s["values"][k] if "values" in s else s["max" if k else "min"]}
        for s in sliders
        for k in (0, -1)
    ]
    for choice in [
        {c["name"]: value}
        for c in explorer.controls
        for value, _ in c.get("options", ())
    ] or [{}]:
        ticks = []
        for state in ({}, *ends):
            explorer.set(**choice | state)
            ticks.append(
                [(chart["x"], chart["y"]) for chart in explorer.look("charts")]
            )
        assert len(ticks[0][0][0]) > 1 and all(each == ticks[0] for each in ticks)


def the_keyboard_moves_a_slider(explorer):
    said, slider = explorer.set()[1], explorer.box.locator("[type=range]").first
    slider.press("End")
    assert slider.input_value() == slider.get_attribute("max")
    assert (
        slider.get_attribute("aria-valuetext")
        == slider.locator("xpath=preceding-sibling::span").inner_text()
    )
    assert explorer.box.locator("[aria-live=polite]").inner_text() != said


# The frame of a chart, where a drag ends in units of its axes, and the values that the
# controls then have: of all that they can take, those nearest on the axes. Without a
# height the drag stays in the middle.
DRAGS = {
    "answer": [(0, (23.4, None), {"error": 23})],
    "heads": [(0, (5.3, None), {"heads": 5})],
    "guess": [(1, (2.33, None), {"guess": 2.3})],
    "triangle": [(0, (0.62, -0.63), {"m": 37 / 60, "c": -0.65}), (1, (0.8, 1.05), {})],
    "pair": [(0, (7300, None), {"C": 10_000})],
    "stand-in": [(0, (1.083, None), {"C": 30}), (1, (73, None), {"C": 100})],
    "fast-weights": [(0, (0.9, 0.66), {"start": 0.8}), (1, (2, 3.1), {"start": 0.3})],
    "patterns": [],
    "cloud": [(0, (-2.02, 1.31), {"x": -2.0, "y": 1.3})],
    "depth": [(0, (0.9, None), {"C": 20}), (1, (73, None), {"C": 100})],
    "arrival": [(0, (2040, None), {"step": 2000}), (1, (8200, None), {"step": 8000})],
}


def drag(explorer, number: int, way) -> dict[str, float]:
    """Where the sliders stand after a drag from a frame's middle; what the pointer does
    later changes nothing.
    """
    frame, mouse, said = (
        explorer.box.locator(".explorer-frame").nth(number),
        explorer.page.mouse,
        explorer.set()[1],
    )
    frame.evaluate("e => e.scrollIntoView({ block: 'center' })")
    place = frame.bounding_box()
    start = np.array(
        [place["x"] + place["width"] / 2, place["y"] + place["height"] / 2]
    )
    mouse.move(*start)
    mouse.down()
    mouse.move(*(start + way), steps=3)
    mouse.up()
    reached = explorer.look("sliders")
    mouse.move(*start)
    assert (
        explorer.box.locator("[aria-live]").inner_text() != said
        and explorer.look("sliders") == reached
    )
    return reached


def a_drag_ends_at_the_value_below_the_pointer(explorer):
    name = explorer.name
    for number, (x, y), wanted in DRAGS[name]:
        explorer.set()
        size = explorer.box.locator(".explorer-frame").nth(number).bounding_box()
        middle, axes = (
            np.array([size["width"], size["height"]]) / 2,
            explorer.look("charts")[number - (name == "guess")],
        )
        at_x, at_y = (
            axis(axes[side], side in LOG.get((name, number), ""))[1] for side in "xy"
        )
        reached = drag(
            explorer,
            number,
            [at_x(x) - middle[0], 0 if y is None else at_y(y) - middle[1]],
        )
        if (name, number) == ("triangle", 1):
            # Step and c shrink together, in their own units: the layer is as far from
            # the best step as the pointer.
            assert np.hypot(
                np.sqrt(3) * (reached["m"] - 1 / 3), reached["c"]
            ) == pytest.approx(y, abs=0.03)
            assert reached["c"] / (reached["m"] - 1 / 3) == pytest.approx(
                0.8 / (2 / 3), rel=0.1
            )
        assert {key: reached[key] for key in wanted} == pytest.approx(wanted)
    # Without axes: a token by forty pixels a unit; a training from the left edge to the
    # right one.
    if name == "guess":
        assert drag(explorer, 0, [93, 0])["guess"] == pytest.approx(2.3)
    if name == "patterns":
        steps, frame = (
            explorer.controls[0]["values"],
            explorer.box.locator(".explorer-frame"),
        )
        assert (
            drag(explorer, 0, [0.2 * frame.bounding_box()["width"], 0])["step"]
            == steps[round(0.7 * (len(steps) - 1))]
        )


# Where a finger begins, how far it moves, and whether that drags; if not, it scrolls
# the page.
SWIPES = {
    "guess": [
        ("svg:has(.explorer-axes)", (100, 0), True),
        ("svg:has(.explorer-axes)", (0, -200), False),
    ],
    "triangle": [(".explorer-grip", (0, -60), True), ("svg", (0, -200), False)],
}


def a_finger_drags_or_scrolls_the_page(explorer):
    page, box = explorer.page, explorer.box
    touch = page.context.new_cdp_session(page)
    touch.send("Emulation.setTouchEmulationEnabled", {"enabled": True})
    for where, way, drags in SWIPES.get(explorer.name, ()):
        explorer.set()
        target = box.locator(".explorer-frame").locator(where).first
        target.evaluate("e => e.scrollIntoView({ block: 'center' })")
        look = lambda: (box.get_attribute("data-values"), page.evaluate("scrollY"))
        (values, scroll), place, seen = look(), target.bounding_box(), []
        x, y = place["x"] + place["width"] / 2, place["y"] + place["height"] / 2
        for k in range(12):
            kind = "touchStart" if k == 0 else "touchEnd" if k == 11 else "touchMove"
            points = (
                [{"x": x + k * way[0] / 10, "y": y + k * way[1] / 10}] if k < 11 else []
            )
            touch.send(
                "Input.dispatchTouchEvent", {"type": kind, "touchPoints": points}
            )
            seen.append(look()[0])
        page.wait_for_timeout(200)
        # A drag goes on to its end.
        assert [seen[10] != values, seen[10] != seen[7], look()[1] == scroll] == [
            drags
        ] * 3


def test_a_choice_is_judged_at_once_and_the_answer_hidden_until_it_is_asked_for(
    browser, address
):
    with visit(browser, address, "book/heads.html") as (page, _):
        box = page.locator(".explorer")
        choices, show = (
            box.get_by_role("group").get_by_role("button"),
            box.get_by_role("button", name="Show the answer"),
        )
        answer = box.locator(f"#{show.get_attribute('aria-controls')}")
        right = choices.nth(int(box.get_attribute("data-right")) - 1)
        assert (
            choices.count() == 3
            and not answer.is_visible()
            and answer.locator("p").count() == 1
        )
        for choice, said, marked in (
            (right, "That is right.", 1),
            (choices.last, "Not quite.", 0),
        ):
            choice.press("Enter")
            assert (
                choice.get_attribute("aria-pressed") == "true"
                and box.get_by_role("status").inner_text() == said
            )
            assert (
                box.locator(".explorer-right").count() == marked
                and not answer.is_visible()
            )
            show.press("Enter")
            assert answer.is_visible() and box.locator(".explorer-right").count() == 1
            box.get_by_role("button", name="Hide the answer").press("Enter")
            assert not answer.is_visible()


def test_an_explorer_that_fails_stays_hidden(browser, address):
    with visit(browser, address, "book/intro.html") as (page, noise):
        broken = "explorers.made.answer = () => none.there;"
        page.route("**/explorer-answer.js*", lambda route: route.fulfill(body=broken))
        page.reload()
        assert (
            noise == ["script error: none is not defined"]
            and not page.locator(".explorer").is_visible()
        )
