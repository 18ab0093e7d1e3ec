"""`tta-bench make-corrupted`: the ImageNet-C tree from clean images."""

from __future__ import annotations

import argparse
import time
from contextlib import closing
from pathlib import Path

from tta_bench.cli import options

NAMED = 20  # bad images that are listed at the end


def add(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    verb = verbs.add_parser(
        "make-corrupted",
        help="make ImageNet-C from clean images",
        description="Write <out>/<corruption>/<severity>/<wnid>/<name>.JPEG from clean images in class folders. "
        "Existing files are kept: run the same command again to resume.",
    )
    verb.add_argument("--from", type=Path, dest="clean", metavar="DIR", help="clean images: <wnid>/<name>.JPEG")
    verb.add_argument(
        "--cifar", type=int, choices=(10, 100), help="make CIFAR-10-C or CIFAR-100-C instead, from --data-root"
    )
    options.add_data_root(verb)
    verb.add_argument(
        "--out", type=Path, metavar="DIR", help="output folder (--cifar: CIFAR-<10|100>-C in the data root)"
    )
    verb.add_argument(
        "--severities", type=severities, default=(5,), metavar="1,3,5", help="severities from 1 to 5 (default: 5)"
    )
    verb.add_argument(
        "--corruptions", type=options.names, default=(), metavar="A,B,…", help="default: the 15 of ImageNet-C"
    )
    verb.add_argument("--workers", type=options.positive, metavar="N", help="worker processes (default: one per core)")
    verb.add_argument(
        "--size", type=options.positive, default=224, metavar="N", help="image side in pixels (default: %(default)s)"
    )
    verb.set_defaults(action=run)


def run(args: argparse.Namespace) -> int:
    from tta_bench.cli.progress import progress
    from tta_bench.corruptions import CORRUPTIONS
    from tta_bench.datasets.make_corrupted import Plan, check, find_images, make
    from tta_bench.errors import UserError
    from tta_bench.system import cores

    if args.cifar:
        return _make_cifar(args)
    if args.clean is None or args.out is None:
        raise UserError("make-corrupted needs --from and --out, or --cifar 10")
    plan = Plan(args.clean, args.out, args.corruptions or CORRUPTIONS, args.severities, args.size)
    check(plan)
    images = find_images(plan.clean)
    console = options.console()
    console.print(f"{len(images)} images, {plan.files_per_image} files each, into {plan.out}", soft_wrap=True)
    workers = min(args.workers or cores(), len(images))
    start, done, written, kept, bad = time.monotonic(), 0, 0, 0, []

    def rate(done: int) -> float:
        return done / max(time.monotonic() - start, 1e-9)

    try:
        with closing(make(plan, images, workers)) as outcomes, progress(console) as bar:
            for outcome in outcomes:
                done, written, kept = done + 1, written + outcome.written, kept + outcome.kept
                if outcome.error:
                    bad.append(outcome)
                bar.update("corrupting", done, len(images), f"{rate(done):.1f} per second")
    except KeyboardInterrupt:
        console.print(f"Interrupted: {done} of {len(images)} images are done. Run the same command again to resume.")
        return 130
    console.print(f"{written} files written, {kept} existed; {rate(done):.1f} images per second.")
    for outcome in bad[:NAMED]:
        console.print(f"BAD {outcome.error}", soft_wrap=True)
    if bad:
        console.print(
            f"{len(bad)} of {len(images)} images cannot be read. Replace them and run the same command again."
        )
    return 1 if bad else 0


def _make_cifar(args: argparse.Namespace) -> int:
    from tta_bench.cli.progress import progress
    from tta_bench.corruptions import CORRUPTIONS
    from tta_bench.datasets.make_cifar_c import CifarPlan, make
    from tta_bench.errors import UserError
    from tta_bench.system import cores

    if args.clean is not None:
        raise UserError("--from does not apply to --cifar, which reads the clean test images from --data-root")
    out = args.out or args.data_root / f"CIFAR-{args.cifar}-C"
    plan = CifarPlan(args.data_root, out, args.cifar, args.corruptions or CORRUPTIONS, args.severities)
    console, written, done = options.console(), 0, 0
    try:
        with closing(make(plan, args.workers or cores())) as made, progress(console, "files") as bar:
            for done, (corruption, is_new) in enumerate(made, 1):
                written += is_new
                bar.update("corrupting", done, len(plan.corruptions), corruption)
    except KeyboardInterrupt:
        console.print(f"Interrupted: {done} of {len(plan.corruptions)} files are done. Run the same command to resume.")
        return 130
    console.print(f"{written} files written into {out}, {done - written} existed.", soft_wrap=True)
    return 0


def severities(text: str) -> tuple[int, ...]:
    """Comma-separated numbers from 1 to 5, each once."""
    found = options.names(text)
    for word in found:
        if word not in ("1", "2", "3", "4", "5"):
            raise argparse.ArgumentTypeError(f"expected numbers from 1 to 5 as in 1,3,5, got '{word}'")
    return tuple(int(word) for word in found)
