"""The site in a browser, opened from the disk. $SUBCUBIC_SCREENSHOTS names a folder that keeps the pictures."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from catalog import formats
from catalog.canonical import digest
from catalog.store import Catalog
from subcubic.library import RESULTS
from subcubic.site.build import build
from subcubic.starter import shipped
from tests.subcubic import chromium

pytestmark = pytest.mark.slow
EVERY = 410  # of the starter catalog, with the two built-in ones


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site") / "site"
    assert build(Catalog(shipped()), folder, RESULTS).schemes >= EVERY
    return folder


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    program = chromium.find()
    if program is None:
        reason = "no Chromium; install the package chromium, or name the program in SUBCUBIC_CHROMIUM"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    folder = tmp_path_factory.mktemp("browser")
    (folder / "downloads").mkdir()
    browser = chromium.Chromium(program, folder / "profile", folder / "downloads")
    browser.downloads = folder / "downloads"
    yield browser
    browser.close()


@pytest.fixture
def browser(running):
    """The browser with an ordinary window; a test fails when the console shows a problem."""
    running.problems.clear()
    running.view(1280, 900)
    yield running
    assert running.problems == []


def state(browser):
    return browser.run("document.getElementById('status').textContent")


def column(browser, number):
    return browser.run(f"[...document.querySelectorAll('#schemes tbody tr')].map((r) => r.cells[{number}].textContent)")


def choose(browser, name, value):
    browser.run(
        f"(() => {{ const f = document.getElementById('filter').elements.namedItem({json.dumps(name)});"
        f"f.value = {json.dumps(value)}; f.dispatchEvent(new Event('input', {{bubbles: true}})); }})()"
    )


def test_one_map_at_a_time_and_the_address_names_it(browser, site):
    browser.open(site / "index.html")
    shown = "[...document.querySelectorAll('section.map')].filter((s) => !s.hidden).map((s) => s.id)"
    assert browser.run(shown) == ["map-Z"]
    browser.click("[data-tabs] button:nth-child(1)")
    assert browser.run(shown) == ["map-F2"] and browser.run("location.hash") == "#map-F2"
    assert browser.run("document.querySelector('[aria-pressed=true]').textContent") == "over F2"
    browser.open(site / "index.html", "#map-Q")
    assert browser.run(shown) == ["map-Q"]


def test_without_a_script_all_maps_are_there(browser, site):
    browser.call("Emulation.setScriptExecutionDisabled", value=True)
    try:
        browser.open(site / "index.html")
        assert browser.run("[...document.querySelectorAll('section.map')].every((s) => s.offsetHeight > 0)")
        browser.open(site / "schemes.html")
        assert browser.run("document.querySelectorAll('main a').length") > 80  # the pages of formats
    finally:
        browser.call("Emulation.setScriptExecutionDisabled", value=False)


def test_the_filter_narrows_the_table(browser, site):
    rows = Catalog(shipped()).rows()
    browser.open(site / "schemes.html")
    every = len(rows) + 2
    assert state(browser) == f"{every} of {every} schemes, the first 100 shown"
    browser.run("document.querySelector('[name=format]').focus()")
    browser.type("5x3x4")
    fit = [row for row in rows if str(row.format.sorted) == "3x4x5"]
    assert state(browser) == f"{len(fit)} of {every} schemes"
    choose(browser, "ring", "F2")
    assert set(column(browser, 1)) == {"F2"} and len(column(browser, 1)) == sum(row.ring == "F2" for row in fit)
    browser.click("[type=reset]")
    browser.wait(f"document.getElementById('status').textContent.startsWith('{every} of')")
    choose(browser, "low", "23")
    choose(browser, "high", "23")
    assert set(column(browser, 2)) == {"23"}
    choose(browser, "text", f"{fit[0].id[:10].upper()}")
    assert state(browser) == f"0 of {every} schemes"
    choose(browser, "low", "")
    choose(browser, "high", "")
    assert state(browser) == f"1 of {every} schemes" and fit[0].id[:8] in column(browser, 0)[0]


def test_sorting_by_every_column(browser, site):
    browser.open(site / "schemes.html")
    names = browser.run("[...document.querySelectorAll('#schemes thead button')].map((b) => b.textContent.trim())")
    assert names[0] == "format" and "speed" in names and len(names) == 11
    for number, name in enumerate(names[1:], start=1):
        for _ in range(2):
            browser.click(f"#schemes thead th:nth-child({number + 1}) button")
            sort = browser.run("document.querySelector('[aria-sort]').getAttribute('aria-sort')")
            found = column(browser, number)
            known = [value for value in found if value != "-"]
            assert found[: len(known)] == known, "what is not known comes last"
            if name in ("ring", "method"):
                assert known == sorted(known, reverse=sort == "descending")
            else:
                numbers = [float(value) for value in known]
                assert numbers == sorted(numbers, reverse=sort == "descending"), name
    browser.click("#schemes thead th:nth-child(3) button")
    fragment = browser.run("location.hash")
    top = column(browser, 0)[:5]
    browser.open(site / "schemes.html", fragment)
    assert column(browser, 0)[:5] == top


def test_more_rows_come_on_demand_and_take_the_focus(browser, site):
    browser.open(site / "schemes.html")
    browser.click("#more")
    assert len(column(browser, 0)) == 200
    assert browser.run("document.activeElement.closest('tr').rowIndex") == 101


def test_a_scheme_is_opened_and_downloaded(browser, site):
    browser.open(site / "schemes.html", "#format=3x3x3&ring=Z")
    browser.click("#schemes tbody a")
    title = browser.wait("document.querySelector('h1')?.textContent.startsWith('3x3x3') && document.title")
    assert title.startswith("3x3x3, rank 23 over Z")
    identity = browser.run("document.querySelector('.id code').textContent")
    name = browser.run("document.querySelector('.files a[href$=npz]').getAttribute('href').split('/').pop()")
    browser.click(".files a[href$=npz]")
    path = browser.downloads / name
    for _ in range(200):
        if path.exists():
            break
        browser.run("new Promise((done) => setTimeout(done, 50))")
    assert digest(formats.read(path)) == identity
    # Patterns of the marks are drawn: a coefficient has the colour of its sign and a mark in it.
    assert browser.run("document.querySelectorAll('.matrix path[stroke]').length") >= 4
    # What the button says lasts two seconds only, so it is caught when it changes.
    browser.run(
        "(() => { const button = document.querySelector('[data-copy]'); window.said = new Promise((done) => "
        "new MutationObserver(() => done(button.textContent)).observe(button, {childList: true})); })()"
    )
    for _ in range(3):  # a click that falls into the start of a download is lost now and then
        browser.click("[data-copy]")
        said = browser.run("Promise.race([window.said, new Promise((done) => setTimeout(() => done(''), 3000))])")
        if said:
            break
    assert said.startswith(("Copied", "Selected"))


def test_everything_is_reached_by_the_keyboard(browser, site):
    browser.open(site / "index.html")
    browser.press("Tab")
    assert browser.run("document.activeElement.className") == "skip"
    browser.press("Enter")
    assert browser.run("document.activeElement.id") == "main"
    reached = []
    for _ in range(12):
        browser.press("Tab")
        reached.append(browser.run("document.activeElement.textContent"))
        outline = browser.run("getComputedStyle(document.activeElement).outlineStyle")
        assert outline == "solid", f"no focus is seen on {reached[-1]}"
    assert reached[:4] == ["over F2", "over Z, ternary", "over Z", "over Q"]
    assert any(text.startswith("7 =") for text in reached)
    browser.run(
        "[...document.querySelectorAll('.heat a')].find((a) => a.offsetHeight && a.textContent[0] === '7').focus()"
    )
    browser.press("Enter")
    browser.wait("document.title.startsWith('2x2x2')")
    browser.open(site / "schemes.html")
    browser.run("document.querySelector('#schemes thead th:nth-child(3) button').focus()")
    browser.press(" ")
    assert browser.run("document.querySelector('[aria-sort]').textContent").startswith("rank")


PAGES = {"start": "index.html", "table": "schemes.html", "format": "formats/3x4x5.html", "measured": "2x2x2-r7-Z-5f71"}


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("name", PAGES)
def test_pages_fit_the_window_and_can_be_read(browser, site, name, width, dark, tmp_path):
    browser.view(width, 900, dark, still=True)
    path = site / PAGES[name]
    browser.open(path if path.exists() else next((site / "schemes").glob(f"{PAGES[name]}*")))
    assert browser.run("document.documentElement.scrollWidth") <= width
    assert browser.run(CAPTIONS) == [], "captions that are cut off"
    low = browser.run(CONTRAST)
    assert low == [], "texts with too little contrast"
    assert browser.run("getComputedStyle(document.querySelector('a')).transitionDuration") in ("0s", "0s, 0s")
    folder = Path(os.environ.get("SUBCUBIC_SCREENSHOTS") or tmp_path)
    height = min(3000, browser.run("document.documentElement.scrollHeight"))
    browser.view(width, height, dark, still=True)
    shot = folder / f"{name}-{width}-{'dark' if dark else 'light'}.png"
    browser.screenshot(shot)
    assert shot.read_bytes().startswith(b"\x89PNG")


# Captions of wide tables that leave the window, before the table is scrolled or after.
CAPTIONS = """
[0, 150].flatMap((by) => [...document.querySelectorAll(".scroll caption")].filter((e) => {
  const region = e.closest(".scroll");
  region.scrollLeft = by;
  const box = e.getBoundingClientRect();
  region.scrollLeft = 0;
  return box.width && (box.left < 0 || box.right > innerWidth);
}).map((e) => e.textContent))
"""

# Texts whose contrast with what lies behind is under 4.5, by the formula of WCAG 2.
CONTRAST = """
(() => {
  const parse = (text) => text.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b].map((v) => v / 255)
    .map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = (e) => {
    for (; e; e = e.parentElement) {
      const colour = parse(getComputedStyle(e).backgroundColor);
      if (colour.length === 3 || colour[3] > 0) return colour;
    }
    return [255, 255, 255];
  };
  const bad = new Set();
  for (const e of document.querySelectorAll("main *, header *, footer *")) {
    if (e.closest("svg") || ![...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim())) continue;
    if (!e.offsetHeight) continue;
    const style = getComputedStyle(e);
    const share = Number(style.opacity);
    const ground = behind(e);
    const ink = parse(style.color).slice(0, 3).map((v, i) => v * share + ground[i] * (1 - share));
    const [a, b] = [light(ink), light(ground)].sort((x, y) => y - x);
    if ((a + 0.05) / (b + 0.05) < 4.5) bad.add(`${e.tagName} ${e.className} ${((a + 0.05) / (b + 0.05)).toFixed(2)}`);
  }
  return [...bad];
})()
"""


def test_a_thousand_rows_are_filtered_and_sorted_at_once(browser, site):
    path = site.with_name("large.html")
    text = (site / "schemes.html").read_text(encoding="utf-8")
    data = (site / "assets" / "schemes.js").read_text(encoding="utf-8")
    # Five times the starter catalog's rows.
    (site.parent / "large.js").write_text(
        f"{data}\nwindow.SUBCUBIC_SCHEMES = Array(5).fill(window.SUBCUBIC_SCHEMES).flat().map((row) => [...row]);\n",
        encoding="utf-8",
    )
    text = text.replace("assets/schemes.js", "large.js").replace("assets/site", "site/assets/site")
    path.write_text(text, encoding="utf-8")
    browser.open(path)
    assert int(state(browser).split()[0]) > 2000
    took = browser.run(
        "(() => { const t = performance.now(); for (let i = 0; i < 10; i++)"
        "document.querySelector('#schemes thead th:nth-child(6) button').click();"
        "document.body.offsetHeight; return (performance.now() - t) / 10; })()"
    )
    assert took < 400, f"{took} ms for a sort"


def test_without_chromium_ci_fails_and_others_skip(tmp_path):
    program = (
        "import os, sys, pytest\nsys.exit(pytest.main(['-q', '-p', 'no:cacheprovider', '-p', 'no:xdist', "
        "'tests/subcubic/test_site_browser.py::test_a_scheme_is_opened_and_downloaded']))"
    )
    environment = {key: value for key, value in os.environ.items() if key != "CI"} | {"PATH": "/nowhere"}
    environment.pop("SUBCUBIC_CHROMIUM", None)
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)
    assert "1 skipped" in done.stdout and done.returncode == 0
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment | {"CI": "1"}, capture_output=True, text=True
    )
    assert done.returncode == 1 and "no Chromium" in done.stdout
