"""What the site takes from the program itself: the commands, each by its own help. And equations without a network."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer
from docutils import nodes
from docutils.parsers.rst import Directive
from docutils.utils.math.latex2mathml import tex2mathml
from pygments.lexers.special import TextLexer

from selc.cli import app as program

if TYPE_CHECKING:
    from sphinx.application import Sphinx


def commands() -> dict[str, Any]:
    """Every command by the words that call it, those of groups included."""
    found: dict[str, Any] = {}

    def walk(words: str, command: Any) -> None:
        if hasattr(command, "commands"):
            for name, inner in sorted(command.commands.items()):
                walk(f"{words} {name}", inner)
        elif not command.hidden:
            found[words] = command

    walk("selc", typer.main.get_command(program))
    return found


class Commands(Directive):
    """A section for each command: what it does, its arguments and its options."""

    def run(self) -> list[nodes.Node]:
        return [_section(words, command) for words, command in commands().items()]


def _section(words: str, command: Any) -> nodes.section:
    section = nodes.section(ids=[nodes.make_id(words)])
    section += nodes.title("", words)
    for paragraph in (command.help or "").split("\n\n"):
        section += _text(" ".join(paragraph.split()))
    context = typer.Context(command, info_name=words)
    usage = " ".join([words, *command.collect_usage_pieces(context)])
    section += nodes.literal_block(usage, usage)
    rows = [row for parameter in command.params if (row := _row(parameter, context))]
    section += _table(rows)
    return section


def _row(parameter: Any, context: typer.Context) -> tuple[str, str] | None:
    if getattr(parameter, "hidden", False):
        return None
    record = parameter.get_help_record(context)
    if record is not None:
        return str(record[0]), str(record[1])
    return parameter.make_metavar(context), getattr(parameter, "help", "") or ""


def _table(rows: list[tuple[str, str]]) -> nodes.table:
    table, group, body = nodes.table(), nodes.tgroup(cols=2), nodes.tbody()
    group += [nodes.colspec(colwidth=1), nodes.colspec(colwidth=2), body]
    for name, text in rows:
        row = nodes.row()
        row += nodes.entry("", nodes.paragraph("", "", nodes.literal(name, name)))
        row += nodes.entry("", _text(text))
        body += row
    table += group
    return table


def _text(words: str) -> nodes.paragraph:
    """A paragraph in which what stands between backticks is code."""
    parts = words.split("`")
    kinds = [nodes.literal if place % 2 else nodes.Text for place in range(len(parts))]
    pieces = [kind(part) if kind is nodes.Text else kind(part, part) for kind, part in zip(kinds, parts, strict=True)]
    return nodes.paragraph("", "", *pieces)


def _inline_math(writer: Any, node: nodes.math) -> None:
    """As MathML, which browsers show by themselves: the pages are read without a network."""
    writer.body.append(tex2mathml(node.astext(), as_block=False))
    raise nodes.SkipNode


def _math(writer: Any, node: nodes.math_block) -> None:
    writer.body.append(f'<div class="math">{tex2mathml(node.astext(), as_block=True)}</div>')
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("selc-commands", Commands)
    app.add_html_math_renderer("mathml", (_inline_math, None), (_math, None))
    app.add_lexer("mermaid", TextLexer)  # shown as its text, which is made to be read
    return {"parallel_read_safe": True}
