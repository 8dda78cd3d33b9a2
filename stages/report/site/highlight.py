"""Source text as lines of HTML with its syntax marked, by Pygments."""

from __future__ import annotations

from functools import cache

from markupsafe import Markup, escape
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexer import Lexer
from pygments.lexers import get_lexer_by_name

LANGUAGES = {
    ".sql": "sql+jinja",
    ".yml": "yaml+jinja",
    ".yaml": "yaml+jinja",
    ".py": "python",
    ".json": "json",
    ".toml": "toml",
    ".sh": "bash",
}
LONGEST = 60_000
"""Characters beyond which a text is shown plain."""
LONGEST_LINE = 1_000
"""Longer lines are no source that anyone reads, and slow for the lexers."""


@cache
def _lexer(name: str) -> Lexer:
    return get_lexer_by_name(name, stripnl=False, ensurenl=True)


_FORMATTER: HtmlFormatter[str] = HtmlFormatter(nowrap=True, classprefix="h-")


def language(name: str) -> str | None:
    """The language of a file, by its name."""
    suffix = name[name.rfind(".") :].lower() if "." in name else ""
    return LANGUAGES.get(suffix)


def lines(text: str, lexer: str | None) -> list[Markup]:
    """Each line of `text`, escaped and, where the language is known, marked.

    Line ends must be newlines. As many lines come out as `str.split("\\n")` gives.
    """
    plain = text.split("\n")
    too_long = len(text) > LONGEST or any(len(line) > LONGEST_LINE for line in plain)
    if lexer is None or too_long:
        return [escape(line) for line in plain]
    marked = highlight(text, _lexer(lexer), _FORMATTER).split("\n")
    if not text.endswith("\n") and marked and marked[-1] == "":
        marked.pop()
    if len(marked) != len(plain):
        return [escape(line) for line in plain]
    return [Markup(line) for line in marked]  # Pygments has escaped it


def block(text: str, lexer: str | None) -> Markup:
    """A whole text, for a `pre` element."""
    return Markup("\n").join(lines(text, lexer))
