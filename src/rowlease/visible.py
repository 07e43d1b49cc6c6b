"""Makes text of strangers harmless: the names, payloads and errors that a producer or a task wrote.

Such text must not control a terminal, begin a line of its own, or look like other text.
"""

from __future__ import annotations

import re

#: A character that cannot be seen, that controls a terminal, that changes the order of those around
#: it, or that cannot be encoded. The group makes `split` return these characters too.
HIDDEN = re.compile(
    "([\x00-\x1f\x7f-\x9f\u00ad\u061c\u115f\u1160\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f"
    "\u3164\ud800-\udfff\ufeff\ufff9-\ufffb\U000e0000-\U000e007f])"
)


def visible(text: str) -> str:
    r"""The text on one line, with an escape such as `\n` or `\u202e` for each hidden character."""
    return HIDDEN.sub(lambda found: found[0].encode("unicode_escape").decode(), text)
