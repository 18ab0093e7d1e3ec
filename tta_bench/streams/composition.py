"""The words of compositions: choices on axes and presets, of tta-bench and of installed packages."""

from __future__ import annotations

import re
from dataclasses import fields, replace
from functools import cache

from tta_bench import plugins
from tta_bench.errors import UserError, did_you_mean, third_party
from tta_bench.plugins import Group
from tta_bench.streams.axes import domains, labels, mixed_in, prior, running
from tta_bench.streams.axes.base import AXES, Choice
from tta_bench.streams.axes.markov import Markov
from tta_bench.streams.composed import Composition
from tta_bench.streams.presets import presets
from tta_bench.streams.scenarios import SCENARIOS

# Limits that are checked here because the code of the axes is part of results' keys.
MOST_PIECES = 10_000  # of dynamic: more take minutes and gigabytes
LONGEST_NAME = 200  # of a composition, in records and names of files
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
    if not (isinstance(found, type) and issubclass(found, Choice) and _is_complete(found, word)):
        raise UserError(
            f"scenario '{word}' of {strangers().owner(word)}: expected the text of a composition, or a subclass of "
            f"tta_bench.streams.axes.base.Choice with this word, a text `about` and one of the axes {', '.join(AXES)}"
        )
    return found


def _is_complete(choice: type[Choice], word: str) -> bool:
    given = (getattr(choice, name, None) for name in ("word", "about", "axis"))
    return all(isinstance(text, str) for text in given) and choice.word == word and choice.axis in AXES


def catalogue() -> tuple[list[tuple[type[Choice], str]], list[tuple[str, str, str]], list[str]]:
    """All choices and all presets, each with its package, and what is wrong with those that cannot be used."""
    choices = [(choice, plugins.OWN) for choice in OWN.values()]
    named = [(name, text, plugins.OWN) for name, text in presets().items()]
    problems = []
    for name in strangers().names():
        try:
            found = find(name)
            if isinstance(found, str):
                compose(found)
        except UserError as error:
            said = str(error)
            problems.append(said if f"'{name}'" in said else f"scenario '{name}' of {strangers().owner(name)}: {said}")
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
    with third_party(f"scenario '{text}'"):  # a choice may be a stranger's
        made = Composition(tuple(sorted(found.values(), key=lambda choice: ranks.index(choice.axis))))
    if len(made.name) > LONGEST_NAME:
        raise UserError(
            f"scenario '{made.name}' has a name of {len(made.name)} characters, at most {LONGEST_NAME} are possible: "
            f"leave out some settings"
        )
    return made


def _named(text: str, inside: tuple[str, ...] = ()) -> list[Choice]:
    """The choices of a text; `inside` are the presets that it is part of."""
    chosen: dict[str, Choice] = {}
    explicit: dict[str, Choice] = {}
    presets_by_axis: dict[str, str] = {}
    for part in re.split(r"(?<!\de)\+", text):  # 1e+12 is a number
        word, _, given = part.strip().partition(":")
        if not word:
            raise UserError(f"scenario '{text}': a choice is missing, as in continual+dirichlet:0.1")
        found = find(word)
        if isinstance(found, str):
            if given:
                raise UserError(f"scenario '{word}' is a preset and takes no settings, got '{given}'")
            if word in inside:
                raise UserError(f"scenario '{word}' of {strangers().owner(word)} is a preset of itself: {found}")
            for choice in _named(found, (*inside, word)):
                if chosen.setdefault(choice.axis, choice) != choice:
                    raise UserError(
                        f"scenario '{text}': the presets {presets_by_axis[choice.axis]} and {word} have "
                        f"{chosen[choice.axis]} and {choice} on one axis ({AXES[choice.axis]}): keep one preset"
                    )
                presets_by_axis[choice.axis] = word
            continue
        with third_party(f"scenario '{word}'"):
            choice = found.read(given)
        if isinstance(choice, domains.Dynamic) and choice.pieces > MOST_PIECES:
            raise UserError(f"{word}: pieces: expected at most {MOST_PIECES:,}, got {choice.pieces:,}")
        if choice.axis in explicit:
            both = f"{explicit[choice.axis]} and {choice}"
            raise UserError(f"scenario '{text}': {both} are two choices of one axis ({AXES[choice.axis]}): keep one")
        explicit[choice.axis] = choice
    return list((chosen | explicit).values())
