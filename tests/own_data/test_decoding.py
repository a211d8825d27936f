"""One image: whatever it is stored as, it becomes upright RGB bytes of the size asked for."""

from __future__ import annotations

import io
import struct
import zlib
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageOps

from selc.data.image_cache import worker
from selc.data.image_cache.worker import BadImageError, Resize, decode
from tests.own_data.miniature import Array, encoded, picture


def smooth(height: int, width: int, seed: int = 0) -> Array:
    """A picture that survives JPEG and resizing."""
    rng = np.random.default_rng(seed)
    small = Image.fromarray(rng.integers(0, 256, (5, 6, 3), dtype=np.uint8))
    return np.asarray(small.resize((width, height), Image.Resampling.BICUBIC))


def stored(image: Image.Image, kind: str, **options: Any) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


@pytest.mark.parametrize("kind", ["PNG", "BMP", "GIF", "TIFF", "PPM", "WEBP"])
def test_a_format_without_loss_gives_the_pixels_that_were_saved(kind: str) -> None:
    grey = np.arange(48, dtype=np.uint8).reshape(6, 8)  # few colours, which a GIF can hold
    pixels = np.stack([grey] * 3, axis=2)
    options = {"lossless": True} if kind == "WEBP" else {}
    found, size = decode(stored(Image.fromarray(pixels), kind, **options), (6, 8), "stretch")
    assert np.array_equal(found, pixels)
    assert size == (6, 8)


@pytest.mark.parametrize("subsampling", [0, 2])
@pytest.mark.parametrize("progressive", [False, True])
@pytest.mark.parametrize("shape", [(40, 40), (61, 83), (333, 401), (900, 700)])
@pytest.mark.parametrize("resize", ["stretch", "shorter"])
def test_a_jpeg_is_the_same_with_and_without_simplejpeg(
    subsampling: int, progressive: bool, shape: tuple[int, int], resize: Resize, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = encoded(smooth(*shape), "JPEG", quality=90, subsampling=subsampling, progressive=progressive)
    assert worker._simplejpeg() is not None
    fast, size = decode(data, (40, 40), resize)
    monkeypatch.setattr(worker, "_simplejpeg", lambda: None)
    slow, slow_size = decode(data, (40, 40), resize)
    assert np.array_equal(fast, slow)
    assert size == slow_size == shape


def test_a_jpeg_of_the_right_size_is_what_pillow_makes_of_it() -> None:
    data = encoded(smooth(32, 32), "JPEG", quality=85)
    assert np.array_equal(decode(data, (32, 32), "stretch")[0], np.asarray(Image.open(io.BytesIO(data)).convert("RGB")))


@pytest.mark.parametrize("turn", range(1, 9))
@pytest.mark.parametrize("kind", ["JPEG", "PNG"])
def test_photographs_stand_upright_as_pillow_turns_them(turn: int, kind: str) -> None:
    image = Image.fromarray(smooth(24, 36))
    exif = Image.Exif()
    exif[0x0112] = turn
    data = stored(image, kind, exif=exif)
    expected = ImageOps.exif_transpose(Image.open(io.BytesIO(data))).convert("RGB")
    found, size = decode(data, (expected.height, expected.width), "stretch")
    assert np.array_equal(found, np.asarray(expected))
    assert size == (expected.height, expected.width)
    assert worker.size_of(data) == size


def test_grey_images_have_the_same_value_in_all_channels() -> None:
    grey = np.random.default_rng(0).integers(0, 256, (7, 9), dtype=np.uint8)
    found, _ = decode(stored(Image.fromarray(grey), "PNG"), (7, 9), "stretch")
    assert np.array_equal(found, np.repeat(grey[:, :, None], 3, axis=2))
    jpeg = stored(Image.fromarray(grey), "JPEG")
    assert np.array_equal(decode(jpeg, (7, 9), "stretch")[0][:, :, 1], np.asarray(Image.open(io.BytesIO(jpeg))))


def test_black_and_white_images_are_black_and_white() -> None:
    bits = np.random.default_rng(0).random((7, 9)) < 0.5
    found, _ = decode(stored(Image.fromarray(bits), "PNG"), (7, 9), "stretch")
    assert np.array_equal(found[:, :, 0], np.where(bits, 255, 0))


@pytest.mark.parametrize("alpha", [0, 64, 255])
def test_transparent_images_lie_on_white(alpha: int) -> None:
    """a c + (1 - a) 255, up to the rounding of 8 bits."""
    pixels = np.random.default_rng(0).integers(0, 256, (5, 5, 4), dtype=np.uint8)
    pixels[:, :, 3] = alpha
    found, _ = decode(stored(Image.fromarray(pixels), "PNG"), (5, 5), "stretch")
    expected = alpha / 255 * pixels[:, :, :3] + (1 - alpha / 255) * 255
    assert np.abs(found - expected).max() <= 1


def test_grey_with_alpha_and_palettes_with_transparency_lie_on_white_too() -> None:
    grey = np.full((4, 4, 2), 90, dtype=np.uint8)
    grey[0, :, 1], grey[1:, :, 1] = 0, 255
    found, _ = decode(stored(Image.fromarray(grey), "PNG"), (4, 4), "stretch")
    assert (found[0] == 255).all()
    assert (found[1:] == 90).all()
    palette = Image.fromarray(np.array([[0, 1], [1, 1]], dtype=np.uint8), mode=None).convert("P")
    palette.putpalette([10, 20, 30, 40, 50, 60])
    found, _ = decode(stored(palette, "PNG", transparency=0), (2, 2), "stretch")
    assert found.tolist() == [[[255, 255, 255], [40, 50, 60]], [[40, 50, 60], [40, 50, 60]]]


def test_sixteen_bits_keep_their_upper_byte() -> None:
    deep = (np.arange(36, dtype=np.uint16) * 1800).reshape(6, 6)
    found, _ = decode(stored(Image.fromarray(deep), "PNG"), (6, 6), "stretch")
    assert np.array_equal(found[:, :, 2], deep // 256)
    found, _ = decode(stored(Image.fromarray(deep), "TIFF"), (6, 6), "stretch")
    assert np.array_equal(found[:, :, 0], deep // 256)


def test_printing_colours_become_rgb_as_pillow_converts_them() -> None:
    ink = Image.fromarray(np.random.default_rng(0).integers(0, 256, (8, 8, 4), dtype=np.uint8), "CMYK")
    data = stored(ink, "JPEG", quality=95)
    expected = np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))
    assert np.array_equal(decode(data, (8, 8), "stretch")[0], expected)


def test_the_bytes_decide_and_not_the_ending_of_the_name() -> None:
    pixels = picture("red", 0)
    assert np.array_equal(decode(encoded(pixels, "PNG"), (10, 10), "stretch")[0], pixels)


# Sizes


def test_stretch_takes_the_whole_image() -> None:
    """A picture whose left half is black and right half white, in half the width and double the height."""
    pixels = np.zeros((8, 32, 3), dtype=np.uint8)
    pixels[:, 16:] = 255
    found, size = decode(encoded(pixels), (16, 16), "stretch")
    assert found.shape == (16, 16, 3)
    assert size == (8, 32)
    assert (found[:, :7] == 0).all()
    assert (found[:, 9:] == 255).all()


@pytest.mark.parametrize("across", [False, True])
def test_shorter_keeps_proportions_and_takes_the_middle(across: bool) -> None:
    """Three squares beside each other: the middle one is what is left."""
    pixels = np.zeros((30, 90, 3), dtype=np.uint8)
    pixels[:, 30:60] = (10, 200, 30)
    pixels[:, 60:] = 255
    pixels = pixels.transpose(1, 0, 2) if across else pixels
    found, _ = decode(encoded(np.ascontiguousarray(pixels)), (10, 10), "shorter")
    assert (found[1:-1, 1:-1] == (10, 200, 30)).all()
    assert np.abs(found.astype(int) - (10, 200, 30)).max() < 60, "at the rim a little of the neighbours may show"


def test_shorter_of_a_square_is_stretch() -> None:
    data = encoded(smooth(50, 50))
    assert np.array_equal(decode(data, (20, 20), "shorter")[0], decode(data, (20, 20), "stretch")[0])


@pytest.mark.parametrize("shape", [(64, 64), (200, 300), (1200, 900)])
def test_resizing_is_close_to_the_average_over_the_pixels_that_it_covers(shape: tuple[int, int]) -> None:
    """Also where a JPEG is decoded at a half, a quarter or an eighth of its size first."""
    pixels = smooth(*shape)
    data = encoded(pixels, "JPEG", quality=98, subsampling=0)
    expected = np.asarray(Image.fromarray(pixels).resize((16, 16), Image.Resampling.BOX)).astype(int)
    found, _ = decode(data, (16, 16), "stretch")
    assert np.abs(found.astype(int) - expected).mean() < 3


def test_small_images_are_made_larger() -> None:
    found, _ = decode(encoded(np.full((3, 3, 3), 77, dtype=np.uint8)), (12, 12), "stretch")
    assert (found == 77).all()


# What cannot be read


def bomb() -> bytes:
    """A PNG of a few bytes that says that it has 20,000 x 20,000 pixels."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = chunk(b"IHDR", struct.pack(">IIBBBBB", 20_000, 20_000, 8, 2, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b"")


def jpeg_bomb() -> bytes:
    """A JPEG whose head says 30,000 x 30,000 pixels."""
    data = bytearray(encoded(smooth(16, 16), "JPEG"))
    frame = data.index(b"\xff\xc0")
    data[frame + 5 : frame + 9] = struct.pack(">HH", 30_000, 30_000)
    return bytes(data)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "the file is empty"),
        (b"these are words and no picture", "it is no image of a known format"),
        (encoded(smooth(64, 64), "JPEG")[:-400], "it is cut off"),
        (encoded(smooth(64, 64), "PNG")[:-400], "it is cut off"),
        (bomb(), "limit of 89 megapixels"),
        (jpeg_bomb(), "it unpacks to 900 megapixels, and Pillow's limit is 89"),
        (stored(Image.new("F", (4, 4)), "TIFF"), "it has fractions as pixels"),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n", "it is no image of a known format"),
    ],
)
def test_what_cannot_be_read_says_why_and_leaves_zeros(data: bytes, reason: str) -> None:
    good = encoded(picture("red", 1))
    out = np.full((3, 10, 10, 3), 9, dtype=np.uint8)
    found = worker.decode_all([good, data, good], out, "stretch")
    ((row, why),) = found.bad
    assert row == 1
    assert reason in why
    assert not out[1].any()
    assert np.array_equal(out[0], picture("red", 1))
    assert np.array_equal(out[2], picture("red", 1))


def test_random_damage_never_gets_past_the_reader() -> None:
    """Whatever a broken file provokes in a decoder is a reason and not a crash; half of the damage is in the head."""
    rng = np.random.default_rng(0)
    for kind in ("JPEG", "PNG", "GIF", "WEBP", "TIFF", "BMP"):
        whole = encoded(smooth(24, 24), kind)
        items = []
        for trial in range(40):
            data = bytearray(whole)
            for place in rng.integers(0, 60 if trial % 2 else len(data), 5):
                data[place] = rng.integers(256)
            items.append(bytes(data))
        out = np.empty((40, 24, 24, 3), dtype=np.uint8)
        found = worker.decode_all(items, out, "stretch")
        assert found.bad
        for row, reason in found.bad:
            assert reason
            assert not out[row].any()


def test_a_missing_file_says_so() -> None:
    out = np.empty((1, 4, 4, 3), dtype=np.uint8)
    assert worker.decode_all(["/nowhere/at/all.png"], out, "stretch").bad == [(0, "there is no such file")]


def test_the_sizes_found_are_those_before_resizing() -> None:
    items = [encoded(smooth(*shape)) for shape in ((20, 50), (30, 40), (25, 60))]
    found = worker.decode_all(items, np.empty((3, 8, 8, 3), dtype=np.uint8), "stretch")
    assert found.smallest == (20, 40)
    assert found.largest == (30, 60)


def test_an_error_of_another_kind_keeps_its_words() -> None:
    assert worker.why(BadImageError("so it is")) == "so it is"
    assert worker.why(PermissionError(13, "Permission denied")) == "permission denied"
    assert worker.why(ValueError("odd")) == "it is broken: odd"
