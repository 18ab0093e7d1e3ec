"""timm models that are built with other arguments than their tag has, as with another input size.

    --model TAG=FILE --model-args img_size=98       as it is asked for
    timm:TAG,img_size:98=FILE                       its name, which records have without the file

The arguments are those of timm's function of that name. A name has a colon where the option has an equals sign: what
follows the equals sign of a model's name is its file.
"""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tta_bench.errors import UserError
from tta_bench.models.packaged import Family, PackagedModel

if TYPE_CHECKING:
    from torch import nn

Value = bool | int | float | str
PREFIX = "timm:"
_ARGUMENT = re.compile(r"[A-Za-z_]\w*[=:][\w.+-]+")
_FIXED = ("num_classes", "pretrained", "checkpoint_path", "in_chans", "features_only")  # the file's and the harness's


def family() -> Family:
    """The family of the entry point `timm`."""
    return Family(pick, "TAG=FILE --model-args NAME=VALUE", "a timm model with other arguments, as in img_size=98")


def named(model: str | None, given: str) -> str:
    """The name of a model TAG=FILE with these arguments, as in img_size=98,depth=6."""
    where = f"--model-args {given}"
    tag, equals, file = (model or "").partition("=")
    if not equals or ":" in tag:
        raise UserError(
            f"{where}: requires --model TAG=FILE, a timm model with weights from a file (got {model or 'none'})"
        )
    _arguments(given, where)
    return f"{PREFIX}{tag},{given.replace('=', ':')}={file}"


def pick(rest: str) -> PackagedModel:
    """The model behind what follows `timm:`."""
    chosen, _, file = rest.partition("=")
    tag, _, given = chosen.partition(",")
    if not file or not given:
        raise UserError(f"model '{PREFIX}{rest}': expected --model TAG=FILE --model-args NAME=VALUE")
    path, arguments = Path(file).expanduser(), _arguments(given, f"model '{PREFIX}{rest}'")
    return PackagedModel(build=partial(_trained, tag, arguments, path), files=(path,))


def _arguments(given: str, where: str) -> dict[str, Value]:
    found: dict[str, Value] = {}
    for text in given.split(","):
        name, _, value = text.replace("=", ":").partition(":")
        if not _ARGUMENT.fullmatch(text):
            raise UserError(f"{where}: expected NAME=VALUE, joined by commas, as in img_size=98 (got '{text}')")
        if name in _FIXED or name in found:
            why = "is given twice" if name in found else "follows from the file, or would change what methods see"
            raise UserError(f"{where}: {name} {why}: omit it")
        found[name] = _value(value)
    return found


def _value(text: str) -> Value:
    if text in ("true", "false"):
        return text == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _trained(tag: str, arguments: dict[str, Value], path: Path) -> nn.Module:
    from tta_bench.models import weights
    from tta_bench.models.checkpoint import fill

    shown = f"'{tag}' with {', '.join(f'{name}={value}' for name, value in arguments.items())}"
    weights.refuse_unknown(tag)
    weights.refuse_unreadable(path)
    if path.suffix == ".npz":
        raise UserError(f"{path}: --model-args takes no .npz, whose loader changes weights to fit: convert it")
    state, network = weights.read_state(path), weights.create(tag, **arguments)
    any_network: Any = network
    names = {id(module): name for name, module in network.named_modules()}
    head = state.get(f"{names.get(id(any_network.get_classifier()))}.weight")
    if head is not None and len(head) != any_network.num_classes:
        any_network.reset_classifier(len(head))
    fill(network, state, path, shown)
    return network
