"""The forms of a rendered page: Markdown, HTML that needs no other file, LaTeX with booktabs."""

from __future__ import annotations

import base64
import html
from collections.abc import Callable

from selc.bench.sheet import Entry, Page

NOTHING = "–"
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
body { font: 15px/1.45 system-ui, sans-serif; margin: 2em auto; max-width: 75em; padding: 0 1em; color: #111 }
table { border-collapse: collapse; margin: .6em 0; font-variant-numeric: tabular-nums; font-size: 13px }
th, td { padding: .25em .6em; border-bottom: 1px solid #ccc; text-align: right; white-space: nowrap }
th:first-child, td:first-child { text-align: left; position: sticky; left: 0; background: #fff }
thead th { border-bottom: 2px solid #111; white-space: normal; vertical-align: bottom }
.paper, .gone { color: #666 } .wide { overflow-x: auto } figure { margin: 1.5em 0 } img { max-width: 100% }
figcaption, .notes { color: #444; font-size: 13px }
"""


def as_markdown(page: Page) -> str:
    text = [f"# {_md(page.title)}", "", page.about, "", *([page.words, ""] if page.words else [])]
    for sheet in page.sheets:
        text += [f"{'###' if sheet.small else '##'} {_md(sheet.title)}", "", _md(sheet.caption), ""]
        heads = [_md(name) + _md_marks((mark,) if mark else ()) for name, mark in sheet.columns]
        text += ["| method | " + " | ".join(heads) + " |", "|---" * (len(heads) + 1) + "|"]
        for row, entries in zip(sheet.rows, sheet.entries, strict=True):
            cells = [_entry(e, _md, lambda t: f"**{t}**", _md_marks, " / ") for e in entries]
            text.append(f"| {_md(row)} | " + " | ".join(cells) + " |")
        text += ["", *(f"{_md_marks((mark,))} {_md(note)}." + "  " for mark, note in sheet.footnotes), ""]
    for picture in page.pictures:
        text += [f"![{_md(picture.caption)}]({picture.path.name})", "", _md(picture.caption), ""]
    return "\n".join(text).rstrip() + "\n"


def as_html(page: Page) -> str:
    escape = html.escape
    parts = [
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{escape(page.title)}</title>',
        f"<style>{_STYLE}</style><h1>{escape(page.title)}</h1><p>{escape(page.about)}</p>",
    ]
    parts += [f"<p>{escape(paragraph)}</p>" for paragraph in page.words.split("\n\n") if paragraph]
    for sheet in page.sheets:
        level = 3 if sheet.small else 2
        parts.append(f"<h{level}>{escape(sheet.title)}</h{level}><p>{escape(sheet.caption)}</p>")
        heads = "".join(f"<th>{escape(name)}{_html_marks((mark,) if mark else ())}" for name, mark in sheet.columns)
        parts.append(f'<div class="wide"><table><thead><tr><th>method{heads}</thead>')
        for row, entries in zip(sheet.rows, sheet.entries, strict=True):
            cells = "".join(f"<td>{_html_entry(e)}" for e in entries)
            parts.append(f"<tr><td>{escape(row)}{cells}")
        parts.append("</table></div>")
        notes = "<br>".join(f"{_html_marks((mark,))} {escape(note)}." for mark, note in sheet.footnotes)
        parts.append(f'<p class="notes">{notes}</p>' if notes else "")
    for picture in page.pictures:
        data = base64.b64encode(picture.path.read_bytes()).decode()
        caption = escape(picture.caption)
        image = f'<img alt="{caption}" src="data:image/png;base64,{data}">'
        parts.append(f"<figure>{image}<figcaption>{caption}</figcaption></figure>")
    return "\n".join(part for part in parts if part) + "\n"


def as_latex(page: Page) -> str:
    """Each of the paper's tables as a floating table; needs the packages booktabs and graphicx."""
    text = [f"% {page.title}", f"% {page.about}", r"% \usepackage{booktabs,graphicx}", ""]
    for sheet in (sheet for sheet in page.sheets if not sheet.small):
        heads = [latex(name) + _latex_marks((mark,) if mark else ()) for name, mark in sheet.columns]
        text += [r"\begin{table*}", r"\centering", r"\resizebox{\textwidth}{!}{%"]
        text += [rf"\begin{{tabular}}{{l{'c' * len(heads)}}}", r"\toprule"]
        text += ["Method & " + " & ".join(heads) + r" \\", r"\midrule"]
        for row, entries in zip(sheet.rows, sheet.entries, strict=True):
            cells = [_entry(e, latex, lambda t: rf"\textbf{{{t}}}", _latex_marks, " / ") for e in entries]
            text.append(f"{latex(row)} & " + " & ".join(cells) + r" \\")
        notes = " ".join(f"{_latex_marks((mark,))} {latex(note)}." for mark, note in sheet.footnotes)
        text += [r"\bottomrule", r"\end{tabular}}"]
        text += [rf"\caption{{{latex(sheet.title)}. {latex(sheet.caption)}{' ' + notes if notes else ''}}}"]
        text += [r"\end{table*}", ""]
    return "\n".join(text)


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


def _html_entry(entry: Entry) -> str:
    if entry == Entry():
        return NOTHING
    ours = html.escape(entry.ours) if entry.ours else f'<span class="gone">{html.escape(entry.instead)}</span>'
    ours = (f"<b>{ours}</b>" if entry.best else ours) + _html_marks(entry.marks)
    if not entry.paper:
        return ours
    paper = html.escape(entry.paper)
    return f'{ours} <span class="paper">/ {f"<b>{paper}</b>" if entry.paper_best else paper}</span>'


def _md(text: str) -> str:
    for letter in ("|", "*", "_", "<"):
        text = text.replace(letter, f"\\{letter}")
    return text


def _md_marks(marks: tuple[str, ...]) -> str:
    return f"<sup>{','.join(marks)}</sup>" if marks else ""


_html_marks = _md_marks


def _latex_marks(marks: tuple[str, ...]) -> str:
    return f"$^{{{','.join(marks)}}}$" if marks else ""
