"""The words of compositions: choices on axes and presets, of tta-bench and of installed packages."""

from __future__ import annotations

from dataclasses import fields, replace
from functools import cache

from tta_bench import plugins
from tta_bench.errors import UserError, did_you_mean
from tta_bench.plugins import Group
from tta_bench.streams.axes import domains, labels, mixed_in, prior, running
from tta_bench.streams.axes.base import AXES, Choice
from tta_bench.streams.axes.markov import Markov
from tta_bench.streams.composed import Composition
from tta_bench.streams.presets import presets
from tta_bench.streams.scenarios import SCENARIOS

ALONE = {"single": "use --batch-size 1", "ccc": "its images are made for its own stream"}
OWN: dict[str, type[Choice]] = {
    choice.word: choice
    for choice in (
        *(domains.Alone, domains.OneByOne, domains.Together, domains.RisingAlone, domains.RisingOneByOne),
        *(domains.Dynamic, domains.DynamicUniform, domains.TaskOrder, domains.Laps, domains.Clean, domains.Remember),
        *(prior.Exponential, prior.Zipf),
        *(labels.Shuffled, labels.Stored, labels.Classes, labels.ImbalancedDraws, labels.Dirichlet, Markov),
        *(running.SameDraw, mixed_in.MixedIn, running.Cut, running.Reset, running.Freeze),
    )
}


@cache
def strangers() -> Group:
    """Choices and presets of installed packages; imports none of them."""
    return Group("scenario", plugins.claims("scenario"))


def words() -> list[str]:
    """Everything that a composition may name."""
    return [*OWN, *presets(), *strangers().names()]


def find(word: str) -> type[Choice] | str:
    """The choice of a word, or the composition of a preset."""
    if word in OWN:
        return OWN[word]
    if word in presets():
        return presets()[word]
    if word in SCENARIOS:
        raise UserError(f"scenario '{word}' stands alone and cannot be combined ({ALONE.get(word, 'see docs')})")
    if word not in strangers().claims:
        near = did_you_mean(word, words()).partition(" (known")[0]
        raise UserError(f"unknown scenario '{word}'{near or ':'} `tta-bench list scenarios` shows all")
    found = strangers().load_object(word)
    if isinstance(found, str):
        return found
    if not (isinstance(found, type) and issubclass(found, Choice) and found.axis in AXES and found.word == word):
        raise UserError(
            f"scenario '{word}' of {strangers().owner(word)}: expected the text of a composition, or a subclass of "
            f"tta_bench.streams.axes.base.Choice with this word and one of the axes {', '.join(AXES)}"
        )
    return found


def catalogue() -> tuple[list[tuple[type[Choice], str]], list[tuple[str, str, str]], list[str]]:
    """All choices and all presets, each with its package, and what is wrong with those that cannot be used."""
    choices = [(choice, plugins.OWN) for choice in OWN.values()]
    named = [(name, text, plugins.OWN) for name, text in presets().items()]
    problems = []
    for name in strangers().names():
        try:
            found = find(name)
        except UserError as error:
            problems.append(str(error))
            continue
        if isinstance(found, str):
            named.append((name, found, strangers().owner(name)))
        else:
            choices.append((found, strangers().owner(name)))
    return choices, named, problems


def presets_of(name: str) -> list[str]:
    """The presets that a composition's name is the composition of."""
    return [word for word, text in presets().items() if compose(text).name == name]


def compose(text: str, replaced: str = "") -> Composition:
    """The composition that a text names; a choice beside a preset replaces the preset's on its axis.

    The first settings of `replaced`'s choices take the place of those of the text.
    """
    found = {choice.axis: choice for choice in _named(text)}
    for choice in _named(replaced) if replaced else ():
        old, first = found.get(choice.axis, choice), fields(choice)[0].name
        found[choice.axis] = replace(old, **{first: getattr(choice, first)}) if type(old) is type(choice) else choice
    ranks = list(AXES)
    return Composition(tuple(sorted(found.values(), key=lambda choice: ranks.index(choice.axis))))


def _named(text: str) -> list[Choice]:
    chosen: dict[str, Choice] = {}
    explicit: dict[str, Choice] = {}
    for part in text.split("+"):
        word, _, given = part.strip().partition(":")
        if not word:
            raise UserError(f"scenario '{text}': a choice is missing, as in continual+dirichlet:0.1")
        found = find(word)
        if isinstance(found, str):
            if given:
                raise UserError(f"scenario '{word}' is a preset and takes no settings, got '{given}'")
            chosen |= {choice.axis: choice for choice in _named(found)}
            continue
        choice = found.read(given)
        if choice.axis in explicit:
            both = f"{explicit[choice.axis]} and {choice}"
            raise UserError(f"scenario '{text}': {both} are two choices of one axis ({AXES[choice.axis]}): keep one")
        explicit[choice.axis] = choice
    return list((chosen | explicit).values())
