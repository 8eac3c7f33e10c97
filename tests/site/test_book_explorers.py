"""The explorable figures in a real browser: every number against the library; keyboard, phone, no script at all."""

import gzip
import subprocess
import sys

import book_checks as checks
import numpy as np
import pytest
import yaml
from browser import ROOT, serve, visit
from explorer_numbers import FORMULAS, misses, numbers, patterns, states

from lsalib.book import figures
from tools.site.explorer_data import EXPLORERS, UNITS
from tools.site.explorers import closing

CONF = """\
extensions = ["myst_parser", "tools.site.figures", "tools.site.explorers"]
myst_enable_extensions = ["colon_fence"]
html_theme = "sphinx_book_theme"
html_static_path = [{static!r}]
html_css_files = {sheets!r}
html_favicon = {favicon!r}
"""
LIMIT = 60_000


def write_book(folder):
    """A page with all explorers, and one without any."""
    static = ROOT / "book/_static"
    sheets = yaml.safe_load((ROOT / "_config.yml").read_text())["sphinx"]["config"]["html_css_files"]
    (folder / "conf.py").write_text(CONF.format(static=str(static), sheets=sheets, favicon=str(static / "favicon.svg")))
    boxes = "".join(f":::{{explorer}} {name}\nMove the sliders of {name}.\n:::\n\n" for name in EXPLORERS)
    (folder / "index.md").write_text(f"# All\n\n{boxes}\n\n```{{toctree}}\nplain\nfolded\n```\n")
    (folder / "folded.md").write_text("# One\n\n:::{explorer} heads\n:folded:\n\nMove it: it moves.\n:::\n")
    (folder / "plain.md").write_text("# None\n\nWords.\n")


@pytest.fixture(scope="module")
def html(tmp_path_factory):
    source, out = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("html")
    write_book(source)
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "-b", "html", str(source), str(out)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return out


@pytest.fixture(scope="module")
def address(html):
    with serve(html) as address:
        yield address


@pytest.fixture(scope="module")
def page(browser, address):
    with visit(browser, address, "index.html") as (page, noise):
        yield page
        assert noise == []


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


def box(page, name):
    return page.locator(f".explorer[data-explorer='{name}']")


def all_misses(page, name: str) -> dict[str, list[str]]:
    """What is wrong, for each state of a grid of the controls."""
    formula, grid = FORMULAS[name]
    every = states(name, **grid)
    wrong = {str(state): misses(*box(page, name).evaluate(SET, state), formula(**state)) for state in every}
    return {state: found for state, found in wrong.items() if found}


@pytest.mark.parametrize("name", FORMULAS)
def test_every_number_is_the_library_s(page, name):
    assert all_misses(page, name) == {}


def test_patterns_are_those_that_are_stored(page):
    controls = {control["name"]: control for control in EXPLORERS["patterns"]()["controls"]}
    layers = [name for name, _ in controls["layer"]["options"]]
    for state in states("patterns", step=controls["step"]["values"], layer=layers):
        wanted = patterns(**state)
        values, said = box(page, "patterns").evaluate(SET, state)
        for key, unit in UNITS.items():
            np.testing.assert_allclose(values.pop(key), wanted.pop(key), atol=0.51 * unit)
        np.testing.assert_allclose(numbers(said), wanted.pop("said"), atol=0.0052)
        for key, value in wanted.items():
            np.testing.assert_allclose(values[key], value, atol=1e-3)
        assert box(page, "patterns").locator("svg[role=img]").count() == len(wanted["mu"])


DRAWN = """box => {
    const ticks = [...box.querySelectorAll("text[text-anchor=end]")]
        .map((text) => [Number(text.textContent), text.y.baseVal[0].value - 4]);
    const [[low, from], [high, to]] = [ticks[0], ticks.at(-1)];
    const curve = box.querySelector(".explorer-line"), points = [], steps = 4000;
    for (let k = 0; k <= steps; k += 1) points.push(curve.getPointAtLength((curve.getTotalLength() * k) / steps));
    const dot = box.querySelector("circle"), [x, y] = [dot.cx.baseVal.value, dot.cy.baseVal.value];
    const distance = Math.min(...points.map((p) => Math.hypot(p.x - x, p.y - y)));
    return [low + ((y - from) / (to - from)) * (high - low), distance];
}"""


@pytest.mark.parametrize("over", ["error", "C", "d", "noise"])
def test_what_is_drawn_is_what_is_said(page, over):
    """The first curve goes through the first dot, whose height on the axis is the value."""
    here = {"d": 7, "C": 13, "noise": 0.5, "error": 50}
    values, _ = box(page, "answer").evaluate(SET, {"over": over, **here})
    height, distance = box(page, "answer").evaluate(DRAWN)
    assert height == pytest.approx(values["lsa"], rel=1e-3)
    assert distance < 0.5
    # The control: another value is seen.
    assert height != pytest.approx(values["gd"], rel=1e-3)


PAINTED = """all => all.map(e => {
    const [, property, name] = e.getAttribute("style").match(/(fill|stroke): var\\(--fig-([a-z]+)\\)/);
    return [name, getComputedStyle(e)[property]];
})"""


@pytest.mark.parametrize("theme, tone", [("light", 1), ("dark", 2)])
def test_the_colours_are_those_of_the_figures(browser, address, theme, tone):
    with visit(browser, address, "index.html", theme=theme) as (page, _):
        painted = page.locator(".explorer [style*='--fig-']").evaluate_all(PAINTED)
    shown = {(name, checks.rgb(ink)) for name, ink in painted}
    assert len(shown) == 6
    assert shown == {(name, tuple(bytes.fromhex(figures.PALETTE[name][tone][1:]))) for name, _ in shown}


def planted(script: str, old: str, new: str):
    """A route that changes one formula."""

    def plant(route):
        response = route.fetch()
        assert response.text().count(old) == 1
        route.fulfill(response=response, body=response.text().replace(old, new))

    return f"**/{script}.js*", plant


WRONG = {
    "answer": ("explorers", "task.C + task.d + 1 +", "task.C + task.d +"),
    "heads": ("explorer-heads", "(d * d + d - m - 2)", "(d * d - m - 2)"),
    "pair": ("explorer-pair", "4 * d * mean ** 2", "2 * d * mean ** 2"),
    "stand-in": ("explorer-stand-in", "noise ** 2 / laws", "noise / laws"),
}
# Where it matters.
WHERE = {"heads": [2], "entry": ["yy"]}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_formula_is_seen(browser, address, name):
    page = browser.new_page()
    page.route(*planted(*WRONG[name]))
    page.goto(address)
    formula, grid = FORMULAS[name]
    state = states(name, **{key: values[-1:] for key, values in (grid | WHERE).items() if key in grid})[0]
    assert misses(*box(page, name).evaluate(SET, state), formula(**state)) != []
    page.close()


def test_the_keyboard_moves_a_slider_and_the_text_follows(page):
    box(page, "answer").evaluate(SET, {"d": 10})
    answer, slider = box(page, "answer"), box(page, "answer").get_by_label("features d", exact=True)
    text = answer.locator("[aria-live=polite]")
    before, value = text.inner_text(), int(slider.input_value())
    slider.focus()
    page.keyboard.press("ArrowRight")
    assert int(slider.input_value()) == value + 1
    assert text.inner_text() != before
    page.keyboard.press("ArrowLeft")
    assert text.inner_text() == before


def test_a_slider_over_a_list_says_its_value(page):
    slider = box(page, "patterns").get_by_label("training step", exact=True)
    slider.focus()
    page.keyboard.press("End")
    assert slider.get_attribute("aria-valuetext") == "100,000"


SCREENS = [(width, theme) for width in (390, 1280) for theme in ("light", "dark")]
SMALL = """all => all.filter(e => e.checkVisibility()).map(e => [e.getBoundingClientRect().height,
    parseFloat(getComputedStyle(e).fontSize), e.tagName])"""


@pytest.mark.parametrize("width, theme", SCREENS)
def test_a_page_of_explorers_is_sound(browser, address, width, theme):
    with visit(browser, address, "index.html", width=width, theme=theme) as (page, noise):
        found = noise + checks.overflow_defects(page) + checks.text_defects(page, ".explorer")
        targets = page.locator(".explorer :is(input, select)").evaluate_all(SMALL)
        words = page.locator(".explorer :is(text, p, li, label, figcaption, span)").evaluate_all(SMALL)
        named = page.locator(".explorer svg[role=img]").evaluate_all("all => all.map(e => e.ariaLabel)")
    assert found == []
    assert len(targets) == sum(len(make()["controls"]) for make in EXPLORERS.values())
    assert min(height for height, *_ in targets) >= 24 and min(size for _, size, _ in words) >= 12
    assert len(named) > len(EXPLORERS) and all(named)


def test_a_wider_screen_gets_a_wider_picture_with_letters_of_the_same_size(browser, address):
    with visit(browser, address, "index.html", width=390) as (page, noise):
        size = "e => [e.clientWidth, parseFloat(getComputedStyle(e).fontSize)]"
        picture = box(page, "heads").locator("svg[role=img]")
        narrow, letters = picture.evaluate(size)
        page.set_viewport_size({"width": 800, "height": 900})
        page.wait_for_function(
            'before => document.querySelector("[data-explorer=heads] svg").clientWidth > before', arg=narrow
        )
        wide, same = picture.evaluate(size)
    assert wide > narrow and same == letters and noise == []


def test_without_a_script_nothing_is_shown(browser, address):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(address)
    assert page.locator(".explorer").count() == len(EXPLORERS)
    assert not any(part.is_visible() for part in page.locator(".explorer").all())
    context.close()


def picture_of(name):
    return f".explorer[data-explorer='{name}'] svg[role=img]"


def test_a_folded_explorer_is_one_click_away(browser, address):
    with visit(browser, address, "folded.html") as (page, noise):
        picture = box(page, "heads").locator("svg[role=img]")
        assert page.locator("details.explorable > summary").inner_text() == "Explore: move it"
        assert not picture.is_visible()
        page.locator("details.explorable > summary").click()
        picture.wait_for()
        # It is drawn anew at the width that it has once unfolded, and is empty for a moment.
        page.wait_for_function("name => document.querySelector(name).clientWidth > 300", arg=picture_of("heads"))
        assert noise == []


def test_an_explorer_that_fails_stays_hidden_and_the_others_are_shown(browser, address):
    page, errors = browser.new_page(), []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.route("**/explorer-heads.js*", lambda route: route.fulfill(body="explorers.made.heads = () => none.there;"))
    page.goto(address)
    assert errors == ["none is not defined"]
    assert [name for name in EXPLORERS if not box(page, name).is_visible()] == ["heads"]
    page.close()


def test_an_explorer_works_from_a_file(browser, html):
    with visit(browser, f"{html.as_uri()}/", "index.html") as (page, noise):
        assert all(part.is_visible() for part in page.locator(".explorer").all())
        assert noise == []


def test_all_of_it_is_small_and_only_where_it_is_used(html):
    files = [*(html / "_static").glob("explorer*.*")]
    assert len(files) == len(EXPLORERS) + 2
    data = "".join(map(closing, EXPLORERS))
    assert sum(len(gzip.compress(part)) for part in [data.encode(), *(file.read_bytes() for file in files)]) < LIMIT
    assert "explorer" not in (html / "plain.html").read_text()


@pytest.mark.parametrize("text, said", [("nothing\nwords", "an explorer is one of"), ("heads", "has a caption")])
def test_a_wrong_explorer_is_named(tmp_path, text, said):
    write_book(tmp_path)
    (tmp_path / "plain.md").write_text(f"# None\n\n:::{{explorer}} {text}\n:::\n")
    command = [sys.executable, "-m", "sphinx", "-q", "-b", "dummy", str(tmp_path), str(tmp_path / "out")]
    assert said in subprocess.run(command, cwd=ROOT, capture_output=True, text=True).stderr
