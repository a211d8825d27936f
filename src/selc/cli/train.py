"""`selc demo`, `selc train` and `selc resume`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from selc._io.terminal import folded
from selc.cli.common import (
    DATA,
    DataRoot,
    DataRootBefore,
    assign,
    choose,
    data_of,
    data_of_file,
    from_file,
    resumable,
    speaking,
)
from selc.cli.ending import AsJson, Quiet, as_json, show_run
from selc.cli.parallel import restarted, together
from selc.errors import ConfigError

if TYPE_CHECKING:
    from selc.callbacks import Callback
    from selc.data import Bundle
    from selc.runs import Config

LABELS, TRAINING, RUN = "Labels to start from", "Training", "The run"
EXAMPLES = """
Examples:

  selc train photos --test checked

  selc train table.csv --label-column diagnosis --id-column patient

  selc train digits --noise symmetric --rate 0.4 --epochs 20
"""
Track = Annotated[
    list[str] | None,
    typer.Option(
        metavar="TRACKER",
        help="Where metrics and result go besides: tensorboard, mlflow or wandb; may be given several times.",
        rich_help_panel=RUN,
    ),
]


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the runs and figures.")] = Path("runs/demo"),
    seed: Annotated[int, typer.Option(help="Seed of noise, networks and order.", min=0)] = 0,
    epochs: Annotated[int, typer.Option(help="Epochs of each training.", min=3)] = 60,
    overwrite: Annotated[bool, typer.Option(help="Replace an earlier demo in the folder.")] = False,
) -> None:
    """See SELC repair a training set in which 40 % of the labels were replaced."""
    with speaking():
        from selc.demo import show

        show(out, seed=seed, epochs=epochs, overwrite=overwrite)


def train(
    data: Annotated[
        str | None,
        typer.Argument(
            help="Your folder, table or .npz file, or a dataset by name: see `selc list datasets`. (default: the data "
            "of --config)",
            show_default=False,
        ),
    ] = None,
    root: DataRoot = None,
    root_before: DataRootBefore = None,
    test: Annotated[
        str | None, typer.Option(help="Your test set, of the same form as the data.", rich_help_panel=DATA)
    ] = None,
    val: Annotated[
        str | None, typer.Option(help="Your validation set, of the same form as the data.", rich_help_panel=DATA)
    ] = None,
    label_column: Annotated[
        str | None, typer.Option(help="Column of a table that holds the labels.", rich_help_panel=DATA)
    ] = None,
    id_column: Annotated[
        str | None, typer.Option(help="Column of a table that names the samples.", rich_help_panel=DATA)
    ] = None,
    group_column: Annotated[
        str | None,
        typer.Option(
            help="Column that says which samples belong together, such as patient: none judges another.",
            rich_help_panel=DATA,
        ),
    ] = None,
    time_column: Annotated[
        str | None,
        typer.Option(
            help="Column of dates or numbers: a stretch of time is judged by the others.", rich_help_panel=DATA
        ),
    ] = None,
    text_column: Annotated[
        list[str] | None,
        typer.Option(
            help="Column of free text, where it is not recognised; may be given several times.", rich_help_panel=DATA
        ),
    ] = None,
    annotator_column: Annotated[
        list[str] | None,
        typer.Option(
            help="Labels by several annotators: the column of each (give it several times), or the one column that "
            "names them, where each label is a row.",
            rich_help_panel=DATA,
        ),
    ] = None,
    weights: Annotated[
        str | None,
        typer.Option(
            metavar="PATH",
            help="What reads free text: minilm, tf-idf, or a folder in Hugging Face's format with a BERT. (default: "
            "minilm if it is installed, else tf-idf)",
            rich_help_panel=DATA,
        ),
    ] = None,
    skip_bad: Annotated[
        bool | None,
        typer.Option("--skip-bad", help="Go on without samples that cannot be read.", rich_help_panel=DATA),
    ] = None,
    labels: Annotated[
        str | None,
        typer.Option(
            metavar="RUN",
            help="Train on labels that a finished run corrected, or that `selc apply` wrote.",
            rich_help_panel=LABELS,
        ),
    ] = None,
    verified: Annotated[
        str | None,
        typer.Option(
            metavar="DECISIONS",
            help="Human decisions (decisions.json); these labels are never changed.",
            rich_help_panel=LABELS,
        ),
    ] = None,
    soft: Annotated[
        bool, typer.Option("--soft", help="With --labels: on its soft targets.", rich_help_panel=LABELS)
    ] = False,
    noise: Annotated[
        str | None,
        typer.Option(
            help="Spoil the labels first, to try a method: see `selc list noise`. (default: none)",
            rich_help_panel=LABELS,
        ),
    ] = None,
    rate: Annotated[
        float | None, typer.Option(help="Share of the labels that the noise touches.", rich_help_panel=LABELS)
    ] = None,
    method: Annotated[
        str | None,
        typer.Option(
            help="See `selc list methods`, or import:package.module:class. (default: selc)", rich_help_panel=TRAINING
        ),
    ] = None,
    net: Annotated[
        str | None,
        typer.Option(
            help="See `selc list nets`, or import:package.module:attribute, or for tables a classifier such as "
            "sklearn:HistGradientBoostingClassifier. (default: what suits the data)",
            rich_help_panel=TRAINING,
        ),
    ] = None,
    encoder: Annotated[
        str | None,
        typer.Option(
            help="What makes features of images: see `selc list encoders`, a directory in Hugging Face's format, "
            "import:package.module:attribute, or none. (default: the best that is installed, for your own "
            "photographs)",
            rich_help_panel=TRAINING,
        ),
    ] = None,
    finetune: Annotated[
        bool,
        typer.Option(
            "--finetune",
            help="Train the encoder itself with a new head, at a tenth of its rate, instead of asking it for "
            "features: for a GPU, see docs/gpus.md.",
            rich_help_panel=TRAINING,
        ),
    ] = False,
    epochs: Annotated[
        int | None,
        typer.Option(help="Passes over the data. (default: what suits them)", rich_help_panel=TRAINING),
    ] = None,
    lr: Annotated[
        float | None, typer.Option(help="Learning rate. (default: what suits the data)", rich_help_panel=TRAINING)
    ] = None,
    batch_size: Annotated[
        int | None,
        typer.Option(help="Samples of a step. (default: what suits the data)", rich_help_panel=TRAINING),
    ] = None,
    optimizer: Annotated[
        str | None, typer.Option(help="Any class of torch.optim. (default: SGD)", rich_help_panel=TRAINING)
    ] = None,
    schedule: Annotated[
        str | None,
        typer.Option(help="How the learning rate falls: constant, step or cosine.", rich_help_panel=TRAINING),
    ] = None,
    pick: Annotated[
        str | None, typer.Option(help="Network to keep: last or best-val. (default: last)", rich_help_panel=TRAINING)
    ] = None,
    metrics: Annotated[
        str | None,
        typer.Option(
            metavar="NAMES",
            help="Measured beside top1, separated by commas: see `selc list metrics`, or "
            "import:package.module:function. (default: all of the list)",
            rich_help_panel=TRAINING,
        ),
    ] = None,
    val_fraction: Annotated[
        float | None,
        typer.Option(help="Share of the training rows to hold out for validation.", rich_help_panel=TRAINING),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="Seed of noise, network and order. (default: 0)", rich_help_panel=TRAINING)
    ] = None,
    device: Annotated[
        str | None, typer.Option(help="auto, cpu, cuda or mps. (default: auto)", rich_help_panel=TRAINING)
    ] = None,
    config: Annotated[
        Path | None, typer.Option(help="Start from a configuration file (TOML).", rich_help_panel=RUN)
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Any other setting: method.alpha=0.8", rich_help_panel=RUN),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder of the run. (default: runs/DATA-METHOD-K)", rich_help_panel=RUN)
    ] = None,
    track: Track = None,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run",
            help="Only say what was found and what would be done; refuse what the run would refuse.",
            rich_help_panel=RUN,
        ),
    ] = False,
    quiet: Quiet = False,
    json_: AsJson = False,
) -> None:
    """Train a method on a dataset; write model, corrected labels and history to a run folder."""
    with together():
        settings = from_file(config)
        own = {
            "root": root or root_before,
            "test": test,
            "val": val,
            "label_column": label_column,
            "id_column": id_column,
        }
        options: dict[str, Any] = {**own, "group_column": group_column, "time_column": time_column}
        options["skip_bad"] = skip_bad
        if text_column:
            options["text_column"] = tuple(text_column)
        if annotator_column:
            options["annotator_column"] = tuple(annotator_column)
        if weights is not None:
            options["text_model"] = weights
        if data is None:
            settings["data"], data = data_of_file(settings, options)
        else:
            settings["data"] = data_of(data, settings, options)
        if labels is not None:
            settings["labels"] = {"path": labels, "kind": "soft" if soft else "hard"}
        elif soft:
            raise ConfigError("--soft needs --labels RUN: it trains on the soft targets of that run; got no --labels.")
        if verified is not None:
            settings["labels"] = {**settings.get("labels", {}), "verified": verified}
        choose(settings, "method", method)
        choose(settings, "net", net)
        choose(settings, "noise", noise)
        if encoder is not None:
            from selc.encoders import choice_of

            settings["encoder"] = choice_of(encoder)
        if finetune and net is not None:
            raise ConfigError(f"--finetune trains an encoder (--encoder NAME) and no other network; got --net {net}.")
        if rate is not None:
            if settings.get("noise", {}).get("name", "none") == "none":
                raise ConfigError(
                    f"--rate needs a noise to apply to; got {rate} and no --noise. Add --noise symmetric."
                )
            settings["noise"]["rate"] = rate
        given = {
            "epochs": epochs,
            "lr": lr,
            "batch_size": batch_size,
            "optimizer": optimizer,
            "schedule": schedule,
            "pick": pick,
            "metrics": None if metrics is None else [name.strip() for name in metrics.split(",") if name.strip()],
            "val_fraction": val_fraction,
            "seed": seed,
            "device": device,
        }
        settings.setdefault("train", {}).update({k: v for k, v in given.items() if v is not None})
        for assignment in set_ or []:
            assign(settings, assignment)

        from selc.data.sources.recognise import check_outside
        from selc.runs import execute
        from selc.runs.job import begun, check
        from selc.runs.job import resume as resume_run
        from selc.screen import show_config, show_data, show_notes
        from selc.world import current

        world = current()
        if world.leads and not restarted():
            _refuse_early(out, settings["data"], labels, verified, track)
        resolved, found, bundle = _data(settings, world.leads, quiet, only_look=dry_run, finetune=finetune)
        name = f"{_short_name(data)}-{resolved.method.name.rpartition(':')[2]}"
        # One process decides: the folder that it makes would be in the way of the others.
        folder = Path(world.broadcast(str(out or _free_folder(name))))
        before = out or _last_folder(name)
        goes_on = world.broadcast(restarted() and before is not None and begun(before, resolved))
        if goes_on:
            folder = Path(world.broadcast(str(before)))
        else:
            check_outside(folder, resolved.data.name, resolved.data.options)
        if world.leads and not quiet:
            show_data(found)
            show_config(resolved, folder, data)
        if dry_run:
            if world.leads:
                show_notes(found.notes)  # a run shows them as it begins
            check(resolved, folder, bundle)
            if json_ and world.leads:
                as_json({"run": str(folder), "samples": len(bundle.labels), "classes": len(bundle.classes)})
            elif world.leads and not quiet:
                print("Nothing was trained or written: this was a dry run.", file=sys.stderr)
            return
        with resumable(folder), _watched(quiet, track) as watching:
            if goes_on:  # with the very settings of this call, so what they import is the user's own wish
                run = resume_run(folder, watching, bundle, trust=True)
            else:
                run = execute(resolved, folder, watching, bundle)
        if world.leads:
            show_run(run, json_, quiet)


def _refuse_early(
    out: Path | None, data: dict[str, Any], labels: str | None, verified: str | None, track: list[str] | None
) -> None:
    """What is wrong with other files than the data is said before these are read: an encoder may take minutes."""
    from selc.callbacks import with_trackers
    from selc.data.sources.recognise import check_outside
    from selc.runs import RunFolder
    from selc.runs.cleaned import cleaned_table
    from selc.runs.decisions import Decisions

    if out is not None:
        check_outside(out, str(data["name"]), data)
        RunFolder(out).check_new()
    if labels is not None and cleaned_table(Path(labels)) is None:
        _ = RunFolder.open(labels).summary  # it must be finished
    if verified is not None:
        Decisions.read(verified)
    with_trackers([], track)


def _data(
    settings: dict[str, Any], leads: bool, quiet: bool, only_look: bool, finetune: bool
) -> tuple[Config, Bundle, Bundle]:
    """The data of a command as they are found and through their door, with the encoder that suits them; the first line
    says which. ``only_look``: of features only the shape."""
    from selc.cli.embed import Bar, interruptible
    from selc.data.progress import reporting
    from selc.data.sources.recognise import suits
    from selc.encoders import NONE, encode, unencoded
    from selc.encoders.finetuned import NAME as FINETUNED
    from selc.encoders.finetuned import finetuning
    from selc.runs import Config
    from selc.runs.door import encoding_of, source
    from selc.runs.encoder_choice import expectation, suitable
    from selc.screen import reading
    from selc.world import current

    chosen = settings.pop("encoder", "auto")
    options = settings.pop("net", {}) if finetune else {}
    # says what is wrong before the data are read
    resolved = Config.resolve({**settings, "net": {**options, "name": FINETUNED}} if finetune else settings)
    with reading() if leads else nullcontext():
        found = current().in_turn(lambda: source(resolved))
    best = suitable({**settings, "encoder": chosen}, found)
    if finetune:
        made, recipe = finetuning(found, best.encoder)
        net = {**made, **{key: value for key, value in options.items() if key != "name"}}
        return Config.resolve({**settings, "net": net, "encoder": {"name": NONE}}, recipe), found, found
    settings = {**settings, "encoder": best.encoder}
    if leads and best.told and not quiet:
        print(folded(best.told, sys.stderr), file=sys.stderr)
    if best.encoder["name"] == NONE:
        return Config.resolve(settings, found.recipe), found, found
    resolved = Config.resolve(settings, suits(len(found.labels)))
    encoding = encoding_of(found, resolved)
    assert encoding is not None
    if leads and not quiet:
        print(folded(expectation(encoding, found, resolved), sys.stderr), file=sys.stderr)
    if only_look:
        return resolved, found, unencoded(found, encoding)
    shown = leads and not quiet
    says = interruptible() if leads and encoding.cache is not None else nullcontext()
    with says, Bar() if shown else nullcontext() as bar, reporting(bar.show) if bar is not None else nullcontext():
        return resolved, found, encode(found, encoding)


def resume(
    run: Annotated[Path, typer.Argument(help="Folder of a run that was interrupted.")],
    trust: Annotated[bool, typer.Option("--trust", help="Allow importing the custom code that the run names.")] = False,
    track: Track = None,
    quiet: Quiet = False,
    json_: AsJson = False,
) -> None:
    """Go on with a run that was interrupted; the result is the same as without the interruption."""
    with together():
        from selc.runs import RunFolder
        from selc.runs import resume as resume_run
        from selc.world import current

        if RunFolder.open(run).finished:
            if current().leads:
                if not quiet:
                    print(f"{run} is finished already; nothing to do.", file=sys.stderr)
                show_run(RunFolder.open(run), json_, quiet)
            return
        with resumable(run), _watched(quiet, track) as watching:
            folder = resume_run(run, watching, trust=trust)
        if current().leads:
            show_run(folder, json_, quiet)


def _short_name(data: str) -> str:
    return Path(data).expanduser().resolve().stem if Path(data).exists() else data


def _free_folder(name: str) -> Path:
    number = 1
    while (folder := Path("runs") / f"{name}-{number}").exists():
        number += 1
    return folder


def _last_folder(name: str) -> Path | None:
    """The folder that `_free_folder` gave out last."""
    number = int(_free_folder(name).name.rpartition("-")[2]) - 1
    return Path("runs") / f"{name}-{number}" if number else None


@contextmanager
def _watched(quiet: bool, track: list[str] | None) -> Iterator[list[Callback]]:
    """Only one of several processes shows how it goes, and tells trackers."""
    from selc.callbacks import Silent, with_trackers
    from selc.screen import Screen
    from selc.world import current

    if not current().leads:
        yield [Silent()]
        return
    with Screen(quiet=quiet) as screen:
        yield with_trackers([screen], track)
