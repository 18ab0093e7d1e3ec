"""Checkpoints that know how to build their model: safetensors with a JSON note in the header."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Meta

from tta_bench.checked import validate
from tta_bench.checked.annotations import Positive
from tta_bench.checked.parse import from_json
from tta_bench.errors import UserError, reason, some
from tta_bench.files import write_whole

if TYPE_CHECKING:
    from torch import Tensor, nn

HEADER = "tta_bench"


@dataclass(frozen=True)
class ModelNote:
    """How to build a checkpoint's model, and how it was trained."""

    architecture: dict[
        str, Any
    ]  # arguments of timm's VisionTransformer, {"timm": name, …} or {"cifar_resnet": depth, …}
    mean: Annotated[tuple[float, ...], Meta(min_length=3, max_length=3, title="3 numbers")]
    std: Annotated[tuple[Positive, ...], Meta(min_length=3, max_length=3, title="3 numbers above 0")]
    made_by: dict[str, Any] = field(default_factory=dict)  # command, seed, accuracy


def save(model: nn.Module, note: ModelNote, path: Path) -> None:
    """Write weights and note atomically."""
    from safetensors.torch import save as as_bytes

    weights = {name: tensor.detach().cpu().contiguous() for name, tensor in model.state_dict().items()}
    write_whole(path, as_bytes(weights, metadata={HEADER: json.dumps(asdict(note), sort_keys=True)}))


class NoNote(UserError):
    """A safetensors file that `save` did not write."""


def load(path: Path) -> tuple[dict[str, Tensor], ModelNote]:
    """Read a checkpoint that `save` wrote."""
    note = read_note(path)
    with _opened(path, "pt") as file:
        return {name: file.get_tensor(name) for name in file.keys()}, note  # noqa: SIM118 (no mapping)


def read_note(path: Path) -> ModelNote:
    """The note of a checkpoint, without its weights and without torch."""
    with _opened(path, "numpy") as file:
        header = (file.metadata() or {}).get(HEADER)
    if header is None:
        raise NoNote(f"{path}: has no '{HEADER}' note in its header, so its architecture is unknown")
    where = f"{path}: the '{HEADER}' note in its header"
    return validate.read(ModelNote, from_json(header, where), where)


@contextmanager
def _opened(path: Path, framework: str) -> Iterator[Any]:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework=framework) as file:
            yield file
    except (SafetensorError, OSError) as error:
        raise UserError(f"{path}: not a readable safetensors file ({error})") from error


def describe(path: Path) -> str:
    """A text file for a checkpoint: how it was made, its accuracy, and the hash of its weights."""
    weights, note = load(path)
    made = note.made_by
    return (
        f"# {path.name}\n\n"
        f"- made by `{made.get('command')}` (torch {made.get('torch')})\n"
        f"- seed {made.get('seed')}\n"
        f"- {100 * made.get('clean_test_accuracy', 0):.2f} % on the clean test split\n"
        f"- weights `{weights_hash(weights)}`, {sum(t.numel() for t in weights.values()):,} numbers\n"
        f"- architecture {json.dumps(note.architecture)}, mean {note.mean[0]}, std {note.std[0]}\n"
    )


def build(note: ModelNote) -> nn.Module:
    """The model that the note describes, with fresh weights."""
    import timm
    from timm.models.vision_transformer import VisionTransformer

    from tta_bench.models.cifar_nets import ResNet

    arguments = dict(note.architecture)
    if "cifar_resnet" in arguments:
        return ResNet(arguments.pop("cifar_resnet"), **arguments)
    name = arguments.pop("timm", None)
    model: nn.Module = timm.create_model(name, **arguments) if name else VisionTransformer(**arguments)
    return model


def restore(path: Path) -> tuple[nn.Module, ModelNote]:
    """The trained model of a checkpoint that `save` wrote, and its note."""
    state, note = load(path)
    try:
        network = build(note)
    except Exception as error:  # timm does not check names and sizes: anything may fail
        raise UserError(
            f"{path}: the architecture in its header cannot be built ({reason(error, 200)}); "
            f"if it is a timm model, use --model NAME={path}"
        ) from error
    fill(network, state, path, "the architecture in its header")
    return network, note


def fill(network: nn.Module, state: Mapping[str, Tensor], path: Path, name: str) -> None:
    """Load a file's weights into a network; UserError if they do not fit."""
    if wrong := misfit(network, state):
        raise UserError(f"{path}: weights do not fit {name}: {wrong}")
    network.load_state_dict(state)


def misfit(network: nn.Module, state: Mapping[str, Tensor]) -> str | None:
    """How weights differ from a network's, with the first names of each kind; None if they fit."""
    own = network.state_dict()
    optional = "num_batches_tracked"  # torch adds these
    missing = [name for name in own if name not in state and not name.endswith(optional)]
    unexpected = [name for name in state if name not in own]
    other = [
        f"{name} {tuple(state[name].shape)} where the model has {tuple(tensor.shape)}"
        for name, tensor in own.items()
        if name in state and state[name].shape != tensor.shape
    ]
    differences = (("missing:", missing), ("unexpected:", unexpected), ("size mismatch:", other))
    return "; ".join(f"{kind} {some(names)}" for kind, names in differences if names) or None


def weights_hash(state: Mapping[str, Tensor]) -> str:
    """A hash of weights by their content, whatever file they came from."""
    import torch

    digest = hashlib.sha256()
    for name in sorted(state):
        tensor = state[name].detach().cpu().contiguous()
        digest.update(f"{name}:{tensor.dtype}:{tuple(tensor.shape)}".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()[:16]
