"""The forms of a rendered page: Markdown, HTML that needs no other file, LaTeX with booktabs."""

from __future__ import annotations

import base64
import html
import re
from collections.abc import Callable

from selc.bench.sheet import NOTHING, Entry, Page, Sheet

ORDERS = "Our order of methods against the published one, by Kendall's tau (1: the same, 0: unrelated, -1: reversed):"
_LATEX = {
    "\\": r"\textbackslash{}",
    **{c: f"\\{c}" for c in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "±": r"$\pm$",
    "×": r"$\times$",
    "≈": r"$\approx$",
    "→": r"$\rightarrow$",
    "–": "--",
    "α": r"$\alpha$",
    "<": r"$<$",
    ">": r"$>$",
}
_STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; margin: 2em auto; max-width: 120em; padding: 0 1.5em; color: #111 }
p, ul, figure { max-width: 75em }
table { border-collapse: collapse; margin: .6em 0; font-variant-numeric: tabular-nums; font-size: 13px }
th, td { padding: .25em .6em; border-bottom: 1px solid #ccc; text-align: right; white-space: nowrap }
th:first-child, td:first-child { text-align: left; position: sticky; left: 0; background: #fff }
thead th { border-bottom: 2px solid #111; white-space: normal; vertical-align: bottom }
th[colspan] { text-align: center } td.paper { text-align: left; padding-left: 0 }
.paper, .gone { color: #666 } .wide { overflow-x: auto } figure { margin: 1.5em 0 } img { max-width: 100% }
figcaption, .notes { color: #444; font-size: 13px }
"""


def as_markdown(page: Page) -> str:
    text = [f"# {_md(page.title)}", "", page.about, "", *([page.words, ""] if page.words else [])]
    for sheet in page.sheets:
        text += [f"{'###' if sheet.small else '##'} {_md(sheet.title)}", "", _md(sheet.caption), ""]
        heads = [_md(name) + _md_marks((mark,) if mark else ()) for name, mark in sheet.columns]
        text += ["| method | " + " | ".join(heads) + " |", "|---" * (len(heads) + 1) + "|"]
        for (row, mark), entries in zip(sheet.rows, sheet.entries, strict=True):
            cells = [_entry(e, _md, lambda t: f"**{t}**", _md_marks, " / ") for e in entries]
            text.append(f"| {_md(row)}{_md_marks((mark,) if mark else ())} | " + " | ".join(cells) + " |")
        text += ["", *(f"{_md_marks((mark,))} {_md(note)}." + "  " for mark, note in sheet.footnotes), ""]
        text += [ORDERS, "", *(f"- {_md(order)}." for order in sheet.orders), ""] if sheet.orders else []
    for picture in page.pictures:
        text += [f"![{_md(picture.title)}]({path.name})\n" for path in picture.paths]
        text += [_md(f"{picture.title}. {picture.caption}"), ""]
    return "\n".join(text).rstrip() + "\n"


def as_html(page: Page) -> str:
    escape = html.escape
    parts = [
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{escape(page.title)}</title>',
        '<meta name="viewport" content="width=device-width">',
        f"<style>{_STYLE}</style><h1>{escape(page.title)}</h1><p>{_html_words(page.about)}</p>",
    ]
    parts += [f"<p>{_html_words(paragraph)}</p>" for paragraph in page.words.split("\n\n") if paragraph]
    for sheet in page.sheets:
        level = 3 if sheet.small else 2
        parts.append(f"<h{level}>{escape(sheet.title)}</h{level}><p>{escape(sheet.caption)}</p>")
        two = any(entry.paper for row in sheet.entries for entry in row)  # ours and theirs each below each other
        span = ' colspan="2"' if two else ""
        heads = "".join(
            f"<th{span}>{escape(name)}{_html_marks((mark,) if mark else ())}" for name, mark in sheet.columns
        )
        parts.append(f'<div class="wide"><table><thead><tr><th>method{heads}</thead>')
        for (row, mark), entries in zip(sheet.rows, sheet.entries, strict=True):
            cells = "".join(_html_entry(entry, two) for entry in entries)
            parts.append(f"<tr><td>{escape(row)}{_html_marks((mark,) if mark else ())}{cells}")
        parts.append("</table></div>")
        notes = "<br>".join(f"{_html_marks((mark,))} {escape(note)}." for mark, note in sheet.footnotes)
        parts.append(f'<p class="notes">{notes}</p>' if notes else "")
        orders = "".join(f"<li>{escape(order)}." for order in sheet.orders)
        parts.append(f'<p class="notes">{escape(ORDERS)}</p><ul class="notes">{orders}</ul>' if orders else "")
    for picture in page.pictures:
        files = (base64.b64encode(path.read_bytes()).decode() for path in picture.paths)
        title = escape(picture.title)
        images = "".join(f'<img alt="{title}" src="data:image/png;base64,{data}">' for data in files)
        parts.append(f"<figure>{images}<figcaption>{title}. {escape(picture.caption)}</figcaption></figure>")
    return "\n".join(part for part in parts if part) + "\n"


def as_latex(page: Page) -> str:
    """The main tables and the figures as floats; needs the packages booktabs and graphicx."""
    text = [f"% {page.title}", f"% {page.about}", r"% \usepackage{booktabs,graphicx}", ""]
    for sheet in page.sheets:
        text += [] if sheet.small else _latex_table(sheet)
    for picture in page.pictures:
        text += [r"\begin{figure*}", r"\centering"]
        text += [rf"\includegraphics[width=\textwidth]{{{path.stem}}}\par" for path in picture.paths]  # PDF if there
        text += [rf"\caption{{{latex(f'{picture.title}. {picture.caption}')}}}", r"\end{figure*}", ""]
    return "\n".join(text)


def _latex_table(sheet: Sheet) -> list[str]:
    heads = [latex(name) + _latex_marks((mark,) if mark else ()) for name, mark in sheet.columns]
    text = [r"\begin{table*}", r"\centering", r"\resizebox{\textwidth}{!}{%"]
    text += [rf"\begin{{tabular}}{{l{'c' * len(heads)}}}", r"\toprule"]
    text += ["Method & " + " & ".join(heads) + r" \\", r"\midrule"]
    for (row, mark), entries in zip(sheet.rows, sheet.entries, strict=True):
        cells = [_entry(e, latex, lambda t: rf"\textbf{{{t}}}", _latex_marks, " / ") for e in entries]
        text.append(f"{latex(row)}{_latex_marks((mark,) if mark else ())} & " + " & ".join(cells) + r" \\")
    notes = " ".join(f"{_latex_marks((mark,))} {latex(note)}." for mark, note in sheet.footnotes)
    text += [r"\bottomrule", r"\end{tabular}}"]
    text += [rf"\caption{{{latex(f'{sheet.title}. {sheet.caption}')}{' ' + notes if notes else ''}}}"]
    if sheet.orders:
        lines = " ".join(latex(f"{order}.") for order in sheet.orders)
        text += [rf"\par\raggedright\footnotesize {latex(ORDERS)} {lines}"]
    return [*text, r"\end{table*}", ""]


def latex(text: str) -> str:
    """A text as LaTeX prints it, letter by letter."""
    return "".join(_LATEX.get(letter, letter) for letter in text)


def _entry(
    entry: Entry,
    escape: Callable[[str], str],
    bold: Callable[[str], str],
    marks: Callable[[tuple[str, ...]], str],
    between: str,
) -> str:
    if entry == Entry():
        return escape(NOTHING)
    ours = escape(entry.ours or entry.instead)
    ours = (bold(ours) if entry.best else ours) + marks(entry.marks)
    if not entry.paper:
        return ours
    paper = escape(entry.paper)
    return ours + between + (bold(paper) if entry.paper_best else paper)


def _html_entry(entry: Entry, two: bool) -> str:
    ours = (
        html.escape(entry.ours) if entry.ours else f'<span class="gone">{html.escape(entry.instead or NOTHING)}</span>'
    )
    ours = "<td>" + (f"<b>{ours}</b>" if entry.best else ours) + _html_marks(entry.marks)
    if not two:
        return ours
    paper = html.escape(entry.paper)
    paper = f"<b>{paper}</b>" if entry.paper_best else paper
    return f'{ours}<td class="paper">{f"/ {paper}" if paper else ""}'


def _html_words(text: str) -> str:
    """A paragraph of Markdown, as far as it is used here: what is between back-ticks is code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", html.escape(text))


def _md(text: str) -> str:
    for letter in ("|", "*", "_", "<"):
        text = text.replace(letter, f"\\{letter}")
    return text


def _md_marks(marks: tuple[str, ...]) -> str:
    return f"<sup>{','.join(marks)}</sup>" if marks else ""


_html_marks = _md_marks


def _latex_marks(marks: tuple[str, ...]) -> str:
    return f"$^{{{','.join(marks)}}}$" if marks else ""
