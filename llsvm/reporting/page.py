"""Page of a report: one self-contained file of HTML, of one model or of two side by side; at the end its style."""

from __future__ import annotations

from collections.abc import Callable

from llsvm.models.markup import Markup, card, figure, section, table, tag
from llsvm.models.words import changed_settings, setting_text
from llsvm.process import VERSION
from llsvm.reporting.evaluated import evaluated
from llsvm.reporting.overview import Subject, overview, weights
from llsvm.reporting.progress import training

_SECTIONS: tuple[Callable[[Subject], Markup], ...] = (overview, evaluated, training, weights)
_NOTHING_ELSE = "default-src 'none'; style-src 'unsafe-inline'"  # whatever a name may hold


def page(subject: Subject, other: Subject | None = None) -> str:
    """Return the HTML of a report. other: what ``subject`` is held against."""
    title = f"{subject.name}: report" if other is None else f"{subject.name} and {other.name}: report"
    if other is None:
        content = [make(subject) for make in _SECTIONS]
    else:
        pairs = [(make(subject), make(other)) for make in _SECTIONS]
        content = [_compared(subject, other), *(_side_by_side(*pair, subject, other) for pair in pairs)]
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=_NOTHING_ELSE),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="generator", content=f"llsvm {VERSION}"),
        tag("title", title),
        tag("style", Markup(STYLE)),
    )
    footer = tag("footer", f"Made by llsvm {VERSION}. Values are under the pointer, and below each drawing.")
    body = tag("body", tag("header", tag("h1", title)), tag("main", *content), footer)
    return f"<!doctype html>\n{tag('html', head, body, lang='en')}\n"


def _side_by_side(ours: Markup, theirs: Markup, subject: Subject, other: Subject) -> Markup:
    if not (ours or theirs):
        return Markup("")
    parts = [
        tag("div", tag("p", side.name, class_="quiet"), part)
        for side, part in ((subject, ours), (other, theirs))
    ]
    return tag("div", *parts, class_="pair")


def _compared(subject: Subject, other: Subject) -> Markup:
    """Return the section of what differs between the two."""
    head = ("", subject.name, other.name)
    return section("Compared", _figures(subject, other, head), _settings(subject, other, head))


def _figures(subject: Subject, other: Subject, head: tuple[str, ...]) -> Markup:
    models = subject.model, other.model
    gaps = [model.certificate and model.certificate.relative_gap for model in models]
    rows: list[list[object]] = [
        ["converged", *("yes" if model.converged else "no" for model in models)],
        ["relative gap", *("-" if gap is None else f"{gap:.3g}" for gap in gaps)],
        ["rows", *(f"{model.n_rows:,}" for model in models)],
        ["features", *(f"{model.n_features_in_:,}" for model in models)],
    ]
    for name, value in subject.figures.items():
        theirs = other.figures.get(name)
        shown = "-" if theirs is None else figure(f"other.{name}", theirs)
        rows.append([name.replace("_", " "), figure(name, value), shown])
    return card("Figures", table(head, rows, "Side by side"))


def _settings(subject: Subject, other: Subject, head: tuple[str, ...]) -> Markup:
    models = subject.model, other.model
    names = sorted({name for model in models for name in changed_settings(model)})
    values = [[setting_text(model.settings.get(name)) for model in models] for name in names]
    rows = [[name, *pair] for name, pair in zip(names, values, strict=True) if pair[0] != pair[1]]
    if not rows:
        return card("Settings", tag("p", "The same settings."))
    return card("Settings that differ", table(head, rows, "As they were used"))


# Light and dark as the reader's system has it, one column on a phone, plain on paper.
STYLE = """
:root { color-scheme: light dark; --back: #fbfbfa; --card: #fff; --text: #1d2329; --quiet: #59636e; --edge: #d5dae0;
  --a: #0b62b8; --b: #b4500f; --c: #5f6b76; --good: #146c3c; --warning: #9a3c00; --p2: #6f42c1; }
@media (prefers-color-scheme: dark) { :root { --back: #12161b; --card: #1a2027; --text: #e6eaee; --quiet: #a2adb8;
  --edge: #37414c; --a: #6cb4ff; --b: #ff9d5c; --c: #9aa7b4; --good: #6fd49a; --warning: #ffb27a; --p2: #c4a5ff; } }
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; }
body { margin: 0 auto; padding: 1rem; max-width: 100rem; background: var(--back); color: var(--text);
  font: 1rem/1.5 system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 1.6rem; line-height: 1.2; margin: .5rem 0; }
h2 { font-size: 1.3rem; margin: 2rem 0 .75rem; }
h3 { font-size: 1rem; margin: 0 0 .5rem; }
p { margin: .5rem 0; } p:empty { display: none; }
.quiet, caption, figcaption, footer { color: var(--quiet); font-size: .875rem; }
a { color: var(--a); }
.cards { display: flex; flex-wrap: wrap; gap: 1rem; align-items: flex-start; }
.pair { display: grid; gap: 1.5rem; grid-template-columns: repeat(auto-fit, minmax(min(100%, 24rem), 1fr)); }
.pair > div { min-width: 0; }
article { background: var(--card); border: 1px solid var(--edge); border-radius: .5rem; padding: 1rem;
  min-width: 0; flex: 1 1 min(100%, 22rem); max-width: min(100%, 42rem); }
article.wide { flex-basis: 100%; max-width: 100%; }
.verdict { font-size: 1.1rem; border-left: .3rem solid; padding-left: .75rem; margin: 0 0 1rem; }
.good { border-color: var(--good); } .warning { border-color: var(--warning); }
.tiles { list-style: none; margin: 0; padding: 0; display: grid; gap: .5rem 1.5rem;
  grid-template-columns: repeat(auto-fit, minmax(7.5rem, 1fr)); }
.tiles strong { display: block; font-size: 1.35rem; line-height: 1.2; }
.tiles span { color: var(--quiet); font-size: .875rem; }
dl { margin: 0; } dl > div { display: grid; grid-template-columns: minmax(7.5rem, 1fr) 2fr; gap: .75rem;
  padding: .2rem 0; border-bottom: 1px solid var(--edge); }
dt { color: var(--quiet); } dd { margin: 0; }
.scroll { overflow: auto; max-height: 34rem; max-width: 100%; /* a shade where there is more to the side */
  background: linear-gradient(to right, var(--card) 40%, transparent) 0 0 / 3rem 100%,
    linear-gradient(to left, var(--card) 40%, transparent) 100% 0 / 3rem 100%,
    linear-gradient(to right, var(--edge), transparent) 0 0 / 1rem 100%,
    linear-gradient(to left, var(--edge), transparent) 100% 0 / 1rem 100%;
  background-attachment: local, local, scroll, scroll; background-repeat: no-repeat; }
.scroll:focus-visible, summary:focus-visible { outline: 2px solid var(--a); outline-offset: 2px; }
table { border-collapse: collapse; font-size: .875rem; width: 100%; overflow-wrap: normal; }
caption { text-align: left; padding-bottom: .25rem; max-width: calc(100vw - 4.5rem); }
th, td { padding: .2rem .5rem; border-bottom: 1px solid var(--edge); vertical-align: top; font-weight: normal; }
thead th { font-weight: 600; overflow-wrap: normal; position: sticky; top: 0; background: var(--card); }
.text { text-align: left; } .number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
tbody th.text { overflow-wrap: anywhere; min-width: 5.5rem; }
.cell { display: inline-block; padding: 0 .4rem; border-radius: .2rem; border-bottom: .2rem solid;
  border-color: color-mix(in srgb, var(--a) var(--share), transparent); }
.weights .bar { width: 35%; min-width: 4rem; }
.weights .bar span { display: block; height: .7rem; margin-top: .35rem; }
@media (max-width: 30rem) { .weights.both tr { display: grid; grid-template-columns: 1fr 1fr 35%; padding: .2rem 0;
    border-bottom: 1px solid var(--edge); } .weights.both th, .weights.both td { border: 0; padding: 0 .25rem; }
  .weights.both th.text { grid-column: 1 / -1; } .weights.both thead th { position: static; } }
.plus { background: var(--a); } .minus { background: var(--b); }
.folds { display: grid; gap: 0 1.5rem; align-items: start;
  grid-template-columns: repeat(auto-fill, minmax(min(100%, 16rem), 1fr)); }
summary { cursor: pointer; color: var(--a); padding: .35rem 0; }
figure { margin: 0; }
.plot { display: block; width: 100%; height: auto; max-width: 34rem; font-size: 12px; }
svg text { fill: var(--quiet); } svg .label { fill: var(--text); }
.grid { stroke: var(--edge); stroke-width: 1; }
.line { fill: none; stroke-width: 2; stroke-linejoin: round; } .felt { fill: transparent; }
.line.a { stroke: var(--a); } .line.b { stroke: var(--b); } .line.c { stroke: var(--c); stroke-dasharray: 5 3; }
.line.faint { stroke: var(--c); stroke-width: 1; stroke-dasharray: 3 3; }
.dot.a, .bar.a { fill: var(--a); } .dot.b, .bar.b { fill: var(--b); } .dot.c { fill: var(--c); }
.bar.a, .bar.b { fill-opacity: .6; } .bar.cell { fill: var(--a); }
g:hover > .dot, g:hover > .bar { stroke: var(--text); }
.legend { list-style: none; display: flex; flex-wrap: wrap; gap: 0 1rem; margin: .25rem 0; padding: 0;
  font-size: .875rem; }
.legend li::before { content: ""; display: inline-block; width: .9rem; height: .3rem; margin-right: .4rem;
  vertical-align: middle; background: var(--c); }
.legend .a::before { background: var(--a); } .legend .b::before { background: var(--b); }
.matrix { display: block; font-size: 9px; } .matrix .right { fill: var(--a); } .matrix .wrong { fill: var(--b); }
.parts { display: flex; height: 1.5rem; border-radius: .25rem; overflow: hidden; margin-bottom: .5rem; }
.p0 { background: var(--a); } .p1 { background: var(--b); }
.p2 { background: var(--p2); } .p3 { background: var(--c); }
.key { display: inline-block; width: .8rem; height: .8rem; border-radius: .15rem; margin-right: .4rem; }
footer { margin-top: 2rem; }
@media print { :root { --back: #fff; --card: #fff; --text: #000; --quiet: #333; --edge: #bbb; --a: #0b62b8;
    --b: #b4500f; --c: #555; --good: #146c3c; --warning: #9a3c00; --p2: #6f42c1; }
  body { max-width: none; padding: 0; font-size: 10pt; } article, figure, tr { break-inside: avoid; }
  h2, h3 { break-after: avoid; } .scroll { overflow: visible; max-height: none; background: none; }
  details, article:has(> .folds) { display: none; }
  .matrix { max-width: 100%; height: auto; }
  * { print-color-adjust: exact; -webkit-print-color-adjust: exact; } }
"""
