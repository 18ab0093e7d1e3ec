"""Streams by the names that papers use: each is a composition and nothing else.

Where they depart from the published code is stated in docs/streams.md.
"""

from __future__ import annotations

_ROTTA = "dirichlet:0.1,inside=stored"
_NOTE = "slots=classes,balance=yes,least=10"

PRESETS: dict[str, str] = {
    "rotta": f"continual+order:cotta-5+{_ROTTA}",
    "note": f"normal+dirichlet:0.1,{_NOTE}",
    "lame": "normal+classes",
    "lame-imbalanced": "normal+zipf+classes",
    "correlated": "continual+classes:index+same-draw+border",
    "mixed-correlated": f"mixed+dirichlet:0.01,{_NOTE}",
    **{f"gli-f-{ratio}": f"continual+order:cotta-5+long-tail:{ratio}+{_ROTTA}" for ratio in (10, 100, 200)},
    **{f"gli-v-{ratio}": f"continual+order:cotta-5+long-tail:{ratio},head=random+{_ROTTA}" for ratio in (10, 100, 200)},
    "petta-20": f"continual+order:cotta-5+recurring:20+{_ROTTA}",
    "csc-20": "continual+recurring:20+border",
    "cdc": "dynamic+stored+border",
    "cdc-uniform": "dynamic-uniform+recurring:20",
    "cotta-10": "continual+order:cotta+stored+border",  # with `--orders 10`
    "cotta-gradual": "continual-gradual:5+stored+border",
    "forgetting": "continual+clean+border",
    "as-recorded": "continual+stored",
    "freeze-512": "normal+freeze:512",
    "episodic": "normal+reset:batch",
}
"""Names and the compositions that they stand for."""
