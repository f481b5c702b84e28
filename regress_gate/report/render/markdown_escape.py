"""Text from outside as Markdown that shows exactly that text: no markup, no link, no mention, no cross-reference.

Written for GitHub's dialect. Signs become numeric character references, which every parser reads the same way, in
tables too; where GitHub would act on the finished text (mentions, references, bare addresses), an invisible
zero-width space parts what triggers it.
"""

import re

from regress_gate.text import one_line

_MARKUP_SIGNS = re.compile(r"[\\`*<>&\[\]|~$]")
_EDGE_UNDERSCORE = re.compile(r"(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])")
_BLOCK_START = re.compile(r"^(?=(?:[-+]|#{1,6}|\d{1,9}[.)])(?:\s|$)|--|=)")
"""What opens a list, a heading or a rule when it stands first."""
_SPACE = "\u200b"
"""Has no width and parts words. `clean` leaves none in a text, so every one in it is ours."""
_TRIGGERS = re.compile(
    r"@(?=\w)"  # @user, @org/team, mail addresses
    r"|#(?=\d)"  # #12, owner/repo#12
    r"|GH(?=-\d)"  # GH-12
    r"|(?:https?|ftp|mailto|xmpp):"  # bare addresses
    r"|www(?=\.)"
    r"|:(?=[\w+-]+:)",  # :emoji:
    re.IGNORECASE,
)
_TRACKER_THREAD = re.compile(r"https://github\.com/([\w.-]+/[\w.-]+/(?:issues|pull|discussions)/\d+)", re.ASCII)


def escape(text: str) -> str:
    """The text as inert inline Markdown, for running text and table cells."""
    text = _BLOCK_START.sub(_SPACE, _TRIGGERS.sub(rf"\g<0>{_SPACE}", one_line(text)))
    text = _EDGE_UNDERSCORE.sub(_reference, _MARKUP_SIGNS.sub(_reference, text))
    return text.replace(_SPACE, f"&#{ord(_SPACE)};")


def _reference(match: re.Match[str]) -> str:
    return f"&#{ord(match[0])};"


def code(text: str) -> str:
    """A code span of exactly that text, to be copied. Not for table cells, where a pipe would end it."""
    text = one_line(text) or "(empty)"
    fence = "`" * (max(map(len, re.findall("`+", text)), default=0) + 1)
    padding = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{fence}{padding}{text}{padding}{fence}"


def thread(url: str) -> str:
    """A link to a GitHub thread; any other address is shown as text.

    The link takes GitHub's redirecting host: a plain one would leave a cross-reference in the tracker's thread
    for every comment that this report is posted as.
    """
    if match := _TRACKER_THREAD.fullmatch(url):
        return f"[{escape(match[1])}](https://redirect.github.com/{match[1]})"
    return escape(url)
