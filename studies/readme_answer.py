"""Makes the README's answer from the quickstart: `python -m studies.readme_answer`."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path
from tempfile import TemporaryDirectory

import wflsim
from wflsim.analysis.answer import answer

ROOT = Path(__file__).parent.parent


def quote(folder: Path) -> str:
    """The answer that the quickstart prints, run in `folder`, as a quotation of at most 116 columns."""
    results = wflsim.run(wflsim.load(ROOT / "scenarios/quickstart.yaml"), folder)
    return textwrap.fill(answer(results), 116, initial_indent="> ", subsequent_indent="> ")


def main() -> None:
    with TemporaryDirectory() as place:
        words = quote(Path(place) / "quickstart")
    readme = ROOT / "README.md"
    text = readme.read_text(encoding="utf-8")
    pattern = r"(?<=<!-- answer -->\n)(.*?)(?=\n<!-- /answer -->)"
    readme.write_text(re.sub(pattern, lambda _: words, text, flags=re.DOTALL), encoding="utf-8")
    print(words)


if __name__ == "__main__":
    main()
