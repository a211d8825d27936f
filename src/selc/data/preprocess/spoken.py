"""The words of a text and what each has to do with the features that TF-IDF made of it.

A text with the weights w of its terms has the features x = w P - shift (`text_column`). For any direction g of the
features the term j adds w_j P_j g, in full and without a rest. A pair of words gives half of that to each, a run of
characters gives it to the words that it stands in, by how often it does.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from selc.data.preprocess.features import Numbers
from selc.data.preprocess.text_column import TextColumn, analyzers, term_weights

SIGNS = "\"'`.,;:!?()[]{}<>*_/\\-–—…“”‘’«»"  # around a word, which are no part of what is shown


def word_weights(column: TextColumn, text: str, directions: Numbers) -> dict[str, Numbers]:
    """What each word of a text adds along ``directions`` [D] or [D, E]; the sum over words is w P g."""
    weights = term_weights(column, [text])
    named = (*column.words.names, *column.characters.names)
    added = {
        (place < len(column.words.names), named[place]): value * (column.projection[place] @ directions)
        for place, value in zip(weights.indices.tolist(), weights.data.tolist(), strict=True)
    }
    words, characters = analyzers()
    parts: dict[str, Any] = defaultdict(float)
    for term, shares in _where(text, words, characters).items():
        if term in added:
            total = sum(shares.values())
            for word, share in shares.items():
                parts[word] = parts[word] + added[term] * (share / total)
    return dict(parts)


def _where(
    text: str, words: Callable[[str], Sequence[str]], characters: Callable[[str], Sequence[str]]
) -> Mapping[tuple[bool, str], Counter[str]]:
    """How often each term stands in each word: (whether it is of words, the term)."""
    found: dict[tuple[bool, str], Counter[str]] = defaultdict(Counter)
    before = ""
    last = ""
    for piece in text.lower().split():
        shown = piece.strip(SIGNS) or piece
        for term in characters(piece):
            found[False, term][shown] += 1
        for word in words(piece):
            found[True, word][shown] += 1
            if before:
                for one in (last, shown):
                    found[True, f"{before} {word}"][one] += 1
            before, last = word, shown
    return found
