"""Listed images as a dataset: decoded, without what is bad, with one size and one set of classes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from selc.data.base import Bundle
from selc.data.preprocess.imagery import Images, Reading, size_for
from selc.data.sources.bundling import bundle_of
from selc.data.sources.listing import Listing
from selc.data.sources.originals import original_pictures


def image_bundle(train: Listing, others: Mapping[str, Listing], how: Reading, notes: Sequence[str] = ()) -> Bundle:
    """Images as a dataset; ``others``, test sets and "val", are resized and normalised like the training images."""
    side, resize = size_for(train.items, how)
    seen = replace(train, pictures=original_pictures(train.items, train.names))
    return bundle_of(
        seen,
        others,
        lambda listing: Images.learnt(listing, side, resize, how),
        skip_bad=how.skip_bad,
        notes=notes,
    )
