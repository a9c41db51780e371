"""The report in a real browser: `make test-browser` installs Chromium and runs this."""

import base64
import http.server
import re

import pytest
from sklearn.dummy import DummyClassifier
from test_report import EVIL, SETTINGS, make_problem

from browser.chromium import DESKTOP, PHONES, contrast, open_page, requests
from suquan import SuquanClassifier, compare
from suquan.report import write_report

pytest.importorskip("selenium")
pytestmark = pytest.mark.browser

# Texts of figures, and those that leave their figure.
CUT = """
const texts = [...document.querySelectorAll('figure svg text')];
const leaves = (e, frame) => {
  const box = e.getBoundingClientRect();
  return box.left < frame.left - 1 || box.right > frame.right + 1 ||
    box.top < frame.top - 1 || box.bottom > frame.bottom + 1;
};
return [texts.length, texts.filter(e => leaves(e, e.closest('svg').getBoundingClientRect()))
  .map(e => e.textContent)];
"""


@pytest.fixture(scope="module")
def result():
    X, y = make_problem(n_features=30)
    methods = ["raw", "normal", "exponential", "joint", "crossfit", (EVIL, DummyClassifier())]
    found = compare(X, y, methods=methods, n_permutations=2, **SETTINGS)
    return found, SuquanClassifier("joint", tol=1e-12, random_state=0).fit(X, y)


@pytest.fixture(scope="module")
def report(result, tmp_path_factory):
    comparison, model = result
    return write_report(
        tmp_path_factory.mktemp("report") / "report.html",
        comparison,
        estimator=model,
        feature_names=[EVIL, *(f"gene {k}" for k in range(28)), "x" * 300],
        data_summary={"samples": 60, "features": 30, EVIL: EVIL, "path": "/a/" + "long/" * 60},
        warnings=["5 samples were dropped", EVIL],
        settings={"seed": 0},
        command=["suquan", "compare", "table.csv", "--labels", "labels.csv", EVIL],
    )


def test_page_loads_without_errors_and_asks_for_nothing(driver, report):
    open_page(driver, report)
    assert driver.get_log("browser") == []
    asked = requests(driver)
    assert report.as_uri() in asked
    assert all(url == report.as_uri() or url.startswith("data:") for url in asked), asked
    assert driver.title == "Does learning the target help?"
    assert driver.execute_script("return document.scripts.length + document.images.length") == 0


def test_policy_of_the_page_stops_what_should_never_be_in_it(driver, report, serve, tmp_path):
    asked = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)
            self.send_response(404)
            self.end_headers()

        def log_message(self, *_):
            pass

    address, page = serve(Handler), tmp_path / "page.html"
    added = (
        f"<img src='{address}image'><link rel=stylesheet href='{address}style'>"
        "<script>document.title = 'run'; console.error('run')</script></body>"
    )
    text = report.read_text(encoding="utf-8")
    page.write_text(text.replace("</body>", added), encoding="utf-8")
    open_page(driver, page)
    assert asked == []
    assert driver.title != "run"
    # The same in a page without the policy is seen by this test, and by the one above.
    page.write_text(f"<body>{added}", encoding="utf-8")
    open_page(driver, page)
    assert sorted(asked) == ["/image", "/style"]
    assert {f"{address}image", f"{address}style"} <= set(requests(driver))
    assert any("run" in entry["message"] for entry in driver.get_log("browser"))
    assert driver.title == "run"


@pytest.mark.parametrize("size", [DESKTOP, *PHONES])
def test_verdict_is_seen_and_nothing_is_cut_or_scrolls_sideways(driver, report, result, size):
    open_page(driver, report, size)
    headline = driver.find_element("css selector", ".verdict .headline")
    assert headline.is_displayed()
    assert headline.text == result[0].verdict.partition(": ")[0]
    place = headline.rect
    assert 0 <= place["y"] < place["y"] + place["height"] <= size[1]
    n_texts, outside = driver.execute_script(CUT)
    assert n_texts > 20
    assert outside == []
    driver.execute_script("for (const d of document.querySelectorAll('details')) d.open = true")
    assert driver.execute_script("return document.documentElement.scrollWidth") <= size[0]
    if size in PHONES:  # wide tables scroll in their own frames, which a keyboard can reach
        assert driver.execute_script(
            "return [...document.querySelectorAll('.scroll')]"
            ".some(e => e.scrollWidth > e.clientWidth && e.tabIndex === 0)"
        )


def colors(driver, names):
    return {
        name: driver.execute_script(
            "return getComputedStyle(document.documentElement).getPropertyValue(arguments[0])",
            f"--{name}",
        ).strip()
        for name in names
    }


@pytest.mark.parametrize(("scheme", "media"), [("light", ""), ("dark", ""), ("dark", "print")])
def test_text_and_drawings_stand_out_from_their_grounds(driver, report, scheme, media):
    open_page(driver, report, scheme=scheme, media=media)
    texts = ["ink", "muted", "link", "good", "bad", "neutral"]
    grounds = colors(driver, ["page", "card", "soft"])
    for name, color in colors(driver, texts).items():
        assert min(contrast(color, ground) for ground in grounds.values()) >= 4.5, (name, color)
    for name, color in colors(driver, ["learned", "fixed", "other"]).items():
        assert contrast(color, grounds["card"]) >= 3.0, (name, color)


def test_dark_mode_and_print_change_the_page_and_its_figures(driver, report):
    def look():
        return driver.execute_script(
            "const color = (e, p) => getComputedStyle(e)[p];"
            "return [color(document.body, 'backgroundColor'), color(document.body, 'color'),"
            " color(document.querySelector('figure svg text'), 'fill')]"
        )

    open_page(driver, report)
    light = look()
    open_page(driver, report, scheme="dark")
    dark = look()
    assert all(a != b for a, b in zip(light, dark, strict=True))
    open_page(driver, report, scheme="dark", media="print")
    assert look()[0] == "rgb(255, 255, 255)"
    assert not driver.find_element("tag name", "nav").is_displayed()


def test_screen_readers_are_told_what_is_there(driver, report):
    open_page(driver, report)
    nodes = driver.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]

    def named(role):
        return [
            node.get("name", {}).get("value", "")
            for node in nodes
            if node.get("role", {}).get("value") == role and not node.get("ignored")
        ]

    images = named("image")
    assert len(images) == len(driver.find_elements("css selector", "figure svg"))
    assert all(len(name) > 40 for name in images)
    assert all(name.startswith("Table") for name in named("table"))
    assert len(named("table")) >= 5
    assert named("main") == [""]
    assert named("navigation") == ["Contents"]
    assert EVIL in named("rowheader")


def test_pages_are_printed(driver, report):
    open_page(driver, report)
    pdf = base64.b64decode(driver.execute_cdp_cmd("Page.printToPDF", {})["data"])
    assert pdf.startswith(b"%PDF-")
    assert 2 <= len(re.findall(rb"/Type\s*/Page\b", pdf)) <= 12
