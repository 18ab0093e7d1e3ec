"""The page of `show`: cards with thumbnails, readable without JavaScript; a script adds filters and keys.

Its policy allows this folder's style and script and pictures inside the page, nothing else.
"""

from __future__ import annotations

import base64
import io
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from tta_bench.report import page as report_page
from tta_bench.report.page import templates
from tta_bench.show.cards import Pair, classes, groups
from tta_bench.streams.again import Again

LARGE = 112  # pixels of a thumbnail's longer side
MOST = 48  # images of a group


@dataclass(frozen=True)
class Card:
    """One image and what both rows said."""

    name: str
    place: int  # in the stream, from 1
    batch: int  # from 1
    label: int
    a: int
    a_sure: float  # in percent
    b: int
    b_sure: float
    picture: str


def page(found: Pair, again: Again, most: int = MOST) -> str:
    """The page as text."""
    kinds = [(group, _cards(found, again, group.places[:most])) for group in groups(found)]
    style = report_page.text_of("page.css") + templates.text_of(__package__, "show.css")
    script = templates.text_of(__package__, "show.js") + report_page.text_of("theme.js")
    script = templates.in_one_scope(script)
    inside = f"style-src {report_page.hash_of(style)}; script-src {report_page.hash_of(script)}; img-src data:"
    lines = classes(found)
    return (
        templates.environment(__package__)
        .get_template("show.html")
        .render(
            title=f"{found.b} against {found.a} on {found.task}",
            policy=f"default-src 'none'; {inside}; base-uri 'none'; form-action 'none'",
            style=Markup(style),
            script=Markup(script),
            found=found,
            facts=_facts(found),
            same_pixels=again.same_pixels,
            groups=kinds,
            lines=lines,
            labels=sorted(line.label for line in lines),
        )
    )


def _facts(found: Pair) -> list[str]:
    spec, images = found.record.cell.spec, len(found.places)
    right = [100 * float(answers.correct[found.places].mean()) for answers in (found.first, found.second)]
    return [
        spec.suite,
        f"scenario {spec.scenario}",
        f"seed {spec.seed}",
        f"{images:,} images in batches of {spec.batch_size}",
        f"{found.a} {right[0]:.1f} %",
        f"{found.b} {right[1]:.1f} %",
    ]


def _cards(found: Pair, again: Again, places: NDArray[np.int64]) -> list[Card]:
    if not len(places):
        return []
    index = found.first.index[places].astype(np.int64)
    pixels, shown = again.stream.images.read(index), found.first.places
    return [
        Card(
            name=again.stream.images.ids[i],
            place=int(shown[place]) + 1,
            batch=int(shown[place]) // found.batch_size + 1,
            label=int(found.first.label[place]),
            a=int(found.first.prediction[place]),
            a_sure=100 * float(found.first.confidence[place]),
            b=int(found.second.prediction[place]),
            b_sure=100 * float(found.second.confidence[place]),
            picture=picture(image),
        )
        for place, i, image in zip(places, index, pixels, strict=True)
    ]


def picture(image: NDArray[np.uint8]) -> str:
    """An image [3, H, W] as an address that holds it: exact if it is small, else a thumbnail."""
    from PIL import Image

    made, buffer = Image.fromarray(np.ascontiguousarray(image.transpose(1, 2, 0))), io.BytesIO()
    kind = "png" if max(made.size) <= LARGE else "jpeg"
    made.thumbnail((LARGE, LARGE))
    made.save(buffer, kind, **({"quality": 85} if kind == "jpeg" else {"optimize": True}))
    return f"data:image/{kind};base64,{base64.b64encode(buffer.getvalue()).decode()}"
