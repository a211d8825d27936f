"""Files of images into pixels: the function, and the program that a worker process runs.

It imports nothing of selc and no torch, so that a worker starts in a tenth of a second; and it is a program of its own
instead of a `multiprocessing` one, so that the script of a user is not run again in every worker.

A request is a line of JSON, followed by the bytes of the items that are no files; the answer is a line of JSON,
followed by the pixels unless they were written to a file. The end of the input ends the program.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import signal
import stat
import sys
import warnings
from collections.abc import Sequence
from functools import lru_cache
from typing import IO, Any, Literal, NamedTuple

import numpy as np

Resize = Literal["stretch", "shorter"]
Item = str | bytes  # the path of a file, or what is in it
Array = np.ndarray[Any, np.dtype[np.uint8]]

# What the bytes may be, whatever the name says. Not all that Pillow knows: some formats run other programs.
FORMATS = ("JPEG", "PNG", "GIF", "BMP", "WEBP", "TIFF", "PPM", "AVIF")
ORIENTATION = 0x0112  # the tag of EXIF
# Beside Pillow's limit: pixels that any file may have, and those for each of its bytes that it may have beyond that. A
# JPEG may have all of Pillow's, for a large one is decoded small.
PLAIN_PIXELS, PIXELS_PER_BYTE = 32_000_000, 10
# A JPEG is decoded at 1/2, 1/4 or 1/8 of its size where that leaves at least this many times the pixels needed.
SPARE = 2.0


class Found(NamedTuple):
    """What decoding some items showed."""

    bad: list[tuple[int, str]]  # (position, why it cannot be read)
    smallest: tuple[int, int]  # height and width of the images before they were resized, each on its own
    largest: tuple[int, int]
    marks: Sequence[int] = ()  # of the bytes of each item, where that was asked: the same for the same bytes


class BadImageError(Exception):
    """An image that cannot be read, and why in a few words."""


def decode_all(items: Sequence[Item], out: Array, resize: Resize, *, marked: bool = False) -> Found:
    """Decode ``items`` into ``out`` [N, H, W, 3]; the rows of those that cannot be read are zero."""
    from PIL import Image

    bad, sizes, marks = [], [], []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # odd metadata does no harm to pixels
        warnings.simplefilter("error", Image.DecompressionBombWarning)
        for row, item in enumerate(items):
            data = b""
            try:
                data = item if isinstance(item, bytes) else read(item)
                pixels, size = decode(data, out.shape[1:3], resize)
            except Exception as error:  # whatever a broken file provokes in a decoder, it is the file that is bad
                out[row] = 0
                bad.append((row, why(error)))
            else:
                out[row] = pixels
                sizes.append(size)
            if marked:
                marks.append(mark(data))
    heights, widths = zip(*sizes, strict=True) if sizes else ((0,), (0,))
    return Found(bad, (min(heights), min(widths)), (max(heights), max(widths)), marks)


def mark(data: bytes) -> int:
    """A number of 63 bits for what a file holds; two of a million different files share one once in 10 million sets."""
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "big") >> 1


def read(path: str) -> bytes:
    if not stat.S_ISREG(os.stat(path).st_mode):  # a pipe or a device may never end
        raise BadImageError("it is no regular file")
    with open(path, "rb") as file:
        return file.read()


def decode(data: bytes, size: tuple[int, ...], resize: Resize) -> tuple[Array, tuple[int, int]]:
    """The pixels [H, W, 3] of ``size``, and the height and width that the image had."""
    if not data:
        raise BadImageError("the file is empty")
    image = _fast_jpeg(data, size) if data[:2] == b"\xff\xd8" else None
    if image is None:
        image = _by_pillow(data, size)
    pixels, full = image
    return resized(pixels, size, resize), full


def _fast_jpeg(data: bytes, size: tuple[int, ...]) -> tuple[Array, tuple[int, int]] | None:
    """A JPEG by simplejpeg: the same pixels as by Pillow, many times faster. None: leave it to Pillow."""
    simplejpeg = _simplejpeg()
    if simplejpeg is None:
        return None
    try:
        height, width, colours, _ = simplejpeg.decode_jpeg_header(data)
        if colours not in ("YCbCr", "Gray", "RGB"):
            return None
        _refuse_bomb(height, width)
        scale = _scale(height, width, size)
        pixels: Array = simplejpeg.decode_jpeg(
            data, min_height=-(-height // scale), min_width=-(-width // scale), min_factor=scale
        )
    except ValueError:  # broken, or only odd: Pillow decides, so that it makes no difference which one is there
        return None
    turn = _jpeg_orientation(data)
    return upright(pixels, turn), (width, height) if turn > 4 else (height, width)


def _by_pillow(data: bytes, size: tuple[int, ...]) -> tuple[Array, tuple[int, int]]:
    from PIL import Image

    with Image.open(io.BytesIO(data), formats=readable_formats()) as image:
        width, height = image.size
        _refuse_bomb(height, width)
        if image.format not in ("JPEG", "MPO") and height * width > max(PLAIN_PIXELS, PIXELS_PER_BYTE * len(data)):
            raise BadImageError(
                f"{len(data)} bytes of it unpack to {height * width / 1e6:.0f} megapixels; make it smaller"
            )
        turn = int(image.getexif().get(ORIENTATION, 1))
        if image.format in ("JPEG", "MPO"):
            scale = _scale(height, width, size)
            image.draft(None, (width // scale, height // scale))
        pixels = rgb(image)
    return upright(pixels, turn), (width, height) if turn > 4 else (height, width)


def rgb(image: Any) -> Array:
    """A Pillow image as bytes [H, W, 3]: grey in all three, 16 bits by their upper byte, transparency over white."""
    from PIL import Image

    if image.mode.startswith("I"):
        deep = np.asarray(image)
        if deep.min() < 0 or deep.max() > 0xFFFF:
            raise BadImageError("it has 32 bits per pixel; save it with 8 or 16")
        return np.repeat((deep >> 8).astype(np.uint8)[:, :, None], 3, axis=2)
    if image.mode == "F":
        raise BadImageError("it has fractions as pixels; save it with 8 or 16 bits")
    if image.mode in ("RGBA", "LA", "PA", "RGBa", "La") or "transparency" in image.info:
        seen = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", seen.size, "white"), seen)
    return np.asarray(image.convert("RGB"))


def upright(pixels: Array, turn: int) -> Array:
    """Turned as EXIF's orientation says that the camera was held: 2 to 8; anything else is left as it is."""
    if turn in (5, 6, 7, 8):
        pixels = pixels.transpose(1, 0, 2)
    if turn in (2, 3, 6, 7):
        pixels = pixels[:, ::-1]
    if turn in (3, 4, 7, 8):
        pixels = pixels[::-1]
    return pixels


def resized(pixels: Array, size: tuple[int, ...], resize: Resize) -> Array:
    """``stretch`` takes the whole image; ``shorter`` keeps its proportions and takes the middle."""
    from PIL import Image

    (height, width), (H, W) = pixels.shape[:2], size
    if (height, width) == (H, W):
        return pixels
    box = None
    if resize == "shorter":
        scale = max(H / height, W / width)
        left, top = (width - W / scale) / 2, (height - H / scale) / 2
        box = (max(0.0, left), max(0.0, top), min(float(width), width - left), min(float(height), height - top))
    image = Image.fromarray(np.ascontiguousarray(pixels))
    return np.asarray(image.resize((W, H), Image.Resampling.BILINEAR, box, reducing_gap=SPARE))


def _scale(height: int, width: int, size: tuple[int, ...]) -> int:
    """1, 2, 4 or 8: by how much a JPEG may be decoded smaller and still be larger than needed."""
    least, need = min(height, width), SPARE * max(size)
    return next((scale for scale in (8, 4, 2) if least / scale >= need), 1)


def _jpeg_orientation(data: bytes) -> int:
    """EXIF's orientation from the head of a JPEG, 1 if there is none."""
    place = 2
    while data[place : place + 1] == b"\xff" and data[place + 1 : place + 2] != b"\xda":  # up to the start of the scan
        length = int.from_bytes(data[place + 2 : place + 4], "big")
        if data[place + 1] == 0xE1 and data[place + 4 : place + 10] == b"Exif\0\0":
            from PIL import Image

            exif = Image.Exif()
            exif.load(data[place + 4 : place + 2 + length])
            return int(exif.get(ORIENTATION, 1))
        place += 2 + length
    return 1


def _refuse_bomb(height: int, width: int) -> None:
    """Pillow's limit also where Pillow is not asked: a small file that would fill the memory."""
    from PIL import Image

    if Image.MAX_IMAGE_PIXELS is not None and height * width > Image.MAX_IMAGE_PIXELS:
        raise BadImageError(
            f"it unpacks to {height * width / 1e6:.0f} megapixels, and Pillow's limit is "
            f"{Image.MAX_IMAGE_PIXELS / 1e6:.0f}"
        )


@lru_cache(maxsize=1)
def readable_formats() -> tuple[str, ...]:
    """Those of the formats that this Pillow can read."""
    from PIL import Image

    Image.init()
    return tuple(kind for kind in FORMATS if kind in Image.OPEN)


@lru_cache(maxsize=1)
def _simplejpeg() -> Any:
    try:
        import simplejpeg
    except ImportError:
        return None
    return simplejpeg


def why(error: Exception) -> str:
    """An error of a decoder in a few words."""
    from PIL import Image, UnidentifiedImageError

    if isinstance(error, BadImageError):
        return str(error)
    if isinstance(error, FileNotFoundError):
        return "there is no such file"
    if isinstance(error, UnidentifiedImageError):
        return "it is no image of a known format"
    if isinstance(error, Image.DecompressionBombWarning | Image.DecompressionBombError):
        return f"it unpacks to more than Pillow's limit of {(Image.MAX_IMAGE_PIXELS or 0) / 1e6:.0f} megapixels"
    if "truncated" in str(error).lower():
        return "it is cut off"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    return f"it is broken: {error or type(error).__name__}"


def size_of(item: Item) -> tuple[int, int] | None:
    """Height and width from the head of an image, None if that cannot be read."""
    from PIL import Image

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            if not isinstance(item, bytes) and not stat.S_ISREG(os.stat(item).st_mode):
                return None
            with Image.open(io.BytesIO(item) if isinstance(item, bytes) else item, formats=readable_formats()) as image:
                width, height = image.size
                sideways = int(image.getexif().get(ORIENTATION, 1)) > 4
        except Exception:  # why it is bad is said when it is decoded
            return None
    return (width, height) if sideways else (height, width)


def answer(request: dict[str, Any], items: Sequence[Item]) -> tuple[dict[str, Any], Array | None]:
    """Carry out a request; the pixels are returned unless they go to a file, or nowhere."""
    out = np.empty((len(items), *request["size"], 3), dtype=np.uint8)
    # Each file is looked at once before the training; what is decoded for a batch later is known already.
    found = decode_all(items, out, request["resize"], marked=request["to"] != "caller")
    about = {"bad": found.bad, "smallest": found.smallest, "largest": found.largest, "marks": found.marks}
    if request["to"] == "caller":
        return about, out
    if request["to"] == "file":
        with open(request["path"], "r+b", buffering=0) as file:
            file.seek(request["offset"])
            left = out.data.cast("B")
            while left:  # a write may stop short, on a disk that is nearly full
                left = left[file.write(left) :]
    return about, None


def serve(requests: IO[bytes], answers: IO[bytes]) -> None:
    """Answer until the input ends."""
    while line := requests.readline():
        request = json.loads(line)
        items = [item if isinstance(item, str) else requests.read(item) for item in request["items"]]
        try:
            about, pixels = answer(request, items)
        except Exception as error:  # a full disk, no memory: whoever asked says so
            about, pixels = {"error": str(error) or type(error).__name__}, None
        answers.write(json.dumps(about).encode() + b"\n")
        if pixels is not None:
            answers.write(pixels.data.cast("B"))
        answers.flush()


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the main process is told, and ends the input
    serve(sys.stdin.buffer, sys.stdout.buffer)
