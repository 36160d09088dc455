"""Credentials in addresses (``s3://KEY:SECRET@bucket/x``): taken out where an address comes in, put back
where it is opened, so that no message, model or log can hold them."""

from __future__ import annotations

import re
from os.path import commonpath
from urllib.parse import quote

_USER = re.compile(
    r"(?<=://)(?:[^/@]*:[^/@]*|[^/@:]*:(?!\d*/)[^@]*)@"
)  # key:secret@; slashes may stand in a secret
_SECRETS = re.compile(r"[?&](?:\w*(?:key|secret|token|password)\w*|sig)=[^&\s]*", re.IGNORECASE)
_known: dict[
    str, tuple[str, str]
] = {}  # credentials by the address they were given with: before and behind it


def without_credentials(path: str) -> str:
    """The address as it may be shown: ``s3://bucket/x`` of ``s3://KEY:SECRET@bucket/x``.

    The credentials are remembered for whatever is opened under that address. Whatever takes an address from outside
    calls this first; other text comes back as it is.
    """
    if "://" not in path:
        return path
    user, options = _USER.search(path), "&".join(each[1:] for each in _SECRETS.findall(path))
    if user is None and not options:
        return path
    shown = hidden(path)
    _known[shown] = (quote(user[0][:-1], safe=":%") + "@" if user else "", options)
    return shown


def hidden(text: str) -> str:
    """``text`` without the credentials of the addresses in it."""
    text = _SECRETS.sub(lambda found: "?" if found[0].startswith("?") else "", _USER.sub("", text))
    return re.sub(r"\?(&|$)", lambda found: "?" if found[1] else "", text)


def with_credentials(path: str) -> str:
    """The address with the credentials given for it, or for the one most like it in the same place."""
    host = path[: path.find("/", path.index("://") + 3)]
    same = [shown for shown in _known if shown.startswith(host)]
    if not same:
        return path
    user, options = _known[max(same, key=lambda shown: len(commonpath([shown, path])))]
    full = path.replace("://", f"://{user}", 1)
    return f"{full}{'&' if '?' in full else '?'}{options}" if options else full
