import os
import re
import warnings as python_warnings
from html.parser import HTMLParser
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit
from sklearn.dummy import DummyClassifier
from sklearn.exceptions import NotFittedError

from suquan import (
    QuantileNormalizer,
    SupervisedQuantileNormalizer,
    SuquanClassifier,
    SuquanRegressor,
    compare,
)
from suquan.report import (
    Figure,
    Section,
    Table,
    Verdict,
    comparison_sections,
    draw,
    render_page,
    write_page,
    write_report,
)

pytest.importorskip("matplotlib")

EVIL = "</title></style><script>alert('\"')</script><img src=x onerror=alert(1)>&amp;$\\frac{"
VOID = {"meta", "link", "br", "img", "hr", "input"}
SETTINGS = {
    "outer_cv": 3,
    "inner_cv": 2,
    "alphas": [0.05, 0.5],
    "smoothnesses": [0.1],
    "n_repeats": 1,
    "progress": False,
}


def make_problem(task="binary", n_samples=60, n_features=10, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_samples, n_features))
    u = 2.0 * X @ rng.standard_normal((n_features, 3))
    if task == "regression":
        return np.exp(X), u[:, 0] + rng.standard_normal(n_samples)
    if task == "multiclass":
        return np.exp(X), np.array(["a", "b", "<c>"])[np.argmax(u, axis=1)]
    return np.exp(X), (rng.random(n_samples) < expit(u[:, 0])).astype(int)


@pytest.fixture(scope="module")
def result():
    methods = ["raw", "normal", "uniform", "joint", "crossfit", (EVIL, DummyClassifier())]
    return compare(*make_problem(), methods=methods, n_permutations=2, **SETTINGS)


class Page(HTMLParser):
    """What a page holds: elements in order, their text, and whether tags are balanced."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.elements, self.stack = [], []
        self.feed(text)
        self.close()
        assert self.stack == []

    def handle_starttag(self, tag, attributes):
        names = [name for name, _ in attributes]
        assert len(names) == len(set(names)), (tag, names)
        element = {"tag": tag, "attributes": dict(attributes), "text": ""}
        self.elements.append(element)
        if tag not in VOID:
            self.stack.append(element)

    def handle_startendtag(self, tag, attributes):
        self.elements.append({"tag": tag, "attributes": dict(attributes), "text": ""})

    def handle_endtag(self, tag):
        assert self.stack, tag
        assert self.stack.pop()["tag"] == tag

    def handle_data(self, data):
        for element in self.stack:
            element["text"] += data

    def all(self, tag):
        return [element for element in self.elements if element["tag"] == tag]

    def one(self, tag):
        (element,) = self.all(tag)
        return element


def report(tmp_path, *arguments, **options):
    path = write_report(tmp_path / "report.html", *arguments, **options)
    return path.read_text(encoding="utf-8")


def texts(page, tag, **attributes):
    """Texts of all elements of a kind with these attributes."""
    found = [e for e in page.all(tag) if attributes.items() <= e["attributes"].items()]
    return [element["text"] for element in found]


def check_page(text):
    """What holds for every page: it stands alone, is well formed, and can be read aloud."""
    page = Page(text)
    # Nothing is fetched, nothing is run; code shown as typed may hold anything.
    quoted = "".join(code["text"] for code in page.all("code")) or "\0"
    assert not re.search(r"https?:|//[a-z]|@import|javascript:", text.replace(quoted, ""))
    banned = {"script", "img", "iframe", "object", "embed", "base", "form"}
    assert not banned & {element["tag"] for element in page.elements}
    attributes = [item for element in page.elements for item in element["attributes"].items()]
    assert not any(name.startswith("on") for name, _ in attributes)
    assert ("http-equiv", "Content-Security-Policy") in attributes
    assert "content=\"default-src 'none';" in text.replace("&#x27;", "'")
    # Ids are unique and links lead to them.
    ids = [value for name, value in attributes if name == "id"]
    assert len(ids) == len(set(ids))
    links = [value for name, value in attributes if name in ("href", "src", "xlink:href")]
    links += [url for _, value in attributes for url in re.findall(r"url\(([^)]*)\)", value or "")]
    links += [f"#{value}" for name, value in attributes if name == "aria-labelledby"]
    assert {link for link in links if not link.startswith("data:")} <= {f"#{name}" for name in ids}
    # Language, one first heading, no level left out, landmarks.
    assert page.one("html")["attributes"]["lang"] == "en"
    assert page.one("title")["text"] == page.one("h1")["text"]
    levels = [int(e["tag"][1]) for e in page.elements if re.fullmatch("h[1-6]", e["tag"])]
    assert levels[0] == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    assert page.one("main")
    assert ("name", "viewport") in attributes
    # Figures have a description of their own, tables a name and headers.
    assert len(page.all("svg")) == len(page.all("figure")) == len(page.all("figcaption"))
    for svg in page.all("svg"):
        assert svg["attributes"]["role"] == "img"
        assert len(svg["attributes"]["aria-label"]) > 40
    assert len(page.all("caption")) + len(page.all("details")) == len(page.all("table"))
    assert {th["attributes"].get("scope") for th in page.all("th")} <= {"col", "row"}
    return page


# -- the report of a comparison ----------------------------------------------------------------------


def test_report_opens_with_the_verdict_and_shows_every_method_with_its_interval(result, tmp_path):
    page = check_page(report(tmp_path, result))
    main, summary, tests = page.one("main")["text"], result.summary, result.tests
    headline, _, rest = result.verdict.partition(": ")
    assert main.lstrip().startswith("Verdict")
    assert main.index(headline) < main.index("Scores of all methods")
    assert rest[1:] in main
    assert f"{result.contrast.mean:+.4f}" in main
    for mean in summary["mean"]:
        assert f"{mean:.4f}" in main
    for k in np.flatnonzero(tests["other"] == "start"):
        assert f"{tests['low'][k]:+.4f} to {tests['high'][k]:+.4f}" in main
    order = [str(name) for name in summary["method"][np.argsort(summary["rank"])]]
    assert texts(page, "th", scope="row")[: len(order)] == order
    # Descriptions of figures hold their numbers.
    labels = [svg["attributes"]["aria-label"] for svg in page.all("svg")]
    mean = summary["mean"][summary["method"] == "crossfit"][0]
    assert f"crossfit mean {mean:.4f}" in labels[0]
    assert re.search(r"higher in \d+ and lower in \d+", labels[2])
    assert any("root mean square distance" in label for label in labels)
    assert any("shuffles" in label for label in labels)


def test_full_report_has_all_sections_and_shows_what_was_given_as_it_is(result, tmp_path):
    X, y = make_problem()
    pandas = pytest.importorskip("pandas")
    names = [f"gene {k}" for k in range(9)] + [EVIL]
    model = SuquanClassifier(random_state=0).fit(pandas.DataFrame(X, columns=names), y)
    text = report(
        tmp_path,
        result,
        estimator=model,
        data_summary={"samples": 60, "classes": {"0": 30, EVIL: 30}, "table": EVIL},
        warnings=["5 samples were dropped", UserWarning("of little use"), EVIL],
        settings={"seed": 0, EVIL: EVIL},
        command=["suquan", "compare", "a table.csv", EVIL],
    )
    page = check_page(text)
    headings = "Verdict|Scores of all methods|Probabilities|Shuffled labels|Model|Data and warnings"
    assert texts(page, "h2") == [*headings.split("|"), "Settings", "How to reproduce this"]
    main = page.one("main")["text"]
    top = names[int(np.argmax(np.abs(model.coef_[0])))]
    weights = main[main.index("Features with the largest weights") :]
    assert weights.index(top) == min(weights.index(name) for name in names)
    assert f"{model.coef_[0, names.index(top)]:+.4g}" in weights
    assert "of little use" in main
    assert "suquan compare 'a table.csv'" in page.one("pre")["text"]
    assert np.__version__ in main
    assert main.count(EVIL) >= 8


def test_target_is_drawn_once_with_its_band(result, tmp_path):
    X, y = make_problem()
    heading = "Target learned in the folds"
    assert heading in texts(check_page(report(tmp_path, result)), "h2")
    other = SuquanClassifier("svd").fit(X, y)
    assert heading in texts(check_page(report(tmp_path, result, estimator=other)), "h2")
    same = SuquanClassifier(random_state=0).fit(X, y)
    once = check_page(report(tmp_path, result, estimator=same))
    assert heading not in texts(once, "h2")
    labels = [svg["attributes"]["aria-label"] for svg in once.all("svg")]
    assert any("range over the outer folds" in label for label in labels)


def test_comparison_without_a_contrast_has_no_verdict_but_a_report(tmp_path):
    few = compare(*make_problem(), methods=[("only", DummyClassifier())], **SETTINGS)
    assert "No verdict" in check_page(report(tmp_path, few)).one("main")["text"]
    two = compare(*make_problem(), methods=["raw", "svd"], **SETTINGS)
    main = check_page(report(tmp_path, two)).one("main")["text"]
    assert "No verdict" in main
    assert "Difference from best_fixed" in main


def test_one_fold_alone_has_no_intervals(tmp_path):
    split = {"outer_cv": [(np.arange(40), np.arange(40, 60))]}
    one = compare(*make_problem(), methods=["normal", "crossfit"], **(SETTINGS | split))
    page = check_page(report(tmp_path, one))
    cells = texts(page, "td") + texts(page, "dd")
    assert "–" in cells
    assert not any(re.search(r"\b(nan|inf)\b", cell) for cell in cells)


@pytest.mark.parametrize(
    ("task", "scoring", "kind", "columns"),
    [
        ("regression", "r2", SuquanRegressor, ["Weight"]),
        ("multiclass", "roc_auc_ovr", SuquanClassifier, ["Weight, <c>", "Weight, a", "Weight, b"]),
    ],
)
def test_other_tasks_are_reported(task, scoring, kind, columns, tmp_path):
    X, y = make_problem(task)
    found = compare(X, y, methods=["normal", "crossfit"], scoring=scoring, **SETTINGS)
    page = check_page(report(tmp_path, found, estimator=kind(random_state=0).fit(X, y)))
    assert f"{scoring} is " in page.one("main")["text"]
    assert set(columns) <= set(texts(page, "th", scope="col"))


def test_report_is_the_same_but_for_its_date(result, tmp_path):
    def dateless():
        return without_ids(re.sub(r"Made on [^<]*", "", report(tmp_path, result)))

    assert dateless() == dateless()


# -- the report of a model ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("estimator", "words"),
    [
        (SuquanClassifier("joint", tol=1e-12), "objective J"),
        (
            SuquanClassifier("fixed", init="normal"),
            "is close to the normal distribution (root mean square distance 0.00",
        ),
        (
            SuquanClassifier("fixed", init=np.arange(10) > 8),
            "is unlike the named distributions: the nearest is the exponential one",
        ),
        (SupervisedQuantileNormalizer(random_state=0), "rounds"),
        (QuantileNormalizer("mean"), "fixed"),
    ],
)
def test_model_alone_is_reported(estimator, words, tmp_path):
    page = check_page(report(tmp_path, None, estimator=estimator.fit(*make_problem())))
    assert page.one("h1")["text"] == "Fitted model"
    assert "Model" in texts(page, "h2")
    main = page.one("main")["text"]
    assert type(estimator).__name__ in main
    assert words in main


def test_nothing_to_report_and_unfitted_models_are_refused(tmp_path):
    with pytest.raises(ValueError, match="nothing to report"):
        write_report(tmp_path / "none.html", None)
    with pytest.raises(NotFittedError):
        write_report(tmp_path / "none.html", None, estimator=SuquanClassifier())
    assert not (tmp_path / "none.html").exists()


@pytest.mark.parametrize("method", ["multi", "matrix"])
def test_every_target_is_reported_with_its_share_and_weights_are_summed_over_them(method, tmp_path):
    model = SuquanClassifier(method, n_knots=6, alpha=0.01).fit(*make_problem())
    cells = texts(check_page(report(tmp_path, None, estimator=model)), "td")
    sizes = model.singular_values_ ** (1 if method == "multi" else 2)
    weights = np.abs(model.coef_).reshape(-1, 10).sum(axis=0)
    told = {f"{size / sizes.sum():.2%}" for size in sizes[: len(model.target_quantiles_)]}
    told |= {f"{model.singular_values_[0]:.4g}", f"{model.duality_gap_:.6g}"}
    told |= {f"{weights.max():.4g}", f"{weights.max() / weights.sum():.2%}"}
    assert told <= set(cells)


def test_a_method_of_someones_own_is_named_by_its_class(tmp_path):
    model = SuquanClassifier("bnd").fit(*make_problem())
    model.method = type("Stepwise", (), {})()
    assert "Stepwise" in texts(Page(report(tmp_path, None, estimator=model)), "td")


def test_feature_names_may_be_given_and_must_fit(tmp_path):
    model = SuquanClassifier(random_state=0).fit(*make_problem())
    text = report(tmp_path, None, estimator=model)
    assert f"column {int(np.argmax(np.abs(model.coef_[0])))}" in text
    names = [f"TP{k}" for k in range(10)]
    top3 = report(tmp_path, None, estimator=model, feature_names=names, n_top=3)
    assert sum(f">{name}</th>" in top3 for name in names) == 3
    with pytest.raises(ValueError, match="feature_names has 2 names but the model has 10"):
        write_report(tmp_path / "none.html", None, estimator=model, feature_names=["a", "b"])


# -- pages of sections -------------------------------------------------------------------------------


def test_failed_write_leaves_what_was_there(tmp_path, monkeypatch):
    path = write_page(tmp_path / "new" / "page.html", "First", [])
    first = path.read_text(encoding="utf-8")
    plain = tmp_path / "plain"
    plain.write_text("")
    assert path.stat().st_mode == plain.stat().st_mode

    def fail(*_):
        raise OSError("disk full")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="disk full"):
        write_page(path, "Second", [])
    assert path.read_text(encoding="utf-8") == first
    assert [file.name for file in path.parent.iterdir()] == ["page.html"]


def plot_names(ax, name="x"):
    ax.plot([0, 1], [0, 1], label="line")
    ax.set_xlabel(name, parse_math=False)
    ax.imshow(np.eye(2))


def without_ids(text):
    """Ids of drawings are other ones in every drawing of a process."""
    return re.sub(r"\b[a-z]+[0-9a-f]{10}\b|\bC\w+_[0-9a-f]{10}\b", "ID", text)


def test_sections_nest_and_number_their_tables_and_figures(result):
    table = Table("Numbers", ("Name", "Value"), [("a", 1), ("b", 2)], marked=[1], bars=[0.5, -1.0])
    figures = [Figure(draw(plot_names), "A line that rises from 0 to 1." * 2, c) for c in "CD"]
    inner = Section("Inner", tables=[table], figures=figures)
    page = check_page(render_page("T", [Section("Outer", sections=[inner]), Section("Last")]))
    assert texts(page, "h3") == ["Inner"]
    assert page.one("caption")["text"] == "Table 1. Numbers"
    assert texts(page, "figcaption") == ["Figure 1. C", "Figure 2. D"]
    assert page.one("nav")["text"] == "OuterLast"
    assert all("data:image/png" in image["attributes"]["href"] for image in page.all("image"))
    with pytest.raises(ValueError, match="2 columns but 1 cells in row 0"):
        render_page("T", [Section("S", tables=[Table("C", ("a", "b"), [("x",)])])])
    # Sections of comparisons can stand in any page.
    short = Section("Second", sections=comparison_sections(result, with_target=False))
    both = [Section("First", sections=comparison_sections(result)), short]
    assert texts(check_page(render_page("Two data sets", both)), "h3").count("Verdict") == 2


def test_drawings_keep_their_text_and_take_the_colours_of_the_page():
    with python_warnings.catch_warnings():
        python_warnings.simplefilter("error")
        svg = draw(lambda ax: plot_names(ax, "漢字 <b> & \x07"))
    assert "漢字 &lt;b&gt; &amp; \N{REPLACEMENT CHARACTER}" in svg
    assert "var(--ink)" in svg
    assert not any(word in svg for word in ("DejaVu", "<style", "xmlns"))
    linked = draw(lambda ax: ax.scatter([0], [0]).set_urls(["https://example.org"]))
    assert "example.org" not in linked


def test_drawing_and_settings_of_matplotlib_leave_each_other_alone():
    import matplotlib

    before = dict(matplotlib.rcParams.copy())
    plain = draw(lambda ax: ax.plot([1, 2]))
    assert dict(matplotlib.rcParams.copy()) == before
    with matplotlib.rc_context({"font.size": 30, "axes.facecolor": "red"}):
        other = draw(lambda ax: ax.plot([1, 2]))
    assert without_ids(plain) == without_ids(other)


TEXT = st.text(max_size=30)


def make_section(name, value):
    return Section(
        name,
        verdict=Verdict("good", value, name, [(value, name)]),
        paragraphs=[value],
        notes=[name],
        code=value,
        tables=[Table(name, (value, name), [(name, value)]), Table(value, ("a",), [], folded=True)],
        figures=[Figure("<svg ></svg>", name, value)],
    )


@settings(max_examples=60, deadline=None)
@given(TEXT, TEXT, TEXT)
def test_any_text_is_shown_and_never_becomes_markup(title, name, value):
    def tags(page):
        return [e["tag"] for e in page.elements if e["tag"] not in ("p", "pre", "code")]

    text = render_page(title, [make_section(name, value)] * 2, subtitle=value, footer=name)
    text.encode()
    page = Page(text)
    plain = Page(render_page("t", [make_section("n", "v")] * 2, subtitle="v", footer="n"))
    wanted = tags(plain)
    if not name:  # an empty footer is left out
        wanted.remove("footer")
    assert tags(page) == wanted
    known = {name for e in plain.elements for name in e["attributes"]}
    assert {name for e in page.elements for name in e["attributes"]} <= known
