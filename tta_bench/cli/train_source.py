"""`tta-bench train-source`: train the source model of a suite."""

from __future__ import annotations

import argparse
from pathlib import Path

from tta_bench.cli import options


def add(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    verb = verbs.add_parser(
        "train-source",
        help="train a source model",
        description="Train the source model of a suite on clean images, with a fixed seed. "
        "Run the same command again to resume an interrupted training.",
    )
    verb.add_argument("data", choices=("digits", "digit-pairs", "office-home"))
    verb.add_argument("--domain", metavar="NAME", help="office-home: Art, Clipart, Product or RealWorld")
    verb.add_argument("--data-root", **options.DATA_ROOT)
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
    from dataclasses import replace

    from tta_bench.errors import UserError
    from tta_bench.files import write_whole
    from tta_bench.measure import environment
    from tta_bench.models import checkpoint
    from tta_bench.models import recipes as sources

    if args.data == "office-home" and not args.domain:
        raise UserError("train-source office-home needs --domain: Art, Clipart, Product or RealWorld")
    if args.data != "office-home" and (args.domain or (args.model and args.prompts is None)):
        raise UserError(f"train-source {args.data} takes no --domain and no --model")
    if args.prompts is not None:
        return _train_prompts(args)
    embedded = {
        "digits": (sources.train_digits, sources.DIGITS_RECIPE),
        "digit-pairs": (sources.train_digit_pairs, sources.DIGIT_PAIRS_RECIPE),
    }
    train, recipe = embedded.get(args.data, (None, sources.OFFICE_HOME_RECIPE))
    recipe = replace(recipe, seed=args.seed, epochs=args.epochs or recipe.epochs)
    device = environment.pick_device(args.device)
    default = Path(f"{args.data.replace('-', '_')}_vit.safetensors")
    out: Path = args.out or (default if train else sources.office_home_out(args.data_root, args.domain))
    with Bar(recipe.epochs) as progress:
        try:
            if train:
                accuracy = train(out, recipe, device, progress, fresh=args.fresh)
            else:
                base = args.model or sources.OFFICE_HOME_MODEL
                accuracy = sources.train_office_home(
                    args.domain, args.data_root, base, out, recipe, device, progress, fresh=args.fresh
                )
        except KeyboardInterrupt:
            progress.stop()
            if progress.finished:  # of this command; an earlier one's epochs are kept as well
                again = "the same command again without --fresh" if args.fresh else "the same command again"
                progress.console.print(
                    f"Interrupted after epoch {progress.finished} of {recipe.epochs}. Run {again} to resume."
                )
            raise
    beside = out.with_suffix(".md")
    write_whole(beside, checkpoint.describe(out).encode())
    progress.console.print(f"{out} (note: {beside}): {100 * accuracy:.2f} % on held-out clean images", soft_wrap=True)
    return 0


def _train_prompts(args: argparse.Namespace) -> int:
    from tta_bench.measure import environment
    from tta_bench.models import prompts
    from tta_bench.models import recipes as sources

    method = prompts.choose(args.prompts)
    out: Path = args.out or Path(
        "_".join([args.data.replace("-", "_"), *filter(None, [args.domain]), "prompts.safetensors"])
    )
    with Bar(args.epochs or sources.PROMPT_EPOCHS[args.data]) as progress:
        accuracy = sources.train_prompts(
            args.data,
            args.domain,
            args.data_root,
            args.model,
            method,
            out,
            epochs=args.epochs,
            seed=args.seed,
            device=environment.pick_device(args.device),
            progress=progress,
        )
    said = f"{100 * accuracy:.2f} % on held-out clean images with these prompts"
    progress.console.print(f"{out}: {said}; use it by --set {method}.prompts={out}", soft_wrap=True)
    return 0


class Bar:
    """Shows how far a training is: a bar in a terminal, lines elsewhere."""

    def __init__(self, epochs: int) -> None:
        from rich.progress import Progress

        self.console = options.console()
        self.finished, self._every = 0, 10 if epochs > 50 else 1
        self._bar = Progress(console=self.console, transient=True, disable=not self.console.is_terminal)
        self._task = self._bar.add_task("training", total=epochs)

    def __enter__(self) -> Bar:
        self._bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def stop(self) -> None:
        self._bar.stop()

    def __call__(self, done: int, total: int, loss: float) -> None:
        self.finished = done
        self._bar.update(self._task, completed=done, description=f"training, loss {loss:.3f}")
        if not self.console.is_terminal and (done % self._every == 0 or done == total):
            self.console.print(f"epoch {done} of {total}: loss {loss:.3f}")


def epochs(text: str) -> int:
    """How often to see every image: more than a million times is a slip of the hand."""
    if options.positive(text) > 1_000_000:
        raise argparse.ArgumentTypeError(f"expected a whole number from 1 to 1,000,000, got '{text}'")
    return int(text)
