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


def check_page(text):
    """What holds for every page: it stands alone, is well formed, and can be read aloud."""
    page = Page(text)
    # Nothing is fetched, nothing is run.
    assert not re.search(r"https?:|//[a-z]|@import|javascript:", text.replace(_quoted(page), ""))
    for element in page.elements:
        assert element["tag"] not in {"script", "img", "iframe", "object", "embed", "base", "form"}
        for name, value in element["attributes"].items():
            assert not name.startswith("on"), (element["tag"], name)
            if name in ("href", "src", "xlink:href"):
                assert value.startswith(("#", "data:")), value
            for target in re.findall(r"url\(([^)]*)\)", value or ""):
                assert target.startswith("#"), target
    policy = next(m for m in page.all("meta") if "http-equiv" in m["attributes"])
    assert "default-src 'none'" in policy["attributes"]["content"]
    # Ids are unique and links lead somewhere.
    ids = [e["attributes"]["id"] for e in page.elements if "id" in e["attributes"]]
    assert len(ids) == len(set(ids))
    for element in page.elements:
        a = element["attributes"]
        targets = [a["href"][1:]] if a.get("href", "").startswith("#") else []
        targets += a.get("aria-labelledby", "").split()
        targets += re.findall(r"url\(#([^)]*)\)", " ".join(v or "" for v in a.values()))
        assert set(targets) <= set(ids), targets
    # Language, one first heading, no level left out, landmarks.
    assert page.one("html")["attributes"]["lang"] == "en"
    assert page.one("title")["text"] == page.one("h1")["text"]
    levels = [int(e["tag"][1]) for e in page.elements if re.fullmatch("h[1-6]", e["tag"])]
    assert levels[0] == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    assert page.one("main")
    assert any(m["attributes"].get("name") == "viewport" for m in page.all("meta"))
    # Figures have a description of their own, tables a name and headers.
    assert len(page.all("svg")) == len(page.all("figure")) == len(page.all("figcaption"))
    for svg in page.all("svg"):
        assert svg["attributes"]["role"] == "img"
        assert len(svg["attributes"]["aria-label"]) > 40
    assert len(page.all("caption")) + len(page.all("details")) == len(page.all("table"))
    assert {th["attributes"].get("scope") for th in page.all("th")} <= {"col", "row"}
    return page


def _quoted(page):
    """Code shown as typed may hold anything."""
    return "".join(code["text"] for code in page.all("code")) or "\0"


# -- the report of a comparison ----------------------------------------------------------------------


def test_report_opens_with_the_verdict(result, tmp_path):
    page = check_page(report(tmp_path, result))
    main = page.one("main")["text"]
    headline, _, rest = result.verdict.partition(": ")
    assert main.lstrip().startswith("Verdict")
    assert main.index(headline) < main.index("Scores of all methods")
    assert rest[1:] in main
    assert f"{result.contrast.mean:+.4f}" in main


def test_table_shows_every_method_with_its_interval(result, tmp_path):
    text = report(tmp_path, result)
    main = check_page(text).one("main")["text"]
    summary, tests = result.summary, result.tests
    for k, name in enumerate(summary["method"]):
        assert name in main
        assert f"{summary['mean'][k]:.4f}" in main
    for k in np.flatnonzero(tests["other"] == "start"):
        assert f"{tests['low'][k]:+.4f} to {tests['high'][k]:+.4f}" in main
    order = [str(name) for name in summary["method"][np.argsort(summary["rank"])]]
    headers = [e["text"] for e in check_page(text).all("th") if e["attributes"]["scope"] == "row"]
    assert headers[: len(order)] == order


def test_descriptions_of_figures_hold_their_numbers(result, tmp_path):
    labels = [svg["attributes"]["aria-label"] for svg in Page(report(tmp_path, result)).all("svg")]
    mean = result.summary["mean"][result.summary["method"] == "crossfit"][0]
    assert f"crossfit mean {mean:.4f}" in labels[0]
    assert "in 0 and lower" in labels[2] or re.search(r"higher in \d+ and lower in \d+", labels[2])
    assert any("root mean square distance" in label for label in labels)
    assert any("shuffles" in label for label in labels)


def test_full_report_has_all_sections(result, tmp_path):
    X, y = make_problem()
    pandas = pytest.importorskip("pandas")
    names = [f"gene {k}" for k in range(9)] + [EVIL]
    model = SuquanClassifier(random_state=0).fit(pandas.DataFrame(X, columns=names), y)
    page = check_page(
        report(
            tmp_path,
            result,
            estimator=model,
            data_summary={"samples": 60, "classes": {"0": 30, EVIL: 30}, "table": EVIL},
            warnings=["5 samples were dropped", UserWarning("of little use"), EVIL],
            settings={"seed": 0, EVIL: EVIL},
            command=["suquan", "compare", "a table.csv", EVIL],
        )
    )
    headings = [h["text"] for h in page.all("h2")]
    assert headings == [
        "Verdict",
        "Scores of all methods",
        "Probabilities",
        "Shuffled labels",
        "Model",
        "Data and warnings",
        "Settings",
        "How to reproduce this",
    ]
    main = page.one("main")["text"]
    top = names[int(np.argmax(np.abs(model.coef_[0])))]
    weights = main[main.index("Features with the largest weights") :]
    assert weights.index(top) == min(weights.index(name) for name in names)
    assert f"{model.coef_[0, names.index(top)]:+.4g}" in weights
    assert "of little use" in main
    assert "suquan compare 'a table.csv'" in page.one("pre")["text"]
    assert np.__version__ in main
    # What was given is shown as it is, wherever it stands.
    assert main.count(EVIL) >= 8


def test_target_is_drawn_once_with_its_band(result, tmp_path):
    alone = check_page(report(tmp_path, result))
    assert "Target learned in the folds" in [h["text"] for h in alone.all("h2")]
    X, y = make_problem()
    other = SuquanClassifier("svd").fit(X, y)
    both = check_page(report(tmp_path, result, estimator=other))
    assert "Target learned in the folds" in [h["text"] for h in both.all("h2")]
    same = SuquanClassifier(random_state=0).fit(X, y)
    once = check_page(report(tmp_path, result, estimator=same))
    assert "Target learned in the folds" not in [h["text"] for h in once.all("h2")]
    labels = [svg["attributes"]["aria-label"] for svg in once.all("svg")]
    assert any("range over the outer folds" in label for label in labels)


def test_comparison_without_a_contrast_has_no_verdict_but_a_report(tmp_path):
    few = compare(*make_problem(), methods=[("only", DummyClassifier())], **SETTINGS)
    page = check_page(report(tmp_path, few))
    assert "No verdict" in page.one("main")["text"]
    two = compare(*make_problem(), methods=["raw", "svd"], **SETTINGS)
    main = check_page(report(tmp_path, two)).one("main")["text"]
    assert "No verdict" in main
    assert "Difference from best_fixed" in main


def test_one_fold_alone_has_no_intervals(tmp_path):
    split = [(np.arange(40), np.arange(40, 60))]
    one = compare(
        *make_problem(), methods=["normal", "crossfit"], **{**SETTINGS, "outer_cv": split}
    )
    page = check_page(report(tmp_path, one))
    cells = [cell["text"] for cell in page.all("td") + page.all("dd")]
    assert "–" in cells
    assert not any(re.search(r"\b(nan|inf)\b", cell) for cell in cells)


@pytest.mark.parametrize("task", ["regression", "multiclass"])
def test_other_tasks_are_reported(task, tmp_path):
    X, y = make_problem(task)
    scoring = "r2" if task == "regression" else "roc_auc_ovr"
    found = compare(X, y, methods=["normal", "crossfit"], scoring=scoring, **SETTINGS)
    model = (SuquanRegressor if task == "regression" else SuquanClassifier)(random_state=0)
    page = check_page(report(tmp_path, found, estimator=model.fit(X, y)))
    main = page.one("main")["text"]
    assert f"{scoring} is " in main
    columns = [e["text"] for e in page.all("th") if e["attributes"]["scope"] == "col"]
    wanted = ["Weight"] if task == "regression" else [f"Weight, {c}" for c in ("<c>", "a", "b")]
    assert set(wanted) <= set(columns)


def test_model_alone_is_reported(tmp_path):
    X, y = make_problem()
    for estimator in (
        SuquanClassifier("joint", tol=1e-12),
        SuquanClassifier("fixed", init="normal"),
        SupervisedQuantileNormalizer(random_state=0),
        QuantileNormalizer("mean"),
    ):
        page = check_page(report(tmp_path, None, estimator=estimator.fit(X, y)))
        assert page.one("h1")["text"] == "Fitted model"
        assert "Model" in [h["text"] for h in page.all("h2")]
        assert type(estimator).__name__ in page.one("main")["text"]
    with pytest.raises(ValueError, match="nothing to report"):
        write_report(tmp_path / "none.html", None)
    with pytest.raises(NotFittedError):
        write_report(tmp_path / "none.html", None, estimator=SuquanClassifier())
    assert not (tmp_path / "none.html").exists()


@pytest.mark.parametrize("method", ["multi", "matrix"])
def test_every_target_is_reported_with_its_share_and_weights_are_summed_over_them(method, tmp_path):
    X, y = make_problem()
    model = SuquanClassifier(method, n_knots=6, alpha=0.01).fit(X, y)
    page = check_page(report(tmp_path, None, estimator=model))
    cells = [cell["text"] for cell in page.all("td")]
    sizes = model.singular_values_ ** (1 if method == "multi" else 2)
    for size in sizes[: len(model.target_quantiles_)]:
        assert f"{size / sizes.sum():.2%}" in cells
    assert f"{model.singular_values_[0]:.4g}" in cells
    assert f"{model.duality_gap_:.6g}" in cells
    weights = np.abs(model.coef_).reshape(-1, 10).sum(axis=0)
    assert f"{weights.max():.4g}" in cells
    assert f"{weights.max() / weights.sum():.2%}" in cells


def test_a_method_of_someones_own_is_named_by_its_class(tmp_path):
    class Stepwise:
        pass

    model = SuquanClassifier("bnd").fit(*make_problem())
    model.method = Stepwise()
    cells = [cell["text"] for cell in Page(report(tmp_path, None, estimator=model)).all("td")]
    assert "Stepwise" in cells


def test_feature_names_may_be_given_and_must_fit(tmp_path):
    X, y = make_problem()
    model = SuquanClassifier(random_state=0).fit(X, y)
    text = report(tmp_path, None, estimator=model)
    assert f"column {int(np.argmax(np.abs(model.coef_[0])))}" in text
    names = [f"TP{k}" for k in range(10)]
    top3 = report(tmp_path, None, estimator=model, feature_names=names, n_top=3)
    assert sum(f">{name}</th>" in top3 for name in names) == 3
    with pytest.raises(ValueError, match="feature_names has 2 names but the model has 10"):
        write_report(tmp_path / "none.html", None, estimator=model, feature_names=["a", "b"])


def test_report_is_the_same_but_for_its_date(result, tmp_path):
    def dateless(text):
        text = re.sub(r"Made on [^<]*", "", text)
        return re.sub(r"\bg\d+-", "g-", text)  # numbers of the drawings of this process

    assert dateless(report(tmp_path, result)) == dateless(report(tmp_path, result))


def test_shape_of_the_target_is_told_in_words(tmp_path):
    X, y = make_problem()
    for init, words in [
        ("normal", "is close to the normal distribution (root mean square distance 0.00"),
        (
            np.arange(10) > 8,
            "is unlike the named distributions: the nearest is the exponential one",
        ),
    ]:
        model = SuquanClassifier("fixed", init=init).fit(X, y)
        assert words in report(tmp_path, None, estimator=model)


# -- files -------------------------------------------------------------------------------------------


def test_failed_write_leaves_what_was_there(tmp_path, monkeypatch):
    path = write_page(tmp_path / "new" / "page.html", "First", [])
    first = path.read_text(encoding="utf-8")

    def fail(*_):
        raise OSError("disk full")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="disk full"):
        write_page(path, "Second", [])
    assert path.read_text(encoding="utf-8") == first
    assert [file.name for file in path.parent.iterdir()] == ["page.html"]


def test_file_has_the_permissions_of_any_new_file(tmp_path):
    path = write_page(tmp_path / "page.html", "Title", [])
    plain = tmp_path / "plain"
    plain.write_text("")
    assert path.stat().st_mode == plain.stat().st_mode


# -- pages of sections -------------------------------------------------------------------------------


def plot_names(ax, name):
    ax.plot([0, 1], [0, 1], label="line")
    ax.set_xlabel(name, parse_math=False)
    ax.imshow(np.eye(2))


def test_sections_nest_and_number_their_tables_and_figures():
    table = Table("Numbers", ("Name", "Value"), [("a", 1), ("b", 2)], marked=[1], bars=[0.5, -1.0])
    figure = Figure(draw(lambda ax: plot_names(ax, "x")), "A line that rises from 0 to 1." * 2, "C")
    inner = Section("Inner", tables=[table], figures=[figure, figure_again()])
    page = check_page(render_page("T", [Section("Outer", sections=[inner]), Section("Last")]))
    assert [h["text"] for h in page.all("h3")] == ["Inner"]
    assert page.one("caption")["text"] == "Table 1. Numbers"
    captions = [c["text"] for c in page.all("figcaption")]
    assert captions == ["Figure 1. C", "Figure 2. D"]
    assert [a["text"] for a in page.one("nav") and page.all("a")] == ["Outer", "Last"]
    assert all("data:image/png" in image["attributes"]["href"] for image in page.all("image"))


def figure_again():
    return Figure(draw(lambda ax: plot_names(ax, "x")), "The same line, drawn once more." * 2, "D")


def test_table_refuses_rows_of_another_length():
    with pytest.raises(ValueError, match="2 columns but 1 cells in row 0"):
        render_page("T", [Section("S", tables=[Table("C", ("a", "b"), [("x",)])])])


def test_drawings_keep_their_text_and_take_the_colours_of_the_page():
    with python_warnings.catch_warnings():
        python_warnings.simplefilter("error")
        svg = draw(lambda ax: plot_names(ax, "漢字 <b> & \x07"))
    assert "漢字 &lt;b&gt; &amp; \N{REPLACEMENT CHARACTER}" in svg
    assert "var(--ink)" in svg
    assert "DejaVu" not in svg
    assert "<style" not in svg
    assert "xmlns" not in svg


def test_drawing_leaves_the_settings_of_matplotlib_alone():
    import matplotlib

    before = dict(matplotlib.rcParams.copy())
    draw(lambda ax: ax.plot([1, 2]))
    assert dict(matplotlib.rcParams.copy()) == before


def test_drawing_does_not_depend_on_the_settings_of_matplotlib():
    import matplotlib

    plain = draw(lambda ax: ax.plot([1, 2]))
    with matplotlib.rc_context({"font.size": 30, "axes.facecolor": "red"}):
        other = draw(lambda ax: ax.plot([1, 2]))
    assert re.sub(r"g\d+-", "", plain) == re.sub(r"g\d+-", "", other)


TEXT = st.text(max_size=30)


@settings(max_examples=60, deadline=None)
@given(TEXT, TEXT, TEXT)
def test_any_text_is_shown_and_never_becomes_markup(title, name, value):
    section = Section(
        name,
        verdict=Verdict("good", value, name, [(value, name)]),
        paragraphs=[value],
        notes=[name],
        code=value,
        tables=[Table(name, (value, name), [(name, value)]), Table(value, ("a",), [], folded=True)],
        figures=[Figure("<svg ></svg>", name, value)],
    )
    text = render_page(title, [section, section], subtitle=value, footer=name)
    text.encode()
    page = Page(text)
    plain = Page(render_page("t", [plain_section()] * 2, subtitle="v", footer="n"))
    shape = [
        element["tag"] for element in page.elements if element["tag"] not in ("p", "pre", "code")
    ]
    wanted = [e["tag"] for e in plain.elements if e["tag"] not in ("p", "pre", "code")]
    if not name:  # an empty footer is left out
        wanted.remove("footer")
    assert shape == wanted
    known = {name for e in plain.elements for name in e["attributes"]}
    assert {name for e in page.elements for name in e["attributes"]} <= known


def plain_section():
    return Section(
        "n",
        verdict=Verdict("good", "v", "n", [("v", "n")]),
        paragraphs=["v"],
        notes=["n"],
        code="v",
        tables=[Table("n", ("v", "n"), [("n", "v")]), Table("v", ("a",), [], folded=True)],
        figures=[Figure("<svg ></svg>", "n", "v")],
    )


def test_sections_of_a_comparison_can_stand_in_any_page(result, tmp_path):
    path = write_page(
        tmp_path / "experiment.html",
        "Two data sets",
        [
            Section("First", sections=comparison_sections(result)),
            Section("Second", sections=comparison_sections(result, with_target=False)),
        ],
    )
    page = check_page(path.read_text(encoding="utf-8"))
    assert [h["text"] for h in page.all("h2")] == ["First", "Second"]
    assert [h["text"] for h in page.all("h3")].count("Verdict") == 2
