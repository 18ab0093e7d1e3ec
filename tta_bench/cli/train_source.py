"""`tta-bench train-source`: train the source model of a suite."""

from __future__ import annotations

import argparse
from pathlib import Path

from tta_bench.checked.readers import bounded
from tta_bench.cli import options

LINES = 50  # of a log; every epoch of a short training


def add(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    verb = verbs.add_parser(
        "train-source",
        help="train a source model",
        description="Train the source model of a suite on clean images, with a fixed seed. "
        "Run the same command again to resume an interrupted training.",
    )
    verb.add_argument("data", choices=("digits", "digit-pairs", "cifar10", "cifar100", "office-home"))
    verb.add_argument("--network", choices=("resnet20", "vit-small"), help="cifar10, cifar100: the network to train")
    verb.add_argument("--domain", metavar="NAME", help="office-home: Art, Clipart, Product or RealWorld")
    options.add_data_root(verb)
    verb.add_argument("--model", metavar="NAME", help="office-home: the model to fine-tune, as for `run`")
    verb.add_argument(
        "--prompts",
        nargs="?",
        const="",
        metavar="METHOD",
        help="train prompts with the finished source model (or with --model) instead of a model, for a method that "
        "needs them; default: the only such method",
    )
    verb.add_argument("--seed", type=options.seed, default=0, metavar="N")
    verb.add_argument("--epochs", type=epochs, metavar="N", help="default: the recipe's")
    verb.add_argument("--device", default="auto")
    verb.add_argument("--out", type=Path, help="default: <data>_vit.safetensors, or where office-home's suite looks")
    verb.add_argument("--fresh", action="store_true", help="start over; discards an interrupted training at --out")
    verb.set_defaults(action=run)


def run(args: argparse.Namespace) -> int:
    from collections.abc import Callable
    from dataclasses import replace
    from functools import partial

    from tta_bench.cli.progress import progress
    from tta_bench.errors import UserError
    from tta_bench.files import write_whole
    from tta_bench.measure import environment
    from tta_bench.models import checkpoint
    from tta_bench.models import recipes as sources
    from tta_bench.models.cifar_recipes import NETWORKS, train_cifar
    from tta_bench.models.train import Recipe, Target

    if args.data == "office-home" and not args.domain:
        raise UserError("train-source office-home needs --domain: Art, Clipart, Product or RealWorld")
    if args.data != "office-home" and (args.domain or (args.model and args.prompts is None)):
        raise UserError(f"train-source {args.data} takes no --domain and no --model")
    if (args.network is not None) != args.data.startswith("cifar"):
        raise UserError("--network resnet20 or vit-small belongs to train-source cifar10 and cifar100")
    if args.prompts is not None:
        return _train_prompts(args)
    embedded: dict[str, tuple[Callable[..., float], Recipe]] = {
        "digits": (sources.train_digits, sources.DIGITS_RECIPE),
        "digit-pairs": (sources.train_digit_pairs, sources.DIGIT_PAIRS_RECIPE),
    }
    if args.network:
        classes = int(args.data.removeprefix("cifar"))
        embedded[args.data] = (
            partial(train_cifar, classes, args.network, args.data_root),
            NETWORKS[args.network].recipe,
        )
    train, recipe = embedded.get(args.data, (None, sources.OFFICE_HOME_RECIPE))
    recipe = replace(recipe, seed=args.seed, epochs=args.epochs or recipe.epochs)
    name = f"{args.data}_{args.network}" if args.network else f"{args.data}_vit"
    default = Path(f"{name.replace('-', '_')}.safetensors")
    out: Path = args.out or (default if train else sources.office_home_out(args.data_root, args.domain))
    console, finished = options.console(), 0

    def on_epoch(done: int, total: int, loss: float) -> None:
        nonlocal finished
        finished = done
        bar.update("training", done, total, f"loss {loss:.3f}")

    try:
        with progress(console, "epochs", LINES) as bar:
            target = Target(out, environment.started(args.device), on_epoch, args.fresh)
            if train:
                accuracy = train(recipe, target)
            else:
                base = args.model or sources.OFFICE_HOME_MODEL
                accuracy = sources.train_office_home(args.domain, args.data_root, base, recipe, target)
    except KeyboardInterrupt:
        if finished:  # by this command; epochs of an earlier one are kept as well
            again = "the same command again without --fresh" if args.fresh else "the same command again"
            console.print(f"Interrupted after epoch {finished} of {recipe.epochs}. Run {again} to resume.")
        raise
    beside = out.with_suffix(".md")
    write_whole(beside, checkpoint.describe(out).encode())
    console.print(f"{out} (note: {beside}): {100 * accuracy:.2f} % on held-out clean images", soft_wrap=True)
    return 0


def _train_prompts(args: argparse.Namespace) -> int:
    from tta_bench.cli.progress import progress
    from tta_bench.measure import environment
    from tta_bench.models import prompts
    from tta_bench.models import recipes as sources
    from tta_bench.models.train import Target

    method = prompts.choose(args.prompts)
    out: Path = args.out or Path(
        "_".join([args.data.replace("-", "_"), *filter(None, [args.domain]), "prompts.safetensors"])
    )
    console = options.console()
    with progress(console, "epochs", LINES) as bar:

        def on_epoch(done: int, total: int, loss: float) -> None:
            bar.update("training", done, total, f"loss {loss:.3f}")

        target = Target(out, environment.started(args.device), on_epoch)
        data = args.data, args.domain, args.data_root
        accuracy = sources.train_prompts(*data, args.model, method, target, epochs=args.epochs, seed=args.seed)
    said = f"{100 * accuracy:.2f} % on held-out clean images with these prompts"
    console.print(f"{out}: {said}; use it by --set {method}.prompts={out}", soft_wrap=True)
    return 0


def epochs(text: str) -> int:
    """A number of epochs; above a million it is a typing mistake."""
    return bounded(text, 1, 1_000_000)
