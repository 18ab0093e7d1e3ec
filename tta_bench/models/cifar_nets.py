"""CIFAR networks: those of RobustBench, with the layer names of its files, and the ResNet that is trained here."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn


def _conv(before: int, after: int, size: int, stride: int = 1, groups: int = 1) -> nn.Conv2d:
    return nn.Conv2d(before, after, size, stride, padding=size // 2, groups=groups, bias=False)


class Classifying(nn.Module):
    """A network that ends in average pooling and one linear layer; has the names that timm gives these parts."""

    def __init__(self, num_classes: int, num_features: int) -> None:
        super().__init__()
        self.num_classes, self.num_features = num_classes, num_features

    def get_classifier(self) -> nn.Linear:
        """The layer that makes the logits."""
        raise NotImplementedError

    def forward_features(self, images: Tensor) -> Tensor:
        """The feature maps before pooling."""
        raise NotImplementedError

    def forward(self, images: Tensor) -> Tensor:
        pooled = F.adaptive_avg_pool2d(self.forward_features(images), 1).flatten(1)
        logits: Tensor = self.get_classifier()(pooled)
        return logits


class WideBlock(nn.Module):
    """Two convolutions, each after BatchNorm and ReLU; where the width changes, the shortcut starts after the first."""

    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.bn1 = nn.BatchNorm2d(before)
        self.conv1 = _conv(before, after, 3, stride)
        self.bn2 = nn.BatchNorm2d(after)
        self.conv2 = _conv(after, after, 3)
        self.convShortcut = None if before == after else _conv(before, after, 1, stride)

    def forward(self, x: Tensor) -> Tensor:
        start = F.relu(self.bn1(x))
        shortcut = x if self.convShortcut is None else self.convShortcut(start)
        sum_: Tensor = shortcut + self.conv2(F.relu(self.bn2(self.conv1(start))))
        return sum_


class WideStage(nn.Module):
    """Blocks of one width; the first may reduce the resolution."""

    def __init__(self, blocks: int, before: int, after: int, stride: int) -> None:
        super().__init__()
        first = WideBlock(before, after, stride)
        self.layer = nn.Sequential(first, *(WideBlock(after, after, 1) for _ in range(blocks - 1)))

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.layer(x)
        return out


class WideResNet(Classifying):
    """WRN-`depth`-`width` (Zagoruyko and Komodakis, 2016): three stages, `(depth - 4) / 6` blocks each."""

    def __init__(self, depth: int = 28, width: int = 10, num_classes: int = 10) -> None:
        super().__init__(num_classes, 64 * width)
        blocks = (depth - 4) // 6
        self.conv1 = _conv(3, 16, 3)
        self.block1 = WideStage(blocks, 16, 16 * width, 1)
        self.block2 = WideStage(blocks, 16 * width, 32 * width, 2)
        self.block3 = WideStage(blocks, 32 * width, 64 * width, 2)
        self.bn1 = nn.BatchNorm2d(64 * width)
        self.fc = nn.Linear(64 * width, num_classes)

    def get_classifier(self) -> nn.Linear:
        return self.fc

    def forward_features(self, images: Tensor) -> Tensor:
        return F.relu(self.bn1(self.block3(self.block2(self.block1(self.conv1(images))))))


class Bottleneck(nn.Module):
    """A grouped 3x3 convolution between two 1x1 ones, with four times `planes` channels at the end."""

    def __init__(self, before: int, planes: int, groups: int, group_width: int, stride: int) -> None:
        super().__init__()
        inner, after = planes * group_width // 64 * groups, 4 * planes
        self.conv_reduce = _conv(before, inner, 1)
        self.bn_reduce = nn.BatchNorm2d(inner)
        self.conv_conv = _conv(inner, inner, 3, stride, groups)
        self.bn = nn.BatchNorm2d(inner)
        self.conv_expand = _conv(inner, after, 1)
        self.bn_expand = nn.BatchNorm2d(after)
        changes = before != after or stride != 1
        self.downsample = nn.Sequential(_conv(before, after, 1, stride), nn.BatchNorm2d(after)) if changes else None

    def forward(self, x: Tensor) -> Tensor:
        out = F.relu(self.bn_reduce(self.conv_reduce(x)))
        out = F.relu(self.bn(self.conv_conv(out)))
        shortcut = x if self.downsample is None else self.downsample(x)
        return F.relu(shortcut + self.bn_expand(self.conv_expand(out)))


class ResNeXt(Classifying):
    """ResNeXt-`depth` for CIFAR (Xie et al., 2017): three stages, `(depth - 2) / 9` bottlenecks each."""

    def __init__(self, depth: int = 29, groups: int = 4, group_width: int = 32, num_classes: int = 10) -> None:
        super().__init__(num_classes, 1024)
        self.conv_1_3x3 = _conv(3, 64, 3)
        self.bn_1 = nn.BatchNorm2d(64)
        stages, before = [], 64
        for planes, stride in ((64, 1), (128, 2), (256, 2)):
            blocks = []
            for i in range((depth - 2) // 9):
                blocks.append(Bottleneck(before, planes, groups, group_width, stride if i == 0 else 1))
                before = 4 * planes
            stages.append(nn.Sequential(*blocks))
        self.stage_1, self.stage_2, self.stage_3 = stages
        self.classifier = nn.Linear(1024, num_classes)

    def get_classifier(self) -> nn.Linear:
        return self.classifier

    def forward_features(self, images: Tensor) -> Tensor:
        start = F.relu(self.bn_1(self.conv_1_3x3(images)))
        maps: Tensor = self.stage_3(self.stage_2(self.stage_1(start)))
        return maps


class BasicBlock(nn.Module):
    """Two 3x3 convolutions; where the width changes, the shortcut skips pixels and adds empty channels."""

    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.conv1 = _conv(before, after, 3, stride)
        self.bn1 = nn.BatchNorm2d(after)
        self.conv2 = _conv(after, after, 3)
        self.bn2 = nn.BatchNorm2d(after)
        self.added, self.stride = after - before, stride

    def forward(self, x: Tensor) -> Tensor:
        out = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        shortcut = x[:, :, :: self.stride, :: self.stride]
        if self.added:
            shortcut = F.pad(shortcut, (0, 0, 0, 0, self.added // 2, self.added // 2))
        return F.relu(out + shortcut)


class ResNet(Classifying):
    """ResNet-`depth` for CIFAR (He et al., 2016): three stages, `(depth - 2) / 6` blocks each."""

    def __init__(self, depth: int = 20, num_classes: int = 10) -> None:
        super().__init__(num_classes, 64)
        self.conv1 = _conv(3, 16, 3)
        self.bn1 = nn.BatchNorm2d(16)
        stages, before = [], 16
        for width in (16, 32, 64):
            strides = [1 if width == 16 else 2] + [1] * ((depth - 2) // 6 - 1)
            blocks = []
            for stride in strides:
                blocks.append(BasicBlock(before, width, stride))
                before = width
            stages.append(nn.Sequential(*blocks))
        self.layer1, self.layer2, self.layer3 = stages
        self.fc = nn.Linear(64, num_classes)

    def get_classifier(self) -> nn.Linear:
        return self.fc

    def forward_features(self, images: Tensor) -> Tensor:
        start = F.relu(self.bn1(self.conv1(images)))
        maps: Tensor = self.layer3(self.layer2(self.layer1(start)))
        return maps
