"""Trains the model of the suite on clean shapes: `python -m tta_bench_plugin.train` (a minute on one core)."""

from __future__ import annotations

import torch
from safetensors.torch import save_file

from tta_bench_plugin.dataset import draw
from tta_bench_plugin.model import WEIGHTS, shapes_cnn, untrained

IMAGES, EPOCHS, BATCH = 2048, 20, 64


def main() -> None:
    torch.manual_seed(0)
    network, about = untrained(), shapes_cnn()
    images, labels = (torch.from_numpy(array) for array in draw(IMAGES, seed=10))
    inputs = (images / 255 - about.mean[0]) / about.std[0]
    optimizer = torch.optim.Adam(network.parameters(), lr=3e-3)
    for epoch in range(EPOCHS):
        for batch in torch.randperm(IMAGES).split(BATCH):
            loss = torch.nn.functional.cross_entropy(network(inputs[batch]), labels[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch + 1} of {EPOCHS}: loss {loss.item():.4f}")
    save_file(network.state_dict(), WEIGHTS)


if __name__ == "__main__":
    main()
