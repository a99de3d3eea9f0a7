"""What a reader's error text says: that the thing is not there, or that reading failed.

A wrong yes would call a deletion verified that nobody saw, so an error that may mean anything else counts as a failure
to read (plan-apply-undo 5.12: a reader must say NotFound).
"""

from __future__ import annotations

import re

_NOT_FOUND = re.compile(
    r"not[ _-]?found|(?:does(?:n't| not)|did(?:n't| not)) exist|no such|\b404\b|\b410\b|enoent"
    r"|(?:could(?:n't| not)|can(?:'t|not)) (?:find|be found)|no longer (?:exists|available)|\bnon-?existent"
    r"|(?:has been|was|is|already) deleted|\bunknown [\w -]{0,40}\b(?:id|key|name|path|number)s?\b"
    r"|\bno \w+ (?:with|named|called|found|matching)\b|\b(?:unknown|there is no) \w+:? ['\"`]?[\w./-]*\d",
    re.IGNORECASE,
)
_LOOSER = re.compile(
    r"\bunknown\b|\bgone\b|\bmissing\b|\bthere is no\b|\b(?:deleted|removed|trashed)\b|\bis no \w+ id\b"
    r"|\b(?:invalid|bad) (?:\w+ )?(?:id|key|name|path|number)\b|\bno \w+ ['\"`]?[\w./-]*\d",
    re.IGNORECASE,
)
_OTHER_THING = re.compile(
    r"\b(?:tool|method|command|function|host|server|connector|module)\b[^.]{0,60}\bnot[ _-]?found"
    r"|\b(?:unknown|no such|there is no) "
    r"(?:tool|method|command|function|host|option|argument|parameter|error|failure|exception|reason)\b",
    re.IGNORECASE,
)
_DENIED = re.compile(
    r"permission|forbidden|unauthori[sz]ed|not (?:authori[sz]ed|allowed)|access denied|(?:bad|invalid) credential"
    r"|api.?key|rate.?limit|too many|quota|throttl|timed? ?-?out|unavailable|overloaded|try again"
    r"|connection (?:refused|reset|closed|failed|lost)|network (?:error|unreachable)|internal (?:server )?error",
    re.IGNORECASE,
)


def says_absent(message: str, *, was_there: bool = False) -> bool:
    """Return whether a reader's error text means that the thing is not there.

    `was_there`: the same reader showed it before, so that its arguments and our rights were good, and less clear words
    will do.
    """
    if _OTHER_THING.search(message):
        return False
    clear, denied = bool(_NOT_FOUND.search(message)), bool(_DENIED.search(message))
    if was_there:
        # Servers that hide what one may not see say both at once; here only one of them can be meant.
        return clear or (not denied and bool(_LOOSER.search(message)))
    return clear and not denied
