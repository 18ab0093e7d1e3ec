"""`tta-bench train-source`: train the source model of a suite."""

from __future__ import annotations

import argparse
from pathlib import Path

from tta_bench.cli import options


def add(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    verb = verbs.add_parser(
        "train-source",
        help="train a source model",
        description="Train the source model of the embedded suites on clean images, with a fixed seed.",
    )
    verb.add_argument("data", choices=("digits",))
    verb.add_argument("--seed", type=int, default=0)
    verb.add_argument("--epochs", type=options.positive, default=120)
    verb.add_argument("--out", type=Path, default=Path("digits_vit.safetensors"), help="default: %(default)s")
    verb.set_defaults(action=run)


def run(args: argparse.Namespace) -> int:
    from rich.progress import Progress

    from tta_bench import checkpoint
    from tta_bench.train import train_digits

    console = options.console()
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("training", total=args.epochs)

        def progress(done: int, total: int, loss: float) -> None:
            bar.update(task, completed=done, description=f"training, loss {loss:.3f}")
            if not console.is_terminal and (done % 10 == 0 or done == total):
                console.print(f"epoch {done} of {total}: loss {loss:.3f}")

        accuracy = train_digits(args.out, seed=args.seed, epochs=args.epochs, progress=progress)
    beside = args.out.with_suffix(".md")
    beside.write_text(checkpoint.describe(args.out))
    console.print(f"{args.out} (note: {beside}): {100 * accuracy:.2f} % on the clean test split")
    return 0
