"""Which norm layers adapt, and how a model is set up for it. Shared by every method that adapts norms."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn

from tta_bench.errors import UserError

NORMS = (nn.BatchNorm2d, nn.GroupNorm, nn.LayerNorm)
ROWS = (nn.Sequential, nn.ModuleList)

# The released DPAL code names these blocks whatever the depth: the last three of a ViT-B, and on a ViT-L
# (24 blocks) three in the middle besides the last three. Blocks that a model does not have are passed over.
PUBLISHED_FROZEN_BLOCKS = (9, 10, 11, 21, 22, 23)
PUBLISHED_FROZEN_STAGES = (4,)


def norm_parameters(model: nn.Module, frozen: Sequence[nn.Module] = ()) -> dict[str, nn.Parameter]:
    """Weights and biases of all norm layers outside the frozen modules, by the model's own names."""
    still = {id(module) for part in frozen for module in part.modules()}
    found = {
        f"{name}.{leaf}" if name else leaf: parameter
        for name, module in model.named_modules()
        if isinstance(module, NORMS) and id(module) not in still
        for leaf, parameter in module.named_parameters(recurse=False)
    }
    if not found:
        raise UserError(f"{type(model).__name__} has no BatchNorm2d, GroupNorm or LayerNorm with weights to adapt")
    return found


def frozen_modules(model: nn.Module, frozen_blocks: Sequence[int] | None) -> list[nn.Module]:
    """The parts that SAR and DPAL leave alone: late blocks and the final norm of a ViT, or late stages.

    The numbers count `blocks`, or name the stages `layer1` to `layer4`; None stands for the published choice.
    """
    trunks = [m for m in model.modules() if hasattr(m, "layer4") or isinstance(getattr(m, "blocks", None), ROWS)]
    if len(trunks) != 1:
        if frozen_blocks is not None and not frozen_blocks:
            return []
        raise UserError(
            f"{type(model).__name__} is no single row of `blocks` (a ViT) or `layer1` to `layer4` (a ResNet): "
            f"unknown which norms stay frozen; set frozen_blocks to an empty list to adapt them all"
        )
    parts = dict(trunks[0].named_children())
    if "blocks" not in parts:
        stages = {i: parts[f"layer{i}"] for i in range(1, 5) if f"layer{i}" in parts}
        return _chosen(stages, frozen_blocks, PUBLISHED_FROZEN_STAGES)
    # By its name, as released: where timm pools by average, `norm` is empty, and `fc_norm` in its place adapts.
    final = [parts["norm"]] if "norm" in parts else []
    return _chosen(dict(enumerate(parts["blocks"].children())), frozen_blocks, PUBLISHED_FROZEN_BLOCKS) + final


def _chosen(numbered: dict[int, nn.Module], given: Sequence[int] | None, published: Sequence[int]) -> list[nn.Module]:
    if given is None:
        return [numbered[i] for i in published if i in numbered]
    if unknown := sorted(set(given) - set(numbered)):
        raise ValueError(f"frozen_blocks: no block {unknown[0]} among {min(numbered)} to {max(numbered)}")
    return [numbered[i] for i in given]


def set_up(model: nn.Module, adapted: Sequence[Tensor]) -> None:
    """Evaluation mode, gradients for the adapted tensors only, BatchNorm on the statistics of the batch.

    The released loops differ (SAR adapts in training mode, TENT and EATA in evaluation mode); without dropout
    and drop-path that is the same, and with them only evaluation mode can be repeated.
    """
    model.eval().requires_grad_(False)
    for tensor in adapted:
        tensor.requires_grad_(True)
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.track_running_stats = False
            module.running_mean = module.running_var = None


def samples_interact(model: nn.Module) -> bool:
    """Whether one sample's logits depend on the others in its batch: BatchNorm on batch statistics."""
    return any(isinstance(m, nn.BatchNorm2d) and m.running_mean is None for m in model.modules())


def published_lr(model: nn.Module, batch_size: int) -> float:
    """The rate of the SAR authors' driver for TENT, EATA and SAR, by the kind of model and the batch size."""
    if any(isinstance(module, nn.LayerNorm) for module in model.modules()):
        return 1e-3 * batch_size / 64
    return 2.5e-4 if batch_size >= 32 else 2 * 2.5e-4 * batch_size / 64
