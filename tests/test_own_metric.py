"""A metric outside of the package: named by where it is imported from, shown wherever ours are."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

import selc
from selc._io.files import read_json
from selc.errors import ConfigError
from selc.runs import Config, RunFolder
from selc.training.metrics import METRICS, ROWS, chosen
from tests.test_cli import call, refused

PAGE = (Path(__file__).parents[1] / "docs" / "metrics.md").read_text()
BRIER = PAGE.partition("```python\n")[2].partition("```")[0]
METRIC = f"""
from pathlib import Path
Path("sprung").touch()
{BRIER}
def sure(confidences, *, above=0.0):
    return (confidences > above).double().mean()

def top1(labels): return 0.0
def other_words(y_true, y_pred): return 0.0
def broken(labels): return labels.no_such_thing
def words(labels): return "good"
class Kind: pass
number = 3
"""
OWN = "import:mymetrics:brier"
QUICK = ("--method", "ce", "--epochs", "2", "--set", "net.hidden=[8]")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with the module of a user in it."""
    assert "def brier(probs, labels):" in BRIER
    (tmp_path / "mymetrics.py").write_text(METRIC)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "mymetrics", raising=False)
    return tmp_path


def forget(here: Path) -> None:
    """As in a process that has not met the module yet."""
    (here / "sprung").unlink()
    sys.modules.pop("mymetrics", None)


def test_it_is_in_the_metrics_the_summary_on_the_screen_and_in_the_report_which_imports_nothing(here: Path) -> None:
    done = call("train", "moons", *QUICK, "--metrics", f"{OWN}, macro_f1", "--out", "run")
    assert done.exit_code == 0, done.output
    run = RunFolder.open("run")
    assert run.config.train.metrics == [OWN, "macro_f1"]
    lines = [json.loads(line) for line in (run.path / "metrics.jsonl").read_text().splitlines()]
    assert all(list(line["test"]) == ["top1", "brier", "macro_f1"] for line in lines)
    value = lines[-1]["test"]["brier"]
    assert 0 < value < 2
    assert run.summary["accuracy"]["test"]["brier"] == value
    assert f"test metrics      brier {value:.4g}, macro F1 " in done.stdout
    forget(here)
    assert call("report", "run").exit_code == 0
    assert f'<th scope="row">brier</th><td class="n">{value:.4g}</td>' in (run.path / "report.html").read_text()
    assert not (here / "sprung").exists()


def test_it_computes_what_its_author_wrote_of_all_probabilities(here: Path) -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(60, 3)).astype("float32"), np.arange(60) % 3
    outcome = selc.fit(x, y, method="ce", tests={"same": (x, y)}, epochs=1, batch_size=20, metrics=[OWN])
    probs = outcome.probs.full().double().numpy()
    expected = ((probs - np.eye(3)[y]) ** 2).sum(axis=1).mean()
    assert outcome.history[-1]["same"]["brier"] == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("import:mymetrics", r"metric must be import:package.module:attribute, such as .*; got 'import:mymetrics'"),
        ("import:nowhere:brier", r"metric import:nowhere:brier must import; got ModuleNotFoundError"),
        ("import:mymetrics:breir", r"the attribute must be one of .* got 'breir'"),
        ("import:mymetrics:number", r"must be a function of predictions; got int"),
        ("import:mymetrics:Kind", r"must be a function of predictions; got a class"),
        ("import:mymetrics:other_words", r"must be among labels, predictions, .*; got 'y_true'. Wrap it"),
        ("import:mymetrics:top1", r"must have a name of its own; got import:mymetrics:top1, and 'top1' is taken"),
    ],
)
def test_what_is_no_metric_gets_a_sentence_before_a_folder_is_made(name: str, sentence: str, here: Path) -> None:
    with pytest.raises(ConfigError, match=sentence):
        chosen([name])
    x, y = np.zeros((6, 2), dtype="float32"), np.arange(6) % 2
    with pytest.raises(ConfigError, match=sentence):
        selc.fit(x, y, method="ce", epochs=1, metrics=[name], out="run")
    assert not Path("run").exists()


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("broken", "metric import:mymetrics:broken must give a number for a set; got AttributeError"),
        ("words", "metric 'words' must give a number for a set; got str"),
    ],
)
def test_what_goes_wrong_in_it_gets_a_sentence(name: str, sentence: str, here: Path) -> None:
    assert sentence in refused("train", "moons", *QUICK, "--metrics", f"import:mymetrics:{name}")


def test_a_parameter_with_a_default_is_its_own_affair(here: Path) -> None:
    x, y = np.random.default_rng(0).normal(size=(20, 2)).astype("float32"), np.arange(20) % 2
    outcome = selc.fit(
        x, y, method="ce", tests={"t": (x, y)}, epochs=1, batch_size=10, metrics=["import:mymetrics:sure"]
    )
    assert outcome.history[-1]["t"]["sure"] == 1.0
    assert METRICS.describe(OWN) == "Mean squared distance of the probabilities from the label."


def test_a_run_folder_is_read_without_importing_it_and_gone_on_with_on_the_word_of_the_user(here: Path) -> None:
    config = Config.resolve({"data": "moons", "train": {"metrics": [OWN]}})
    config.save(here / "config.toml")
    forget(here)
    loaded = RunFolder.open(here).config
    assert loaded.train.metrics == [OWN]
    with pytest.raises(ConfigError, match=r"is a run of the metric import:mymetrics:brier, .* got no trust=True"):
        loaded.check_trusted(here, False, measures=True)
    loaded.check_trusted(here, False)  # to predict, nothing is measured
    loaded.check_trusted(here, True, measures=True)
    assert not (here / "sprung").exists()


def test_the_metrics_of_a_run_are_no_part_of_what_its_result_depends_on(here: Path) -> None:
    runs = [Config.resolve({"data": "moons", "train": {"metrics": names}}) for names in ([], ["macro_f1"], [OWN])]
    assert len({config.fingerprint("") for config in runs}) == 1


def test_no_metric_but_the_headline_is_measured_if_none_is_asked_for(here: Path) -> None:
    done = call("train", "moons", *QUICK, "--metrics", "", "--out", "run")
    assert done.exit_code == 0, done.output
    assert list(read_json(Path("run/summary.json"))["accuracy"]["test"]) == ["top1"]
    assert "test metrics" not in done.stdout


def test_the_page_tells_of_everything_that_a_metric_may_name() -> None:
    for name in ROWS:
        assert f"\n| `{name}` |" in PAGE
