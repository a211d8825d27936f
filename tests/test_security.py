"""What selc does not do with files that somebody else wrote: run them, leave their folder, fill the memory."""

from __future__ import annotations

import ast
import gzip
import io
import json
import os
import struct
import sys
import tarfile
import tracemalloc
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from PIL import Image

from selc._io.array_files import read_arrays
from selc._io.files import FLOOR, in_short, read_json, read_toml
from selc._io.parquet_file import _groups, _page_sizes, read_parquet
from selc.data import DATASETS
from selc.data.image_cache.decode import image_pixels
from selc.data.preprocess.imagery import Reading
from selc.data.published.idx import read_idx
from selc.data.published.listed import ImageFiles, image_bundle
from selc.errors import ConfigError, InputError, RunFolderError
from selc.review.cleaned_tree import _targets
from selc.runs import Config, RunFolder
from selc.runs.cleaned import Cleaned
from selc.runs.new_data import Ids, new_samples
from tests.data import miniatures
from tests.tiers import exhaustive

SOURCE = Path(__file__).parents[1] / "src" / "selc"
MODULES = sorted(SOURCE.rglob("*.py"))
PICKLES = {"pickle", "cPickle", "_pickle", "dill", "cloudpickle", "joblib", "shelve", "marshal", "pickletools"}
ONE_READER = "_io/unpickled.py"  # the only file that may look at a pickle, by its instructions


# Nothing is run


def calls(tree: ast.AST) -> Iterator[tuple[int, str, ast.Call]]:
    """(line, name with its module as written, call)"""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            yield node.lineno, ast.unparse(node.func), node


def naming(word: str) -> list[Path]:
    """The files in which a word stands."""
    return [path for path in MODULES if word in path.read_text()]


def forbidden(text: str, reader: bool = False) -> list[str]:
    """What a source file may not do; ``reader`` is the one that may take a pickle apart."""
    tree, found = ast.parse(text), []
    for node in ast.walk(tree):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        wrong = [n for n in names if n.split(".")[0] in PICKLES and not (reader and n == "pickletools")]
        found += [f"line {node.lineno}: import {name}" for name in wrong]  # type: ignore[attr-defined]
    for line, name, call in calls(tree):
        keywords = {k.arg: ast.unparse(k.value) for k in call.keywords}
        last = name.split(".")[-1]
        if name in ("eval", "exec", "compile", "__import__") or last in ("literal_eval", "unsafe_load", "full_load"):
            found.append(f"line {line}: {name}")
        if name in ("torch.load", "torch.jit.load", "torch.package.PackageImporter", "yaml.load", "pd.read_pickle"):
            found.append(f"line {line}: {name}")
        if last == "load" and name.startswith(("np.", "numpy.")) and keywords.get("allow_pickle") != "False":
            found.append(f"line {line}: {name} without allow_pickle=False")
        if keywords.get("allow_pickle", "False") != "False" or keywords.get("shell", "False") != "False":
            found.append(f"line {line}: {name}({keywords})")
        if name in ("os.system", "os.popen", "subprocess.getoutput"):
            found.append(f"line {line}: {name}")
        if last in ("extractall", "unpack_archive") or name.endswith(("tar.extract", "archive.extract")):
            found.append(f"line {line}: {name}, which writes where an archive says")
    return found


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_no_source_file_unpickles_evaluates_or_unpacks_to_the_disk(path: Path) -> None:
    assert forbidden(path.read_text(), reader=path == SOURCE / ONE_READER) == []


@pytest.mark.parametrize(
    "line",
    [
        *(
            "import pickle",
            "from pickle import loads",
            "import joblib.numpy_pickle",
            "import pickletools",
            "import dill",
        ),
        *("torch.load(f)", "torch.load(f, weights_only=True)", "np.load(f)", "np.load(f, allow_pickle=True)"),
        *("np.load(f, allow_pickle=x)", "eval('1')", "exec(code)", "yaml.load(f)", "yaml.unsafe_load(f)"),
        *("subprocess.run('ls', shell=True)", "os.system('ls')", "tar.extractall(p)", "shutil.unpack_archive(a)"),
    ],
)
def test_the_search_finds_what_it_is_for(line: str) -> None:
    assert forbidden(line)


def test_modules_are_imported_by_name_only_where_the_name_is_ours_or_the_user_wrote_it() -> None:
    """By a path of the user's own in `nets/own.py`; elsewhere by a constant or a name from the package itself."""
    found: dict[str, set[str]] = {}
    for path in naming("import_module"):
        for _, name, call in calls(ast.parse(path.read_text())):
            if name.split(".")[-1] == "import_module":
                found.setdefault(str(path.relative_to(SOURCE)), set()).add(ast.unparse(call.args[0]))
    allowed = {
        "__init__.py": {"_HOME[name]"},
        "analysis/label_analysis.py": {
            "'selc.integrations.cleanlab'",
            "'selc.review.of_labels'",
            "'selc.runs.decided'",
        },
        "callbacks.py": {"'selc.integrations.trackers'"},
        "encoders/__init__.py": {"f'{__name__}.{_module.name}'"},
        "integrations/trackers/__init__.py": {"f'{__name__}.{_module.name}'"},
        "data/__init__.py": {"_module.name"},
        "methods/__init__.py": {"f'{__name__}.{_module.name}'"},
        "training/metrics/__init__.py": {"f'{__name__}.{_module.name}'"},
        "review/exchange/tools/__init__.py": {"f'{__name__}.{_module.name}'"},
        "data/extras.py": {"f'sklearn.{module}'"},
        "data/sources/hub.py": {"'datasets'"},
        "nets/own.py": {"module_name"},
        "nets/weights.py": {"'torchvision.models' if name == 'torchvision' else 'timm'"},
    }
    assert not {place: more for place, names in found.items() if (more := names - allowed.get(place, set()))}


# A configuration, or the folder of a run, is not the user


@pytest.fixture
def trap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A module in the current folder that leaves a file behind when it is imported."""
    (tmp_path / "trapped.py").write_text(
        "from pathlib import Path\nPath('sprung').touch()\n"
        "from torch import nn\ndef Net(num_classes, shape, width=1): return nn.Linear(shape[0], num_classes)\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "trapped", raising=False)
    return tmp_path / "sprung"


FOREIGN = 'data = "moons"\n[method]\nname = "ce"\n[train]\nepochs = 1\n[net]\nname = "import:trapped:Net"\nwidth = 2\n'


def test_reading_the_configuration_of_a_run_imports_nothing(trap: Path, tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text(FOREIGN)
    config = RunFolder.open(tmp_path).config
    assert (config.net.name, config.net.options) == ("import:trapped:Net", {"width": 2})
    config.save(tmp_path / "again.toml")
    assert Config.load(tmp_path / "again.toml").fingerprint("") == config.fingerprint("")
    assert not trap.exists()


def test_what_the_user_asks_for_is_imported(trap: Path) -> None:
    Config.resolve({"data": "moons", "net": {"name": "import:trapped:Net", "width": 2}})
    assert trap.exists()


def test_a_network_from_a_folder_is_built_only_on_the_word_of_the_user(trap: Path, tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text(FOREIGN)
    config = RunFolder.open(tmp_path).config
    with pytest.raises(ConfigError, match=r"is a run of the network import:trapped:Net, .* got no trust=True"):
        config.check_trusted(tmp_path, False)
    config.check_trusted(tmp_path, True)
    Config.resolve({"data": "moons"}).check_trusted(tmp_path, False)  # a network of ours needs nobody's word
    assert not trap.exists()


@pytest.mark.parametrize(
    "text",
    [
        "data = \"__import__('os').system('touch sprung')\"",
        'data = "digits"\n[method]\nname = "os:system"',
        'data = "digits"\n[train]\noptimizer = "__builtins__"',
        'data = "digits"\n[train]\noptimizer = "lr_scheduler"',
        'data = "digits"\n[net]\nname = "trapped:Net"',
        'data = "digits"\n[net]\nname = "trapped.Net"',
        'data = "digits"\n[train]\ndevice = "cpu; touch sprung"\nepochs = "${HOME}"',
    ],
)
def test_a_configuration_cannot_name_code(text: str, trap: Path, tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text(text)
    with pytest.raises(ConfigError):
        Config.load(tmp_path / "config.toml")
    assert not trap.exists()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("data = 3", r"\[data\] must be a table of settings by name; got 3"),
        ('method = "selc"', r"\[method\] must be a table of settings by name; got 'selc'"),
        ("[method]\nname = [1]", r"the name in \[method\] must be a text; got \[1\]"),
        ("train = 1", r"\[train\] must be a table"),
        ("labels = []", r"\[labels\] must be a table"),
        ("[data]\nname = 'folder'\ncache_gb = nan", "cache_gb must be a finite number; got nan"),
        ("[train]\nlr = inf", "lr must be a finite number; got inf"),
        ("x = " + "9" * 5000, "must be a readable TOML file; got: Exceeds the limit"),
        ("x = " + "[" * 5000, "must be a readable TOML file"),
        ('data = "arrays"\n[method]\nname = 3', r"config.toml is not valid"),
    ],
)
def test_a_configuration_out_of_shape_gets_its_sentence(text: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text(text)
    with pytest.raises(ConfigError, match=said):
        Config.load(tmp_path / "config.toml")


def test_nesting_without_an_end_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("[" * 100_000)
    with pytest.raises(RunFolderError, match="must be a readable JSON file"):
        read_json(tmp_path / "x")
    (tmp_path / "x").write_text("x = " + "{a=" * 3000)
    with pytest.raises(ConfigError, match="must be a readable TOML file"):
        read_toml(tmp_path / "x")


def test_what_other_libraries_say_is_one_line_that_a_terminal_does_not_obey() -> None:
    assert in_short(ValueError("first\n  second\x1b[2J\x07.\n")) == "first second?[2J?"
    assert len(in_short(ValueError("x" * 5000))) == 200
    assert in_short(KeyError()) == "KeyError"


# Paths stay in their folder


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    """A picture beside the data, which no list may name."""
    Image.new("RGB", (8, 8), "red").save(tmp_path / "secret.png")
    (tmp_path / "data").mkdir()
    Image.new("RGB", (8, 8), "blue").save(tmp_path / "data" / "own.png")
    return tmp_path / "secret.png"


WAYS = ("../secret.png", "x/../../secret.png", "ABSOLUTE", "link.png", "folder/secret.png")


def lay_ways(data: Path, secret: Path, way: str) -> str:
    (data / "link.png").symlink_to(secret)
    (data / "folder").symlink_to(secret.parent)
    return str(secret) if way == "ABSOLUTE" else way


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("ending", [".csv", ".parquet"])
def test_a_table_names_only_files_in_its_folder(way: str, ending: str, secret: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    paths = ["own.png", lay_ways(data, secret, way)]
    if ending == ".csv":
        (data / "t.csv").write_text("path,label\n" + "".join(f"{p},{k}\n" for k, p in enumerate(paths)))
    else:
        pq.write_table(pa.table({"path": paths, "label": [0, 1]}), data / "t.parquet")
    with pytest.raises(InputError, match="a path must stay inside"):
        DATASETS["table"](path=str(data / f"t{ending}"), cache="off")
    state = {"kind": "images", "shape": [3, 8, 8], "stored": [8, 8], "size": [8, 8], "resize": "stretch"}
    with pytest.raises(InputError, match="a path must stay inside"):
        new_samples({**state, "mean": [0.5] * 3, "std": [0.5] * 3}, data / f"t{ending}", Ids())


def test_a_folder_of_new_images_does_not_lead_elsewhere(secret: Path, tmp_path: Path) -> None:
    lay_ways(tmp_path / "data", secret, "")
    state = {"kind": "images", "shape": [3, 8, 8], "stored": [8, 8], "size": [8, 8], "resize": "stretch"}
    with pytest.raises(InputError, match=r"a path must stay inside .* 'link.png' in it, which leaves it"):
        new_samples({**state, "mean": [0.5] * 3, "std": [0.5] * 3}, tmp_path / "data", Ids())


@pytest.mark.parametrize("name", ["../secret.png", "a/../../secret.png", "/etc/passwd", "..", "a\\..\\..\\secret.png"])
def test_a_published_list_names_only_files_in_its_folder(name: str, secret: Path, tmp_path: Path) -> None:
    from selc.data.inputs.augment import View

    files = ImageFiles(tmp_path / "data", ["own.png", name], np.array([0, 1]))
    view = View((8, 8), (0.5,) * 3, (0.5,) * 3)
    with pytest.raises(InputError, match="must name files in"):
        image_bundle(
            "set", files, {}, classes=("a", "b"), stored=(8, 8), view=view, augment=False, rows=0, reading=Reading()
        )


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes with names")
def test_a_pipe_or_a_device_with_the_name_of_an_image_is_a_bad_image_and_no_wait(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.png")
    for path in (tmp_path / "pipe.png", Path("/dev/zero")):
        with pytest.raises(InputError, match="it is no regular file"):
            image_pixels([path], (8, 8), cache=None)


@pytest.mark.parametrize("name", ["../../away", "..", "a/b", "/tmp", "a\\b", ""])
def test_the_classes_of_a_run_cannot_lead_the_cleaned_tree_elsewhere(name: str) -> None:
    labels = torch.tensor([1, 0])
    cleaned = Cleaned(labels, torch.tensor([1, 0]), torch.tensor([0, 0]))
    with pytest.raises(InputError, match="the name of a class must be that of a folder"):
        _targets(["cat/1.png", "cat/2.png"], cleaned, ["cat", name])
    assert _targets(["cat/1.png", "cat/2.png"], cleaned, ["cat", "dog"]) == ["dog/1.png", "cat/2.png"]


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE, tarfile.DIRTYPE])
def test_only_regular_files_of_an_archive_are_read(kind: bytes, tmp_path: Path) -> None:
    from selc.data.published.archives import read_members

    with tarfile.open(tmp_path / "a.tar.gz", "w:gz") as tar:
        member = tarfile.TarInfo("in/x")
        member.type, member.linkname = kind, "/etc/passwd"
        tar.addfile(member)
    before = set(tmp_path.rglob("*"))
    with pytest.raises(InputError, match="must hold in/x; got none"):
        read_members(tmp_path, "in", "a.tar.gz", ["x"])
    assert set(tmp_path.rglob("*")) == before


# Small files that would be large


def refused(read: Callable[[], Any], said: str) -> None:
    """Refused with a sentence, and before the memory was taken."""
    tracemalloc.start()
    try:
        with pytest.raises(InputError, match=said):
            read()
        assert tracemalloc.get_traced_memory()[1] < 64_000_000
    finally:
        tracemalloc.stop()


def npy(shape: tuple[int, ...], kind: str = "|u1", data: bytes = b"") -> bytes:
    """An array of numpy whose head may say more than there is."""
    head = repr({"descr": kind, "fortran_order": False, "shape": shape}).encode()
    head += b" " * (-(len(head) + 11) % 64) + b"\n"
    return b"\x93NUMPY\1\0" + struct.pack("<H", len(head)) + head + data


def packed(path: Path, name: str, head: bytes, zeros: int) -> None:
    """A zip file with ``zeros`` bytes of nothing behind a head, made piece by piece."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive, archive.open(name, "w") as file:
        file.write(head)
        for _ in range(zeros // 1_000_000):
            file.write(bytes(1_000_000))


def test_an_npz_bomb_is_refused_before_it_is_unpacked(tmp_path: Path) -> None:
    size = FLOOR // 1_000_000 * 1_000_000 + 2_000_000
    packed(tmp_path / "d.npz", "x.npy", npy((size // 1000, 1000)), size)
    assert (tmp_path / "d.npz").stat().st_size < 400_000
    refused(
        lambda: DATASETS["npz"](path=str(tmp_path / "d.npz")), r"unpack to \d+, and \d+ are the most; save them unp"
    )
    state = {"kind": "arrays", "shape": [1000]}
    refused(lambda: new_samples(state, tmp_path / "d.npz", Ids()), "are the most; save them unpacked")


@pytest.mark.parametrize("shape", [(1 << 40,), (1 << 31, 1 << 31), (0, 1 << 62), (-1, -5), (1,) * 70])
def test_an_array_has_the_size_of_its_bytes(shape: tuple[int, ...], tmp_path: Path) -> None:
    (tmp_path / "d.npy").write_bytes(npy(shape, data=b"12345"))
    with pytest.raises(ValueError, match="an array of"):
        read_arrays(tmp_path / "d.npy")
    np.savez(tmp_path / "d.npz", y=np.arange(3))
    with zipfile.ZipFile(tmp_path / "d.npz", "a") as archive:
        archive.writestr("x.npy", npy(shape, data=b"12345"))
    with pytest.raises(InputError, match="an array of"):
        DATASETS["npz"](path=str(tmp_path / "d.npz"))


def test_arrays_come_back_as_numpy_wrote_them(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    made: dict[str, Any] = {
        "a": rng.normal(size=(3, 4)).astype(">f4"),
        "b": np.asfortranarray(rng.integers(0, 9, (5, 2))),
        "c": np.array(["é", "日本", ""]),
        "d": np.array([b"x", b"yz"]),
        "e": np.array(1.5),
        "f": np.zeros((0, 3), bool),
        "g": np.array(["2020-01-01"], "M8[D]"),
    }
    for save in (np.savez, np.savez_compressed):
        save(tmp_path / "d.npz", **made)
        found = read_arrays(tmp_path / "d.npz")
        assert found.keys() == made.keys()
        for name, array in made.items():
            assert found[name].dtype == array.dtype
            np.testing.assert_array_equal(found[name], array)
    np.save(tmp_path / "d.npy", made["b"])
    np.testing.assert_array_equal(read_arrays(tmp_path / "d.npy")[""], made["b"])


def test_objects_and_letters_that_do_not_exist_are_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "d.npy", np.array([{}], object), allow_pickle=True)
    with pytest.raises(ValueError, match="would have to be unpickled"):
        read_arrays(tmp_path / "d.npy")
    for letter in (0x110000, 0xD800):
        (tmp_path / "d.npy").write_bytes(npy((1,), "<U1", struct.pack("<I", letter)))
        with pytest.raises(ValueError, match="letters that no alphabet has"):
            read_arrays(tmp_path / "d.npy")


def test_an_idx_bomb_is_refused_before_it_is_unpacked(tmp_path: Path) -> None:
    path = tmp_path / "train-images-idx3-ubyte.gz"
    with gzip.open(path, "wb") as file:
        file.write(bytes((0, 0, 8, 3)) + struct.pack(">3I", 175_000, 28, 28))
        for _ in range(138):
            file.write(bytes(1_000_000))
    refused(lambda: read_idx(path, 3), r"must be an idx file .* got: sizes \(175000, 28, 28\)")


def test_a_tar_bomb_is_refused_before_it_is_unpacked(tmp_path: Path) -> None:
    from selc.data.published.archives import read_members

    size = FLOOR + 1_000_000
    with tarfile.open(tmp_path / "a.tar.gz", "w:gz", compresslevel=1) as tar:
        member = tarfile.TarInfo("in/x")
        member.size = size
        tar.addfile(member, io.BytesIO(bytes(size)))
    refused(lambda: read_members(tmp_path, "in", "a.tar.gz", ["x"]), "unpack to more than")


def png(width: int, height: int, colours: int = 6) -> bytes:
    """A picture of one colour, with an alpha channel, made line by line."""
    out = b"\x89PNG\r\n\x1a\n"
    lines = zlib.compressobj(9)
    content = b"".join(lines.compress(bytes(1 + 4 * width)) for _ in range(height)) + lines.flush()
    head = struct.pack(">IIBBBBB", width, height, 8, colours, 0, 0, 0)
    for kind, data in ((b"IHDR", head), (b"IDAT", content), (b"IEND", b"")):
        out += struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    return out


def test_a_picture_that_unpacks_to_too_much_is_refused_before_it_is(tmp_path: Path) -> None:
    (tmp_path / "bomb.png").write_bytes(png(6000, 6000))
    assert (tmp_path / "bomb.png").stat().st_size < 400_000
    refused(lambda: image_pixels([tmp_path / "bomb.png"], (8, 8), cache=None), "of it unpack to 36 megapixels")
    (tmp_path / "plain.png").write_bytes(png(500, 400))
    pixels, _ = image_pixels([tmp_path / "plain.png"], (8, 8), cache=None)
    assert bool((next(iter(pixels.stream([torch.tensor([0])]))) == 255).all())  # all of it is transparent, over white


def parquet_bomb(path: Path, way: str) -> None:
    if way == "many rows":
        column = pa.array(np.zeros(10_000_000, np.int8))
        table = pa.table({"x": column, "label": column})
        pq.write_table(table, path, compression="zstd")
    elif way == "a long text":
        text = pa.DictionaryArray.from_arrays(pa.array([0] * 20_000, pa.int32()), pa.array(["a" * 500_000]))
        pq.write_table(pa.table({"x": text, "label": text}), path, compression="zstd", store_schema=False)
    else:
        zeros = pa.array([bytes(50_000_000)] * 3, pa.binary())
        table = pa.table({"x": zeros, "label": list("aba")})
        pq.write_table(table, path, compression="zstd", use_dictionary=False, write_statistics=False)


@pytest.mark.parametrize("way", ["many rows", *exhaustive("a long text", "packed zeros")])
def test_a_parquet_bomb_is_refused_before_it_is_unpacked(way: str, tmp_path: Path) -> None:
    parquet_bomb(tmp_path / "t.parquet", way)
    assert (tmp_path / "t.parquet").stat().st_size < 1_000_000
    before = pa.total_allocated_bytes()
    refused(lambda: read_parquet(tmp_path / "t.parquet"), r"unpack to \d+ or more, and \d+ are the most")
    assert pa.total_allocated_bytes() - before < 64_000_000


@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("compression", ["none", "snappy", "zstd", "gzip"])
@pytest.mark.parametrize("dictionary", [True, False])
def test_honest_tables_are_read_and_their_pages_add_up(
    version: str, compression: str, dictionary: bool, tmp_path: Path
) -> None:
    """The sizes in the heads of the pages, and those heads, are what the writer says of each column as a whole."""
    rows = 5_000
    table = pa.table(
        {
            "x": np.random.default_rng(0).normal(size=rows),
            "text": [f"text {k % 50}" for k in range(rows)],
            "list": [[k, None] if k % 3 else None for k in range(rows)],
            "image": [{"bytes": b"abc" * (k % 7), "path": None} for k in range(rows)],
            "label": np.arange(rows) % 3,
        }
    )
    path = tmp_path / "t.parquet"
    how: dict[str, Any] = {"compression": compression, "use_dictionary": dictionary, "data_page_version": version}
    pq.write_table(table, path, row_group_size=1_800, data_page_size=4_000, write_page_index=True, **how)
    assert read_parquet(path).equals(table)
    assert read_parquet(path, ["label"]).column_names == ["label"]
    with pq.ParquetFile(path) as file, open(path, "rb") as raw:
        groups = list(_groups(raw, path.stat().st_size))
        assert [rows for _, rows, _ in groups] == [1_800, 1_800, 1_400]
        for number, rows, columns in groups:
            theirs = file.metadata.row_group(number)
            assert len(columns) == theirs.num_columns == 6
            for place, ours in enumerate(columns):
                column = theirs.column(place)
                assert ".".join(ours.path) == column.path_in_schema
                assert ours.is_text == (column.physical_type == "BYTE_ARRAY")
                assert (rows, ours.values, ours.size) == (
                    theirs.num_rows,
                    column.num_values,
                    column.total_compressed_size,
                )
                pages = list(_page_sizes(raw, ours))
                unpacked = sum(size for _, size in pages)
                assert 0 < column.total_uncompressed_size - unpacked < 100 * len(pages)  # the heads


# Pictures and verdicts (that HTML is escaped, tests/test_report_page.py and tests/test_review.py hold)


def test_an_eps_that_calls_itself_a_picture_is_not_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pillow runs another program for such a file; the formats that it may try are named everywhere."""
    miniatures.cifar_png(tmp_path / "cifar10")
    stream = io.BytesIO()
    Image.new("RGB", (1024, 8)).save(stream, "EPS")
    (tmp_path / "cifar10" / "data_batch_1.png").write_bytes(stream.getvalue())
    monkeypatch.setenv("SELC_CACHE", str(tmp_path / "cache"))
    with pytest.raises(InputError, match="must be a picture with 1024 pixels"):
        DATASETS["cifar10"](root=str(tmp_path))
    with pytest.raises(InputError, match="no image of a known format"):
        image_pixels([stream.getvalue()], (8, 8), cache=None)
    opened = [
        (path.name, ast.unparse(call))
        for path in naming("Image.open")
        for _, name, call in calls(ast.parse(path.read_text()))
        if name == "Image.open"
    ]
    assert len(opened) >= 3
    assert all("formats=" in call for _, call in opened), opened


def test_decisions_are_data(tmp_path: Path) -> None:
    """A file of verdicts holds texts, whatever they look like."""
    from selc.runs.decisions import Decisions

    evil = "../../x; rm -rf /\n<script>"
    entry = {"sample_id": evil, "given": evil, "suggested": evil, "verdict": "keep", "label": evil, "confidence": 1}
    (tmp_path / "d.json").write_text(json.dumps({"format": 1, "run": evil, "samples": 1, "decisions": [entry]}))
    found = Decisions.read(tmp_path / "d.json")
    assert found.made[evil].label == evil
    with pytest.raises(InputError, match="decisions must be about samples of the data"):
        found.check(["0"], ["a"])
