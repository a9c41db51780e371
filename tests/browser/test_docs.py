"""The built documentation in a real browser: ``make test-browser`` builds it and runs this."""

import functools
import http.server
import urllib.parse
from pathlib import Path

import pytest

from browser.chromium import PHONES, contrast, open_page, requests

pytest.importorskip("selenium")
pytestmark = pytest.mark.browser

HTML = Path(__file__).parents[2] / "docs" / "_build" / "html"
PAGES = sorted(path.relative_to(HTML).as_posix() for path in HTML.rglob("*.html"))
PAGES = [page for page in PAGES if not page.startswith(("_static", "_downloads", "_images"))]
LOOKED_AT = [
    "index.html",
    "auto_examples/index.html",
    "guide/verdict.html",
    "api/generated/suquan.SuquanClassifier.html",
]

LEVELS = ("SEVERE", "WARNING")
READ = """
const all = s => [...document.querySelectorAll(s)];
return {
  headings: all('h1').map(e => e.textContent),
  // The title beside a thumbnail says what it is.
  unnamed: all('img').filter(e => !e.alt && !e.closest('.sphx-glr-thumbcontainer')).map(e => e.src),
  broken: all('img').filter(e => e.complete && !e.naturalWidth).map(e => e.src),
  links: all('a[href]').map(e => e.href),
  names: all('[id], a[name]').map(e => e.id || e.name),
  cut: all('main :is(h1, h2, h3, p, dt)').filter(e => e.scrollWidth > e.clientWidth + 1 && e.clientWidth)
    .map(e => e.textContent.slice(0, 60)),
  width: document.documentElement.scrollWidth,
  wide: all('main *').filter(e => e.getBoundingClientRect().right > innerWidth + 1)
    .slice(0, 3).map(e => e.outerHTML.slice(0, 120)),
};
"""

COLOURS = """
const canvas = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
function rgba(color) {
  canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = color; canvas.fillRect(0, 0, 1, 1);
  return [...canvas.getImageData(0, 0, 1, 1).data];
}
function ground(element) {
  for (let e = element; e; e = e.parentElement) {
    const color = rgba(getComputedStyle(e).backgroundColor);
    if (color[3] == 255) return color.slice(0, 3);
  }
  return [255, 255, 255];
}
const texts = ['h1', 'h2', 'p', 'a', 'code', 'td', 'th', 'dt', '.highlight span'].map(s => 'main ' + s);
return [...document.querySelectorAll([...texts, 'nav a'])]
  .filter(e => e.checkVisibility() && [...e.childNodes].some(n => n.nodeType == 3 && n.textContent.trim()))
  .slice(0, 300)
  .map(e => [e.tagName + ' ' + e.className + ' ' + e.textContent.trim().slice(0, 20),
             rgba(getComputedStyle(e).color).slice(0, 3), ground(e)]);
"""


@pytest.fixture(scope="module")
def site(serve):
    """Address of a server of the built pages."""
    if not PAGES:
        pytest.skip("no pages in docs/_build/html; `make docs` builds them")

    class Handler(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass

    return serve(functools.partial(Handler, directory=HTML))


@pytest.fixture(scope="module")
def read(driver, site):
    """What every page holds on a phone, what it asked for, and what it complained about."""
    pages = {}
    for page in PAGES:
        open_page(driver, site + page, size=PHONES[1])
        found = driver.execute_script(READ) | {"asked": requests(driver)}
        log = [entry for entry in driver.get_log("browser") if entry["level"] in LEVELS]
        pages[page] = found | {"errors": [entry["message"] for entry in log]}
    return pages


def faults(read, fault):
    """Pages with a fault, and what it is."""
    return {page: fault(found) for page, found in read.items() if fault(found)}


def test_pages_load_without_errors_and_ask_nobody_else(read, site):
    assert len(read) > 50
    assert not faults(read, lambda found: found["errors"])
    own = (site, "data:")
    assert not faults(read, lambda page: [url for url in page["asked"] if not url.startswith(own)])


def test_pages_have_one_first_heading_named_pictures_and_fit_on_a_phone(read):
    width = PHONES[1][0]
    assert not faults(
        read, lambda page: len(page["headings"]) != 1 and (page["headings"] or "none")
    )
    assert not faults(read, lambda page: page["unnamed"] + page["broken"])
    assert not faults(read, lambda page: page["width"] > width and (page["width"], page["wide"]))
    assert not faults(read, lambda page: page["cut"])


def test_links_lead_somewhere(read, site):
    def dead(link):
        if not link.startswith(site):
            return not link.startswith(("http://", "https://", "mailto:"))
        path, _, anchor = link.removeprefix(site).partition("#")
        path = urllib.parse.unquote(path.partition("?")[0]) or "index.html"
        if path not in read:
            return not (HTML / path).is_file()
        return bool(anchor) and urllib.parse.unquote(anchor) not in read[path]["names"]

    assert sum(len(found["links"]) for found in read.values()) > 1000
    assert not faults(read, lambda found: [link for link in found["links"] if dead(link)])


def test_search_finds_a_word(driver, site, read):
    open_page(driver, f"{site}search.html?q=isotonic")
    results = "return [...document.querySelectorAll('#search-results li a')].map(e => e.href)"
    for _ in range(100):
        found = driver.execute_script(results)
        if found:
            break
        driver.execute_async_script("setTimeout(arguments[0], 200)")
    assert found
    assert all(
        link.removeprefix(site).partition("#")[0].partition("?")[0] in read for link in found
    )


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("page", LOOKED_AT)
def test_text_stands_out_from_its_ground(driver, site, page, scheme):
    open_page(driver, site + page, scheme=scheme)
    found = driver.execute_script(COLOURS)
    assert len(found) > 20
    assert {
        f"{text} {color} {ground}" for text, color, ground in found if contrast(color, ground) < 4.5
    } == set()
    (background,) = {tuple(ground) for text, _, ground in found if text.startswith("H1")}
    assert (max(background) < 128) == (scheme == "dark")
