"""Free text as numbers: TF-IDF of words and of characters, and of both the directions in which texts differ most.

A text is the counts of its words and pairs of words, and of the runs of three to five characters within its words (so
that endings and misspellings count). Each kind becomes TF-IDF, a row of length one,

    w = (1 + log count) (1 + log((1 + N) / (1 + documents with the term))),

and a truncated singular value decomposition of both, X = U S V', gives at most 100 features X V (latent semantic
analysis). They are moved to mean zero and divided by one number, so that their variance is one on the average: the
strong directions stay the strong ones, and noise is not blown up to their size. What was learnt is plain data: terms,
their weights, and V.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from selc.data.extras import sklearn_part
from selc.data.preprocess.features import Numbers
from selc.data.preprocess.labels import Where
from selc.data.sources.csv_table import is_number
from selc.data.sources.hints import dropping
from selc.errors import InputError

Documents = np.ndarray[Any, np.dtype[np.object_]]  # texts of any length, "" for none
Sparse = Any  # a matrix of scipy in rows
Kind = Literal["words", "characters"]

COMPONENTS = 100  # features of a column of text, at most
ROWS_EACH = 4  # rows for each of them, at least: with more, few texts are all equally far from each other
TERMS = 20_000  # of each kind, at most: the most frequent
FEWEST = 2  # texts that a term must stand in: what stands in one says nothing of another
LONG = 5  # words of the median cell, from which on a column is text and no name
SMALL_TABLE = 20  # rows below which a column must differ in every row to be a name or a text, and no category
NEGLIGIBLE = 1e-6  # of the largest singular value: directions below it are rounding
_WORD = r"\b\w+\b"
_LETTERS = re.compile(r"[^\W\d_]+")


@dataclass(frozen=True)
class Terms:
    """The terms of one kind that count, with the weight of each."""

    names: tuple[str, ...]
    idf: Numbers


@dataclass(frozen=True)
class TextColumn:
    """A column of free text: its terms, and how their weights become features."""

    name: str
    words: Terms
    characters: Terms
    projection: np.ndarray[Any, np.dtype[np.float32]]  # [terms, D]: of words, then of characters
    shift: Numbers  # [D]

    @property
    def width(self) -> int:
        return len(self.shift)

    @classmethod
    def learnt(cls, name: str, texts: Documents) -> tuple[TextColumn, Numbers]:
        """The column of training rows, and what it makes of them."""
        counts = {kind: _every_term(texts, kind) for kind in ("words", "characters")}
        kept = {kind: _frequent(*found) for kind, found in counts.items()}
        terms = {kind: Terms(names, _idf(some)) for kind, (some, names) in kept.items()}
        weights = _side_by_side([_tf_idf(kept[kind][0], terms[kind].idf) for kind in kept])
        projection, shift = _directions(name, weights)
        column = cls(name, terms["words"], terms["characters"], projection, shift)
        return column, column._project(weights)

    def apply(self, texts: Documents) -> Numbers:
        """Features [N, D]; a text without a known term is as far from one class as from another."""
        return self._project(term_weights(self, texts))

    def _project(self, weights: Sparse) -> Numbers:
        return np.asarray(weights @ self.projection, dtype=np.float64) - self.shift

    @property
    def what(self) -> str:
        terms = len(self.words.names) + len(self.characters.names)
        return f"{self.width} features from its words and characters (TF-IDF of {terms:,} terms, truncated SVD)"

    def state(self) -> dict[str, Any]:
        """What of it is text, as JSON."""
        return {"name": self.name, "words": list(self.words.names), "characters": list(self.characters.names)}

    def arrays(self) -> dict[str, np.ndarray[Any, Any]]:
        """What of it is numbers."""
        idf = {"words": self.words.idf, "characters": self.characters.idf}
        return {**idf, "projection": self.projection, "shift": self.shift}

    @classmethod
    def from_state(cls, state: Mapping[str, Any], arrays: Mapping[str, np.ndarray[Any, Any]]) -> TextColumn:
        words, characters = (Terms(tuple(state[kind]), arrays[kind]) for kind in ("words", "characters"))
        return cls(str(state["name"]), words, characters, arrays["projection"], arrays["shift"])


def term_weights(column: TextColumn, texts: Documents | Sequence[str]) -> Sparse:
    """The weights [N, terms] of the terms that count: of words, then of characters."""
    kinds: tuple[tuple[Kind, Terms], ...] = (("words", column.words), ("characters", column.characters))
    return _side_by_side([_tf_idf(_known_terms(texts, kind, terms.names), terms.idf) for kind, terms in kinds])


def analyzers() -> tuple[Callable[[str], Sequence[str]], Callable[[str], Sequence[str]]]:
    """What finds the words of a text, and the runs of characters of a word."""
    words = _vectorizer("words")
    words.ngram_range = (1, 1)
    return words.build_analyzer(), _vectorizer("characters").build_analyzer()


# Which columns are text


def is_free_text(cells: Sequence[str]) -> bool:
    """Whether cells are texts to be read: mostly different, and sentences more often than names."""
    there = [cell for cell in cells if cell.strip()]
    rows, different = len(cells), len(set(there))
    if not (2 * different > rows if rows >= SMALL_TABLE else 2 < rows == different):
        return False
    return float(np.median([len(_LETTERS.findall(cell)) for cell in there])) >= LONG


def as_documents(name: str, cells: Sequence[str], where: Where) -> Documents:
    """The cells of a column of text; numbers alone are none, and neither are empty cells alone."""
    there = [row for row, cell in enumerate(cells) if cell.strip()]
    if not there:
        raise InputError(f"column {name!r} must hold a text in some row; got none. Fill it in, or leave it out.")
    if all(is_number(cells[row]) for row in there):
        raise InputError(
            f"column {name!r} must hold texts; got numbers, such as {cells[there[0]].strip()[:40]!r} "
            f"{where(there[0])}. Is another column the text (--text-column)?"
        )
    documents: Documents = np.empty(len(cells), dtype=object)
    documents[:] = list(cells)
    return documents


# Terms and their weights


def _vectorizer(kind: Kind, **options: Any) -> Any:
    text = sklearn_part("a column of text", "feature_extraction.text")
    if kind == "words":
        return text.CountVectorizer(ngram_range=(1, 2), token_pattern=_WORD, **options)
    return text.CountVectorizer(analyzer="char_wb", ngram_range=(3, 5), **options)


def _every_term(texts: Documents, kind: Kind) -> tuple[Sparse, np.ndarray[Any, Any]]:
    """How often each term stands in each text, and the terms."""
    vectorizer = _vectorizer(kind)
    try:
        counts = _counted(texts, kind, vectorizer.fit_transform)
    except ValueError:  # nothing but signs
        return _nothing(len(texts)), np.array([], dtype=object)
    return counts, vectorizer.get_feature_names_out()


def _known_terms(texts: Documents | Sequence[str], kind: Kind, names: Sequence[str]) -> Sparse:
    """How often each of the terms stands in each text."""
    if not names:
        return _nothing(len(texts))
    return _counted(texts, kind, _vectorizer(kind, vocabulary=names).transform)


def _counted(texts: Documents | Sequence[str], kind: Kind, count: Any) -> Sparse:
    """Counts [N, terms] by ``count``. Characters within words are counted once for each different word."""
    if kind == "words":
        return count(texts)
    text = sklearn_part("a column of text", "feature_extraction.text")
    splitter = text.CountVectorizer(analyzer=lambda document: document.lower().split())
    # One more word than there are, so that texts may all be empty.
    in_texts = splitter.fit_transform([*texts, "-"])[:-1]
    return in_texts @ count(splitter.get_feature_names_out())


def _nothing(rows: int) -> Sparse:
    from scipy.sparse import csr_matrix

    return csr_matrix((rows, 0))


def _frequent(counts: Sparse, names: np.ndarray[Any, Any]) -> tuple[Sparse, tuple[str, ...]]:
    """The terms that stand in several texts, of these the most frequent, by name."""
    enough = np.flatnonzero(_documents(counts) >= FEWEST)
    total = np.asarray(counts.sum(axis=0)).ravel()[enough]
    kept = np.sort(enough[np.argsort(-total, kind="stable")[:TERMS]])
    return counts[:, kept], tuple(map(str, names[kept]))


def _documents(counts: Sparse) -> Numbers:
    """The number of texts that each term stands in."""
    return np.bincount(counts.indices, minlength=counts.shape[1]).astype(np.float64)


def _idf(counts: Sparse) -> Numbers:
    idf: Numbers = 1 + np.log((1 + counts.shape[0]) / (1 + _documents(counts)))
    return idf


def _tf_idf(counts: Sparse, idf: Numbers) -> Sparse:
    weights = counts.tocsr().astype(np.float64)
    weights.data = (1 + np.log(weights.data)) * idf[weights.indices]
    length = np.sqrt(np.asarray(weights.multiply(weights).sum(axis=1)).ravel())
    weights.data /= np.repeat(np.where(length > 0, length, 1.0), np.diff(weights.indptr))
    return weights


def _side_by_side(parts: Sequence[Sparse]) -> Sparse:
    from scipy.sparse import hstack

    return hstack(parts, format="csr")


def _directions(name: str, weights: Sparse) -> tuple[np.ndarray[Any, np.dtype[np.float32]], Numbers]:
    """What weights [N, terms] are multiplied by, [terms, D], and what is then subtracted."""
    rows, terms = weights.shape
    if terms < 2:
        raise InputError(
            f"the texts of column {name!r} must share words; got none that stands in {FEWEST} of {rows} rows. "
            f"Leave the column out ({dropping([name])})."
        )
    count = max(1, min(COMPONENTS, rows // ROWS_EACH, terms - 1))
    svd = sklearn_part("a column of text", "decomposition").TruncatedSVD(count, algorithm="arpack", random_state=0)
    with np.errstate(divide="ignore", invalid="ignore"):  # it divides by the variance of all, which may be none
        made = svd.fit_transform(weights)
    std = made.std(axis=0)
    kept = std > NEGLIGIBLE * svd.singular_values_.max() / np.sqrt(rows)
    if not kept.any():
        raise InputError(
            f"the texts of column {name!r} must differ; got {rows} with the same words. "
            f"Leave the column out ({dropping([name])})."
        )
    scale = np.sqrt((std[kept] ** 2).mean())
    projection = svd.components_[kept].T / scale
    return np.ascontiguousarray(projection, dtype=np.float32), made[:, kept].mean(axis=0) / scale
