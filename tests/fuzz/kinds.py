"""What is spoilt and who reads it: valid files of every kind, made by the real writers, and the call to a reader."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import shutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from PIL import Image

from selc._io.files import read_json, read_tensors, write_tensors
from selc.data import DATASETS
from selc.data.image_cache.decode import image_pixels
from selc.data.published.archives import read_pickle
from selc.noise.label_file import read_labels, write_labels
from tests.data import miniatures
from tests.fuzz import mutate
from tests.fuzz.mutate import BINARY, TEXT, Change

if TYPE_CHECKING:
    from selc.runs import RunFolder

Spoil = Callable[[bytes, Random, list[bytes]], bytes]


@dataclass(frozen=True)
class Seed:
    """A folder of valid files; one of ``victims`` is spoilt, and ``read`` then reads the folder."""

    name: str
    files: Mapping[str, bytes]
    victims: Mapping[str, tuple[Spoil, ...]]
    read: Callable[[Path], object]
    after: Callable[[Path], None] | None = None  # puts right what would be noticed too early, such as a checksum
    fresh: bool = False  # whether reading leaves something behind, so that every case needs a folder of its own


@dataclass(frozen=True)
class Kind:
    """A sort of input, with its seeds."""

    name: str
    seeds: Callable[[Path], list[Seed]] = field(repr=False)  # made in an empty folder
    share: int = 2  # of the cases, beside the shares of the others


def outside(changes: tuple[Change, ...]) -> Spoil:
    """The bytes of the file as they are."""
    return lambda data, rng, others: mutate.spoilt(data, rng, changes, others)


def inside(container: Callable[..., bytes], changes: tuple[Change, ...] = BINARY) -> Spoil:
    """What the file holds, packed again."""

    def spoil(data: bytes, rng: Random, others: list[bytes]) -> bytes:
        return container(data, rng, lambda content, r: mutate.spoilt(content, r, changes, []))

    return spoil


def tree(change: Change) -> Spoil:
    return lambda data, rng, others: change(data, rng)


RAW, WORDS = outside(BINARY), outside(TEXT)
JSON, TOML = tree(mutate.json_tree), tree(mutate.toml_tree)
ZIP, GZIP, TAR = inside(mutate.in_zip), inside(mutate.in_gzip), inside(mutate.in_tar)
# The head of an .npy file is text: its numbers and words are what a reader believes.
ZIP_TEXT = inside(mutate.in_zip, TEXT)
SAFE = inside(mutate.in_safetensors)


def written(write: Callable[[Path], object], folder: Path, name: str) -> bytes:
    write(folder / name)
    return (folder / name).read_bytes()


# Tables


def _rows(count: int = 24) -> list[dict[str, Any]]:
    colours = ("red", "green", "blue")
    return [
        {
            "id": f"s{k}",
            "width": k / 7,
            "count": k % 5,
            "colour": colours[k % 3],
            "gap": "" if k % 6 else k,
            "label": "ab"[k % 2],
        }
        for k in range(count)
    ]


def _csv(rows: list[dict[str, Any]], **how: Any) -> bytes:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), **how)
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().encode()


def _table(folder: Path, name: str, **options: Any) -> object:
    bundle = DATASETS["table"](path=str(folder / name), cache="off", **options)
    return next(iter(bundle.inputs.stream([torch.arange(min(4, len(bundle.labels)))], None)))


def csv_seeds(folder: Path) -> list[Seed]:
    rows = _rows()
    plain = _csv([{key: row[key] for key in ("width", "count", "label")} for row in rows])
    mixed = _csv(rows, quoting=csv.QUOTE_ALL)
    tabs = _csv(rows, delimiter=";")
    small = Image.new("RGB", (6, 5), "red")
    small.save(folder / "a.png")
    picture = (folder / "a.png").read_bytes()
    paths = _csv([{"path": f"p{k}.png", "label": "ab"[k % 2]} for k in range(4)])
    pictures = {f"p{k}.png": picture for k in range(4)}
    read = partial(_table, name="t.csv")
    return [
        Seed("numbers", {"t.csv": plain}, {"t.csv": (WORDS, WORDS, RAW)}, read),
        Seed("mixed", {"t.csv": mixed}, {"t.csv": (WORDS,)}, read),
        Seed("semicolons", {"t.csv": tabs}, {"t.csv": (WORDS,)}, partial(_table, name="t.csv", skip_bad=True)),
        Seed(
            "pictures", {"t.csv": paths, **pictures}, {"t.csv": (WORDS,)}, partial(_table, name="t.csv", skip_bad=True)
        ),
        Seed("test", {"t.csv": mixed, "u.csv": mixed}, {"u.csv": (WORDS,)}, _with_test),
    ]


def _with_test(folder: Path) -> object:
    return DATASETS["table"](path=str(folder / "t.csv"), test=str(folder / "u.csv"))


def parquet_seeds(folder: Path) -> list[Seed]:
    import pyarrow as pa

    rows = _rows()
    columns = {key: [row[key] for row in rows] for key in ("id", "width", "count", "colour", "label")}
    columns["gap"] = [None if k % 6 else k for k in range(len(rows))]
    pictures = {
        "image": [{"bytes": miniatures.photo(k, 6, 7), "path": f"{k}.jpg"} for k in range(6)],
        "label": [0, 1] * 3,
    }
    about = {"huggingface": json.dumps({"info": {"features": {"label": {"names": ["a", "b"]}}}})}
    read = partial(_table, name="t.parquet")
    made = {}
    for name, table, how in (
        ("plain", pa.table(columns), {"compression": "none", "use_dictionary": False}),
        ("packed", pa.table(columns), {"compression": "snappy"}),
        ("zstd", pa.table(columns), {"compression": "zstd", "version": "1.0"}),
        ("pictures", pa.table(pictures).replace_schema_metadata(about), {"compression": "none"}),
    ):
        made[name] = written(partial(_write_parquet, table, how), folder, f"{name}.parquet")
    return [Seed(name, {"t.parquet": data}, {"t.parquet": (RAW,)}, read) for name, data in made.items()]


def _write_parquet(table: Any, how: dict[str, Any], path: Path) -> None:
    import pyarrow.parquet as pq

    pq.write_table(table, path, **how)


# Arrays


def _save(save: Callable[..., None], content: Mapping[str, Any], path: Path) -> None:
    save(path, **content)


def _npz(folder: Path, **options: Any) -> object:
    bundle = DATASETS["npz"](path=str(folder / "d.npz"), **options)
    return next(iter(bundle.inputs.stream([torch.arange(min(4, len(bundle.labels)))], None)))


def npz_seeds(folder: Path) -> list[Seed]:
    rng = np.random.default_rng(0)
    y = np.arange(20) % 3
    features = {"x": rng.normal(size=(20, 4)), "y": y, "ids": np.array([f"s{k}" for k in range(20)])}
    more = {
        **features,
        "true": y,
        "classes": np.array(["a", "b", "c"]),
        "x_test": rng.normal(size=(3, 4)),
        "y_test": y[:3],
    }
    images = {"x": rng.integers(0, 255, (20, 5, 6, 3), dtype=np.uint8), "y": np.array(["cat", "dog"])[y % 2]}
    arrays = {"x": rng.normal(size=(20, 2, 3, 4)).astype(np.float16), "y": y.astype(np.uint8)}
    seeds = []
    for name, content, save in (
        ("features", features, np.savez),
        ("packed", {**more, "meta": np.array(json.dumps({"backbone": "b", "source": "s"}))}, np.savez_compressed),
        ("images", images, np.savez),
        ("arrays", arrays, np.savez_compressed),
    ):
        data = written(partial(_save, save, content), folder, f"{name}.npz")
        seeds.append(Seed(name, {"d.npz": data}, {"d.npz": (RAW, ZIP, ZIP, ZIP_TEXT)}, _npz))
    return seeds


def new_seeds(folder: Path) -> list[Seed]:
    """New data for a network that is trained."""
    from selc.runs.preprocessing import state_of

    seeds: list[Seed] = []
    for seed in (*csv_seeds(folder)[:3], *npz_seeds(folder)):
        (name,) = seed.files
        (folder / name).write_bytes(seed.files[name])
        bundle = DATASETS["table" if name == "t.csv" else "npz"](path=str(folder / name))
        state = state_of(bundle.inputs)
        read = partial(_new_samples, name=name, state=state)
        seeds.append(Seed(seed.name, seed.files, seed.victims, read))
    return seeds


def _new_samples(folder: Path, name: str, state: dict[str, Any]) -> object:
    from selc.runs.new_data import Ids, new_samples

    samples = new_samples(state, folder / name, Ids())
    return next(iter(samples.inputs.stream([torch.tensor([0])], None)))


def idx_seeds(folder: Path) -> list[Seed]:
    seeds = []
    for zipped in (False, True):
        place = folder / f"zipped-{zipped}"
        miniatures.mnist(place / "mnist", zipped=zipped)
        files = {f"mnist/{path.name}": path.read_bytes() for path in (place / "mnist").iterdir()}
        victims = dict.fromkeys(files, (RAW, GZIP, GZIP) if zipped else (RAW,))
        read = lambda p: DATASETS["mnist"](root=str(p))  # noqa: E731
        seeds.append(Seed("zipped" if zipped else "plain", files, victims, read))
    return seeds


# Images

FORMATS = ("JPEG", "PNG", "GIF", "BMP", "WEBP", "TIFF", "PPM", "AVIF")


def image_seeds(folder: Path) -> list[Seed]:
    rng = np.random.default_rng(0)
    noise = Image.fromarray(rng.integers(0, 255, (21, 17, 3), dtype=np.uint8))
    exif = Image.Exif()
    exif[0x0112] = 6
    made: dict[str, bytes] = {}
    for kind in FORMATS:
        stream = io.BytesIO()
        noise.save(stream, kind, **({"exif": exif} if kind in ("JPEG", "PNG", "WEBP", "TIFF") else {}))
        made[kind] = stream.getvalue()
    for name, image, kind, how in (
        ("palette", noise.convert("P"), "PNG", {"transparency": 3}),
        ("deep", Image.fromarray(rng.integers(0, 65535, (9, 8), dtype=np.uint16)), "PNG", {}),
        ("grey", noise.convert("L"), "JPEG", {"progressive": True}),
        ("cmyk", noise.convert("CMYK"), "JPEG", {}),
        ("lzw", noise, "TIFF", {"compression": "tiff_lzw"}),
        ("moving", noise, "GIF", {"save_all": True, "append_images": [noise.rotate(90)]}),
    ):
        stream = io.BytesIO()
        image.save(stream, kind, **how)
        made[name] = stream.getvalue()
    png = inside(mutate.in_png)
    return [
        Seed(name, {"i": data}, {"i": (RAW, png) if data.startswith(b"\x89PNG") else (RAW,)}, _image)
        for name, data in made.items()
    ]


def _image(folder: Path) -> object:
    pixels, _ = image_pixels([folder / "i"], (8, 8), cache=None, resize="shorter")
    return next(iter(pixels.stream([torch.tensor([0])])))


# Configurations and run folders


def config_seeds(folder: Path) -> list[Seed]:
    from selc.runs import Config

    seeds = []
    for name, settings in (
        ("digits", {"data": "digits", "noise": {"name": "symmetric", "rate": 0.4}}),
        ("cifar", {"data": {"name": "cifar10", "labels": "worse"}, "method": {"name": "selc", "alpha": 0.8}}),
        ("table", {"data": {"name": "table", "path": "t.csv", "drop": ["a"]}, "method": {"name": "elr"}}),
        ("net", {"data": "moons", "net": {"name": "mlp"}, "train": {"optimizer": "Adam", "epochs": 3}}),
        ("labels", {"data": "digits", "labels": {"path": "runs/a", "kind": "soft"}, "method": {"name": "ce"}}),
    ):
        data = written(Config.resolve(settings).save, folder, f"{name}.toml")
        seeds.append(Seed(name, {"config.toml": data}, {"config.toml": (TOML, TOML, WORDS)}, _config))
    short = b'data = "digits"\n[method]\nname = "selc"\n[train]\nepochs = 3\n'
    arrays = (trained(folder) / "config.toml").read_bytes()
    own = short + b'[net]\nname = "import:somewhere.over:Net"\nwidth = 3\n'
    for name, data in (("short", short), ("arrays", arrays), ("own net", own)):
        seeds.append(Seed(name, {"config.toml": data}, {"config.toml": (TOML, WORDS)}, _config))
    return seeds


def _config(folder: Path) -> object:
    from selc.runs import Config, RunFolder

    config = RunFolder.open(folder).config
    config.save(folder / "again.toml")
    assert Config.load(folder / "again.toml").fingerprint("") == config.fingerprint("")
    return config.fingerprint("")


def trained(folder: Path, epochs: int = 3) -> Path:
    """The folder of a finished run on toy data."""
    run = folder / "run"
    _fit(run, epochs)
    return run


def _fit(run: Path, epochs: int, resume: bool = False) -> Any:
    from selc import fit
    from tests.toy import blobs, small_net

    x, y = blobs(30)
    torch.manual_seed(0)
    return fit(x, y, method="ce", net=small_net, epochs=epochs, batch_size=16, out=run, resume=resume)


def all_files(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


SELC_NOW = {"start": 0, "alpha": 0.5}  # two epochs are too few to look for a turning point


def checkpoint_seeds(folder: Path) -> list[Seed]:
    """A run that was broken off, and resumed."""
    from selc import fit
    from tests.toy import BrokenOffError, StopAfter, blobs, small_net

    seeds = []
    for name, stop in (("half", [StopAfter(1)]), ("whole", [])):
        run = folder / name / "run"
        x, y = blobs(30)
        torch.manual_seed(0)
        with suppress(BrokenOffError):
            fit(x, y, options=SELC_NOW, net=small_net, epochs=2, batch_size=16, out=run, callbacks=stop)
        files = all_files(folder / name)
        manifests = {n: (JSON, JSON, WORDS) for n in files if "/manifest" in n and n.endswith(".json")}
        tensors = {n: (RAW, SAFE, SAFE) for n in files if n.endswith(".safetensors") and "/stage-" in n}
        seeds.append(Seed(f"{name}, manifest", files, manifests, _resume, fresh=True))
        seeds.append(Seed(f"{name}, tensors", files, tensors, _resume, after=_mend_manifests, fresh=True))
    return seeds


def _mend_manifests(folder: Path) -> None:
    """Give every manifest the sizes and checksums that its files now have, so that the reader goes on to them."""
    from selc.training.checkpoints.manifest import write_manifest

    def mend(about: dict[str, Any], file: Path) -> None:
        if file.is_file():
            data = file.read_bytes()
            about["bytes"], about["sha256"] = len(data), hashlib.sha256(data).hexdigest()

    for path in folder.rglob("manifest*.json"):
        manifest = json.loads(path.read_text())
        for name, about in manifest["files"].items():
            mend(about, path.parent / name)
        del manifest["check"]
        write_manifest(path, manifest)


def _resume(folder: Path) -> object:
    from selc import fit
    from tests.toy import blobs, small_net

    x, y = blobs(30)
    torch.manual_seed(0)
    return fit(x, y, options=SELC_NOW, net=small_net, epochs=2, batch_size=16, out=folder / "run", resume=True)


def tensor_seeds(folder: Path) -> list[Seed]:
    """A safetensors file and a JSON file, as everything in a run folder is read."""
    tensors = {"a": torch.arange(6).view(2, 3), "b": torch.ones(4, dtype=torch.bfloat16), "c": torch.zeros(0)}
    data = written(lambda p: write_tensors(p, tensors), folder, "t.safetensors")
    about = json.dumps({"a": [1, 2, {"b": None}], "c": "text"}).encode()
    return [
        Seed("safetensors", {"t": data}, {"t": (RAW, SAFE, SAFE)}, lambda p: read_tensors(p / "t")),
        Seed("json", {"t": about}, {"t": (JSON, WORDS)}, lambda p: read_json(p / "t")),
    ]


# What a person decided


def decision_seeds(folder: Path) -> list[Seed]:
    from selc.runs import RunFolder
    from selc.runs.decisions import FORMAT, fingerprint

    path = trained(folder)
    run = RunFolder.open(path)
    names, given = run.classes, run.given.tolist()
    verdicts = ("keep", "suggested", "other", "drop", "skip")
    entries = []
    for row, verdict in enumerate(verdicts * 3):
        name, other = names[given[row]], names[(given[row] + 1) % len(names)]
        label = {"keep": name, "suggested": other, "other": other}.get(verdict)
        about = {"given": name, "suggested": other, "confidence": 0.9, "verdict": verdict, "label": label}
        entries.append({"sample_id": run.ids[row], **about})
    content = {"format": FORMAT, "run": fingerprint(run), "samples": len(given), "decisions": entries}
    data = json.dumps(content).encode()
    files = all_files(folder)
    own = Seed("decisions", {**files, "decisions.json": data}, {"decisions.json": (JSON, JSON, WORDS)}, _decisions)
    return [own, *_answered(run, files)]


def _answered(run: RunFolder, files: Mapping[str, bytes]) -> list[Seed]:
    """Exports of annotation tools."""
    from selc.review.exchange.tools import TOOLS
    from selc.review.exchange.tools.base import Item, Sheet
    from selc.runs.decisions import fingerprint
    from tests.exchange.answering import ANSWERED

    names, given = run.classes, run.given.tolist()
    items = [Item(run.ids[row], "x", names[given[row]], names[0], 0.9, 0.1) for row in range(12)]
    seeds = []
    for tool, answered in ANSWERED.items():
        shown = [item._replace(view=item.sample_id) for item in items] if tool == "cvat" else items
        tasks = TOOLS[tool]().tasks(Sheet(fingerprint(run), names, shown, images="images" in TOOLS[tool].shows))
        data = answered(tasks, {item.sample_id: item.given for item in items}).encode()
        ways = (JSON, WORDS) if tool == "label-studio" else (WORDS, RAW)
        seeds.append(Seed(tool, {**files, "decisions.json": data}, {"decisions.json": ways}, _answers))
    return seeds


def _decisions(folder: Path) -> object:
    from selc.runs import RunFolder
    from selc.runs.cleaned import verified_rows

    _answers(folder)
    return verified_rows(folder / "decisions.json", RunFolder.open(folder / "run"))


def _answers(folder: Path) -> object:
    from selc.review.exchange import read_decisions
    from selc.runs import RunFolder
    from selc.runs.cleaned import clean
    from selc.runs.decisions import agreement

    run = RunFolder.open(folder / "run")
    decisions, _ = read_decisions(folder / "decisions.json", run)
    findings = run.findings()
    agreement(decisions, findings, run)
    return clean(run, findings, decisions)


def cleaned_seeds(folder: Path) -> list[Seed]:
    """The tables that `selc apply` writes."""
    from selc.runs import RunFolder
    from selc.runs.cleaned import clean, write_tables

    run = RunFolder.open(trained(folder))
    write_tables(clean(run, run.findings(), None), run, folder / "out")
    made = {path.suffix: path.read_bytes() for path in (folder / "out").iterdir()}
    classes, given = run.classes, run.given
    return [
        Seed(
            "cleaned" + ending,
            {"cleaned" + ending: data},
            {"cleaned" + ending: (WORDS,) if ending == ".csv" else (RAW,)},
            lambda p: _cleaned(p, classes, given),
        )
        for ending, data in made.items()
    ]


def _cleaned(folder: Path, classes: tuple[str, ...], given: torch.Tensor) -> object:
    from selc.data import ArrayInputs, Bundle
    from selc.runs.cleaned import cleaned_labels

    bundle = Bundle(ArrayInputs(torch.zeros(len(given), 1)), given, classes, (1,))
    return cleaned_labels(folder, bundle)


# Labels and pickles


def label_seeds(folder: Path) -> list[Seed]:
    from selc.noise import draw_noise

    true = torch.arange(30) % 3
    noise = draw_noise("symmetric", true, 3, 0, {"rate": 0.4})
    seeds = []
    for ending in (".npy", ".npz", ".csv", ".json"):
        place = folder / ending
        place.mkdir()
        write_labels(place / f"labels{ending}", noise, true, {"data": "toy"})
        files = all_files(place)
        by_kind = {".npy": (RAW, WORDS), ".npz": (RAW, ZIP, ZIP_TEXT), ".csv": (WORDS,), ".json": (JSON, WORDS)}
        victims = {name: by_kind[Path(name).suffix] for name in files}
        seeds.append(Seed(ending, files, victims, partial(_labels, name=f"labels{ending}")))
        if ending != ".npz":
            alone = {f"labels{ending}": files[f"labels{ending}"]}
            if ending == ".json":
                alone = {"labels.json": json.dumps(noise.labels.tolist()).encode()}
            seeds.append(
                Seed(
                    f"{ending} alone",
                    alone,
                    dict.fromkeys(alone, by_kind[ending]),
                    partial(_labels, name=f"labels{ending}"),
                )
            )
    for old in (False, True):
        path = folder / f"old-{old}.pt"
        miniatures.cifar_human(path, true.numpy(), old=old, worse_label=noise.labels.numpy(), t=noise.labels.numpy())
        read = partial(_labels, name="labels.pt", key="worse_label")
        seeds.append(
            Seed(f".pt {old}", {"labels.pt": path.read_bytes()}, {"labels.pt": (RAW,) if old else (RAW, ZIP)}, read)
        )
    return seeds


def _labels(folder: Path, name: str, key: str = "") -> object:
    from selc.noise.label_file import from_file

    read_labels(folder / name, key=key)
    true = torch.arange(30) % 3
    return from_file(true, 3, torch.Generator(), path=str(folder / name), key=key)


def pickle_seeds(folder: Path) -> list[Seed]:
    made = miniatures.cifar(10)
    batch = miniatures.batch2(made.train[:4].reshape(4, -1), made.labels[:4].tolist(), "labels")
    meta = miniatures.meta2("label_names", made.classes)
    seeds = [
        Seed(name, {"p": data}, {"p": (RAW, WORDS)}, lambda p: read_pickle((p / "p").read_bytes(), "p"))
        for name, data in (("batch", batch), ("meta", meta))
    ]
    miniatures.cifar_python(folder / "a" / "cifar10")
    files = all_files(folder / "a")
    read = lambda p: DATASETS["cifar10"](root=str(p))  # noqa: E731
    seeds.append(Seed("unpacked", files, dict.fromkeys(files, (RAW, WORDS)), read))
    shutil.copytree(folder / "a", folder / "b")
    miniatures.packed(folder / "b" / "cifar10", "cifar-10-batches-py", "cifar-10-python.tar.gz")
    files = all_files(folder / "b")
    seeds.append(Seed("archive", files, dict.fromkeys(files, (RAW, GZIP, TAR, TAR)), read))
    miniatures.cifar_binary(folder / "c" / "cifar10")
    files = all_files(folder / "c")
    seeds.append(Seed("binary", files, dict.fromkeys(files, (RAW, WORDS)), read))
    miniatures.cifar_png(folder / "d" / "cifar10")
    files = all_files(folder / "d")
    kinds: dict[str, tuple[Spoil, ...]] = {".png": (RAW, inside(mutate.in_png)), ".json": (JSON, WORDS)}
    seeds.append(Seed("pictures", files, {name: kinds[Path(name).suffix] for name in files}, read))
    miniatures.features(folder / "e" / "cifar10")
    files = all_files(folder / "e")
    seeds.append(Seed("tables", files, {name: (RAW,) for name in files if name.endswith(".parquet")}, read))
    features = lambda p: DATASETS["cifar10-features"](root=str(p))  # noqa: E731
    seeds.append(Seed("features", files, {n: (RAW, ZIP, ZIP_TEXT) for n in files if n.endswith(".npz")}, features))
    return seeds


KINDS = {
    kind.name: kind
    for kind in (
        Kind("csv", csv_seeds),
        Kind("parquet", parquet_seeds),
        Kind("npz", npz_seeds),
        Kind("idx", idx_seeds),
        Kind("images", image_seeds),
        Kind("config", config_seeds),
        Kind("checkpoint", checkpoint_seeds, share=1),  # each case trains an epoch
        Kind("tensors", tensor_seeds),
        Kind("decisions", decision_seeds),
        Kind("cleaned", cleaned_seeds),
        Kind("labels", label_seeds),
        Kind("pickles", pickle_seeds),
        Kind("new data", new_seeds),
    )
}
