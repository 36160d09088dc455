"""README and guides, taken apart: the blocks of code that they show, and the commands in the table of formats."""

import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
README = ROOT / "README.md"
GUIDES = sorted((ROOT / "llsvm" / "guide").glob("*.md"))
TOOLS = sorted((ROOT / "tools").glob("*/README.md"))

# ```sh or ```python, with a word before it where the block is not to be run: <!-- not run: why -->
_BLOCK = re.compile(
    r"(?P<not_run><!-- not run: [^>]+-->\n)?^```(?P<kind>\w+)\n(?P<code>.*?)^```$", re.DOTALL | re.MULTILINE
)
_INSTALLS = "## Two commands on a fresh machine"  # which .ci/run runs


class Code(NamedTuple):
    """A block of code. kind: "sh", "python" or another. line: of the document, from 1. runs: shown to be run."""

    kind: str
    code: str
    line: int
    runs: bool


def blocks(document):
    """The blocks of code of a document, in its order."""
    text = document.read_text()
    installs = range(0)
    if _INSTALLS in text:
        begin = text.index(_INSTALLS)
        installs = range(begin, text.index("\n## ", begin + 1))
    found = []
    for match in _BLOCK.finditer(text):
        runs = not match["not_run"] and match.start() not in installs and match["kind"] in ("sh", "python")
        found.append(Code(match["kind"], match["code"], text.count("\n", 0, match.start()) + 1, runs))
    return found


def format_commands():
    """The commands in the guide's table of formats."""
    text = (ROOT / "llsvm" / "guide" / "formats.md").read_text()
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [
        command.replace("\\|", "|") for line in lines for command in re.findall("`([^`]*llsvm [^`]*)`", line)
    ]
