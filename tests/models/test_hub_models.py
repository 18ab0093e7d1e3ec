"""Models of the Hugging Face hub: their config counts, their code does not run, and cached ones need no network."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import timm
import torch
from torch import Tensor, nn

from tests.support import hubs
from tests.support.hubs import CONFIG
from tta_bench.errors import UserError
from tta_bench.models import checkpoint, names
from tta_bench.models import source as models

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def vit() -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        network: nn.Module = timm.create_model("test_vit", num_classes=12)
    return network.eval()


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, and no network."""
    hubs.cache(tmp_path / "hub", monkeypatch)
    hubs.no_network(monkeypatch)
    return tmp_path / "hub"


@pytest.mark.parametrize("config", [CONFIG, hubs.OLD], ids=["two levels", "one level"])
@pytest.mark.parametrize("file", ["model.safetensors", "pytorch_model.bin"])
def test_a_cached_repository_is_loaded_as_its_config_says(vit: nn.Module, home: Path, file: str, config: Any) -> None:
    hubs.cached(home, vit, file=file, config=config)
    found = models.load("hf_hub:lab/vit")
    assert (found.name, found.num_classes, found.input_size, found.interpolation) == (
        "hf_hub:lab/vit",
        12,
        160,
        "bilinear",
    )
    assert (found.mean, found.std) == ((0.4, 0.5, 0.6), (0.1, 0.2, 0.3))
    assert found.weights_hash == checkpoint.weights_hash(vit.state_dict())
    images = torch.rand(2, 3, 160, 160, generator=torch.Generator().manual_seed(0))
    mean, std = (Tensor(values).view(1, 3, 1, 1) for values in (found.mean, found.std))
    torch.testing.assert_close(found.fresh(CPU)(images), vit((images - mean) / std))


def test_a_revision_is_loaded_by_its_name_or_commit(vit: nn.Module, home: Path) -> None:
    hubs.cached(home, vit, revision="v2")
    for revision in ("v2", hubs.COMMIT):
        assert models.load(f"hf_hub:lab/vit@{revision}").num_classes == 12
        assert "snapshots" in str(names.stamp(f"hf_hub:lab/vit@{revision}"))
    with pytest.raises(UserError, match="not in the cache, and no network"):
        models.load("hf_hub:lab/vit")


def test_a_folder_is_loaded_from_any_working_folder(
    vit: nn.Module, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hubs.fill(tmp_path / "lr=0.1" / "vit", vit)
    name = names.findable("local-dir:lr=0.1/vit")
    assert name == f"local-dir:{tmp_path}/lr=0.1/vit"
    monkeypatch.chdir("/")
    found = models.load(name)
    assert (found.name, found.num_classes) == ("local-dir:vit", 12)


def test_a_changed_cache_changes_the_stamp(vit: nn.Module, home: Path) -> None:
    assert names.stamp("hf_hub:lab/vit") is None, "nothing is there"
    folder = hubs.cached(home, vit)
    before = names.stamp("hf_hub:lab/vit")
    assert before == names.stamp("hf_hub:lab/vit") is not None
    (folder / "config.json").write_text(json.dumps({**CONFIG, "num_classes": 10}))
    assert names.stamp("hf_hub:lab/vit") != before


IMAGES = CONFIG["pretrained_cfg"]


def without(key: str) -> dict[str, Any]:
    return {**CONFIG, "pretrained_cfg": {name: value for name, value in IMAGES.items() if name != key}}


def images(**changes: Any) -> dict[str, Any]:
    return {**CONFIG, "pretrained_cfg": {**IMAGES, **changes}}


@pytest.mark.parametrize(
    ("config", "said"),
    [
        (without("mean"), "config.json: missing key 'mean'"),
        (without("std"), "config.json: missing key 'std'"),
        (images(std=[0, 1, 1]), "config.json: std: entry 1: expected a number above 0, got 0"),
        (images(input_size=[3, 160, 120]), "config.json: input_size: expected 3 channels and a square"),
        (images(input_size=[3, 224, 224]), "model.safetensors: weights do not fit .*size mismatch: pos_embed"),
        (
            {**CONFIG, "model_args": {"img_size": 96}},
            "input_size is 160 pixels, but model_args make 'test_vit' take 96",
        ),
        ({**CONFIG, "num_classes": 10}, r"model.safetensors: weights do not fit .*head.weight \(12, 64\) where"),
        ({**CONFIG, "architecture": "test_resnet"}, "model.safetensors: weights do not fit 'test_resnet' of config"),
        ({**CONFIG, "architecture": "test_vti"}, "config.json: unknown model 'test_vti'; did you mean 'test_vit'"),
        ({**CONFIG, "model_args": {"legs": 4}}, "model 'test_vit' cannot be built: .*legs"),
        ({**CONFIG, "model_args": {"checkpoint_path": "x"}}, "model_args: 'checkpoint_path' is not an argument of"),
        (
            {"model_type": "vit", "architectures": ["ViTForImageClassification"]},
            "'ViTForImageClassification' of the Tr",
        ),
        ({"pretrained_cfg": 3}, "pretrained_cfg: expected keys and values"),
        ("[]", "config.json: expected keys and values"),
        ("{", "config.json: invalid JSON"),
    ],
)
def test_a_config_that_does_not_do_is_one_line(config: Any, said: str, vit: nn.Module, home: Path) -> None:
    hubs.cached(home, vit, config=config)
    with pytest.raises(UserError, match=said) as caught:
        models.load("hf_hub:lab/vit")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("hf_hub:lab/none", "config.json of 'hf_hub:lab/none' cannot be loaded .*no network: Name or .*HF_HOME"),
        ("hf_hub:vit", "'hf_hub:vit': expected hf_hub:OWNER/NAME"),
        ("hf_hub:", "'hf_hub:' is a family: use --model hf_hub:OWNER/NAME"),
        ("hf-hub:lab/vit", "no models start with 'hf-hub:'; did you mean 'hf_hub'"),
        ("local-dir:/no/such", "model folder /no/such does not exist"),
        ("digits-vit:x", "'digits-vit' is not a family"),
    ],
)
def test_a_name_that_leads_nowhere_is_one_line(name: str, said: str, home: Path) -> None:
    with pytest.raises(UserError, match=said) as caught:
        models.load(name)
    assert "\n" not in str(caught.value)


def test_damaged_and_missing_files_are_named(vit: nn.Module, home: Path, tmp_path: Path) -> None:
    folder = hubs.cached(home, vit)
    whole = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(UserError, match=f"{folder}/model.safetensors: not a readable safetensors file"):
        models.load("hf_hub:lab/vit")
    (folder / "model.safetensors").unlink()
    with pytest.raises(UserError, match="model.safetensors or pytorch_model.bin of 'hf_hub:lab/vit' cannot be loaded"):
        models.load("hf_hub:lab/vit")
    with pytest.raises(UserError, match="has no weights: expected model.safetensors or pytorch_model.bin"):
        models.load(f"local-dir:{folder}")
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match="has no config.json"):
        models.load(f"local-dir:{tmp_path / 'empty'}")


@pytest.mark.parametrize("form", ["local-dir:{0}", "test_vit={0}/pytorch_model.bin"])
def test_code_in_weights_is_not_run(form: str, vit: nn.Module, tmp_path: Path) -> None:
    folder, mark = hubs.fill(tmp_path / "evil", vit, file=""), tmp_path / "mark"
    torch.save({**vit.state_dict(), "extra": hubs.Code(mark)}, folder / "pytorch_model.bin")
    with pytest.raises(UserError, match="pytorch_model.bin: holds more than weights, and its code is not run"):
        models.load(form.format(folder))
    assert not mark.exists()
    torch.load(folder / "pytorch_model.bin", weights_only=False)
    assert mark.exists(), "the file would have run its code"


def test_a_web_page_is_no_weights(tmp_path: Path) -> None:
    (tmp_path / "x.bin").write_text("<!DOCTYPE html><html><title>Google Drive - Virus scan warning</title>")
    with pytest.raises(UserError, match="x.bin: is a web page, not weights"):
        models.load(f"test_vit={tmp_path / 'x.bin'}")


# The hub itself


class Hub(BaseHTTPRequestHandler):
    """Answers what the hub answers for the files of one repository."""

    folder: Path

    def do_HEAD(self) -> None:
        self.answer()

    def do_GET(self) -> None:
        self.answer()

    def answer(self) -> None:
        file = self.folder / self.path.rpartition("/")[2]
        if not self.path.startswith("/lab/vit/resolve/"):
            self.send_response(404)
            self.send_header("X-Error-Code", "RepoNotFound")
        elif not file.is_file():
            self.send_response(404)
            self.send_header("X-Error-Code", "EntryNotFound")
            self.send_header("X-Repo-Commit", hubs.COMMIT)
        else:
            content = file.read_bytes()
            self.send_response(200)
            self.send_header("X-Repo-Commit", hubs.COMMIT)
            self.send_header("ETag", f'"{len(content)}"')
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(content)
            return
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *words: Any) -> None:
        pass


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder that a hub on this machine serves as lab/vit."""
    from huggingface_hub import constants

    Hub.folder = tmp_path / "served"
    hubs.cache(tmp_path / "hub", monkeypatch)
    running = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    threading.Thread(target=running.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{running.server_port}"
    monkeypatch.setattr(constants, "ENDPOINT", address)
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", address + "/{repo_id}/resolve/{revision}/{filename}")
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_PROGRESS_BARS", True)
    yield Hub.folder
    running.shutdown()
    running.server_close()


@pytest.mark.parametrize("file", ["model.safetensors", "pytorch_model.bin"])
def test_a_repository_is_downloaded_once(
    file: str, vit: nn.Module, server: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hubs.fill(server, vit, file=file)
    found = models.load("hf_hub:lab/vit")
    assert found.weights_hash == checkpoint.weights_hash(vit.state_dict())
    hubs.no_network(monkeypatch)
    assert names.stamp("hf_hub:lab/vit") is not None
    assert models.load("hf_hub:lab/vit").weights_hash == found.weights_hash


def test_an_unknown_repository_is_one_line(server: Path) -> None:
    with pytest.raises(
        UserError, match="config.json of 'hf_hub:lab/other' cannot be loaded .RepositoryNotFoundError: 4"
    ) as caught:
        models.load("hf_hub:lab/other")
    assert "\n" not in str(caught.value)
