"""COME: be sure by weighing evidence, with room for "I do not know", and never by longer logits.

Lower entropy makes every prediction surer, the wrong ones too, and a model can always get there by stretching
its logits. COME reads them as evidence instead: e = exp(logit) of each class, and K for not knowing. Shares of
the whole, e / (sum e + K) and K / (sum e + K), are an opinion over the classes and one entry more. Its entropy
takes the place of the softmax entropy of TENT, EATA and SAR wherever they use it, in losses, filters and
weights; the gradient has no part along the logits, so their length is not what the loss changes.

Source: Zhang et al., "COME: Test-time Adaption by Conservatively Minimizing Entropy", ICLR 2025
(BlueWhaleLab/COME). The paper's K is the number of classes, which is the default; the released code has 1000 for
any number, `opinion_classes=1000`. As released, 1e-7 is added to each share, and a sample is also reliable if it
has no evidence at all: with logits far below ln K nearly all belongs to not knowing. Departs from the code
where it gives NaN: zero logits have no direction and so no gradient, and a logit of 89 or more, whose
exponential overflows, is treated like any other.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor


def opinion_entropy(logits: Tensor, evidence: int) -> Tensor:
    """Per-sample entropy, in nats, of the opinion over all classes and not knowing, whose evidence is given."""
    logits = _of_fixed_length(logits.float())
    unknown = torch.full_like(logits[:, :1], math.log(evidence))
    shares = torch.cat([logits, unknown], 1).softmax(1) + 1e-7
    return -(shares * shares.log()).sum(1)


def most_belief(logits: Tensor, evidence: int) -> Tensor:
    """Per-sample share of the class with the most evidence, as the paper scores how sure an answer is."""
    logits = logits.float()
    unknown = torch.full_like(logits[:, :1], math.log(evidence))
    return torch.cat([logits, unknown], 1).softmax(1)[:, :-1].amax(1)


def _of_fixed_length(logits: Tensor) -> Tensor:
    """The same numbers; gradients through them lose their part along the logits."""
    direction = F.normalize(logits.detach(), dim=1)
    length = (logits * direction).sum(1, keepdim=True)
    return logits - direction * (length - length.detach())


def classes_or_default(given: int | None, num_classes: int) -> int:
    """The evidence for not knowing; by default the number of classes."""
    if given is not None and given < 1:
        raise ValueError(f"opinion_classes is {given}, expected 1 or more, or none for the number of classes")
    return num_classes if given is None else given
