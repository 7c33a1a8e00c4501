"""Whatever stands in a scenario file, loading it gives a scenario or sentences: shipped files, mutated and mangled."""

from __future__ import annotations

import copy
import random
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from jargon import JARGON

import wflsim
from wflsim.cli import main
from wflsim.errors import ScenarioError
from wflsim.experiments.plan import regimes

ROOT = Path(__file__).resolve().parents[2]
SHIPPED = sorted((ROOT / "scenarios").rglob("*.yaml"))
VALUES = [
    None, True, -1, 0, 3.7, 1e300, 10**400, float("nan"), float("-inf"), "", " ", "x", "10 dB", "75 %", "5 mAh", "\u202e", "\ud7ff😀", "é" * 3000,
    "0x10", "1_000", "٣", "½", "²", "１２ MHz", "5 µs", "1e5 Ω", "..", "/dev/null", "a:b", "*", "&", "!!", "{}", [], {}, [[]], [{}], {"a": {"b": [1]}},
    list(range(50)), {str(i): i for i in range(50)}, "-0", "1e999", "+.5e-9 s", "4 mAh at 0 V", "4 mAh at V", "% 5", "% %", {"kind": None}, {"name": []},
]  # fmt: skip
PIECES = [
    "\t", "\n", "\n\n---\n", "\n...\n", "&a ", "*a", "<<: *a\n", "? ", "!!python/name:os.system ", "!x ", "|", ">", "- ", ": ", "{", "}", "[", "]", "'", '"',
    "#", "%YAML 1.1\n", "%TAG ! x\n", "@", "`", "\ufeff", "\x00", "\x07", "\x85", "\u2028", "\ud7ff", "\U0010ffff", "~", "null", "name: ", "clients: 3\n", "e" * 300,
]  # fmt: skip


def mutated(data, rng):
    """A few changes anywhere in the tree: values replaced, keys renamed, dropped, moved, lists for maps and the other way round."""
    data = copy.deepcopy(data)
    for _ in range(rng.randint(1, 4)):
        places = [(node, key) for node in nodes(data) for key in (list(node) if isinstance(node, dict) else range(len(node)))]
        if not places:
            break
        node, key = rng.choice(places)
        action = rng.randrange(6)
        if action <= 2:
            node[key] = copy.deepcopy(rng.choice(VALUES))
        elif action == 3 and isinstance(node, dict):
            node[rng.choice([*map(str, VALUES[9:24]), str(key)[:-1], str(key) + "s", str(key).upper()])] = node.pop(key)
        elif action == 4 and isinstance(node[key], dict):
            node[key] = list(node[key].items())
        elif action == 5:
            other, at = rng.choice(places)
            node[key] = copy.deepcopy(other[at]) if at in other or isinstance(other, list) else None
        else:
            del node[key]
            break
    return data


def nodes(data):
    if isinstance(data, dict | list):
        yield data
        for value in data.values() if isinstance(data, dict) else data:
            yield from nodes(value)


def mangled(text, rng):
    """Pieces put in, lines doubled, cut, swapped or indented: duplicated keys, anchors, tabs, two documents, half a file."""
    for _ in range(rng.randint(1, 5)):
        lines = text.split("\n")
        at = rng.randrange(len(lines))
        action = rng.randrange(6)
        if action == 0:
            lines.insert(at, lines[rng.randrange(len(lines))])
        elif action == 1:
            lines[at] = rng.choice(["\t", "  ", " "]) * rng.randint(1, 4) + lines[at]
        elif action == 2:
            lines = lines[: at + 1]
        elif action == 3:
            lines.pop(at)
        else:
            where = rng.randrange(len(lines[at]) + 1)
            lines[at] = lines[at][:where] + rng.choice(PIECES) + lines[at][where:]
        text = "\n".join(lines)
    return text


def refusal(given):
    """The message with which a scenario is refused, or None."""
    try:
        regimes(wflsim.load(given))
    except ScenarioError as error:
        message = str(error)
        assert message.strip()
        assert not JARGON.search(message), message
        assert len(message) < 60_000
        return message
    return None


def test_mutated_documents_load_or_are_refused_with_a_sentence(monkeypatch):
    monkeypatch.chdir(ROOT / "scenarios")
    rng = random.Random(17)
    documents = [yaml.safe_load(path.read_text()) for path in SHIPPED if "paper" not in path.parts]
    found = [refusal(mutated(rng.choice(documents), rng)) for _ in range(800)]
    assert 50 < sum(message is None for message in found) < 500


def test_mangled_files_load_or_are_refused_with_a_sentence(tmp_path):
    rng = random.Random(18)
    texts = [path.read_text() for path in SHIPPED if "paper" not in path.parts]
    file = tmp_path / "m.yaml"
    refused = 0
    for _ in range(600):
        file.write_bytes(mangled(rng.choice(texts), rng).encode("utf-8", "surrogatepass"))
        message = refusal(file)
        refused += message is not None
        assert message is None or str(file) in message or message.startswith("sweep"), message
    assert refused > 250


@pytest.mark.parametrize(
    "text",
    ["", "\n\n", "# only a comment\n", "---\n---\n", "null\n", "[]\n", "{}\n", "- a\n", "5\n", "a: " + "[" * 40 + "]" * 40, "{" * 3000, "a: &a {b: *a}",
     "name: x\nname: y\n", "? [a]\n: b\n", "a: 1\n---\nb: 2\n", "\ufeffname: x\n", "name: \ud800", "a: &a [x]\n<<: *a\n", "name: " + "9" * 6000,
     "clients: 0o17", "clients: 1e1", "seeds: " + "[" + "0," * 12_000 + "0]"],
    ids=range(22),
)  # fmt: skip
def test_whole_files_that_are_no_scenarios(text, tmp_path):
    (tmp_path / "w.yaml").write_bytes(text.encode("utf-8", "surrogatepass"))
    message = refusal(tmp_path / "w.yaml")
    assert message is not None
    assert "w.yaml" in message


def test_check_answers_a_pile_of_broken_files_at_once(tmp_path):
    """The command itself, once for forty files: exit code 2, every file named, no traceback, nothing called ok."""
    rng = random.Random(19)
    text, files = (ROOT / "scenarios/quickstart.yaml").read_text(), []
    while len(files) < 40:
        file = tmp_path / f"f{len(files)}.yaml"
        file.write_bytes(mangled(text, rng).encode())
        if refusal(file) is not None:
            files.append(file)
    done = subprocess.run([sys.executable, "-m", "wflsim", "check", *files], capture_output=True, text=True, timeout=120)
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    assert ": ok" not in done.stdout
    assert all(str(file) in done.stderr for file in files)


def test_check_says_ok_only_when_nothing_is_wrong(tmp_path, monkeypatch, capsys):
    """A fault that only the data can tell: a scenario that reads well, but has more clients than samples."""
    good, bad = tmp_path / "good.yaml", tmp_path / "bad.yaml"
    small = {**yaml.safe_load((ROOT / "scenarios/quickstart.yaml").read_text()), "model": {"name": "linear"}, "seeds": 1}
    good.write_text(yaml.safe_dump(small))
    bad.write_text(yaml.safe_dump({**small, "clients": 5000}))
    monkeypatch.setattr(sys, "argv", ["wflsim", "check", str(good), str(bad)])
    with pytest.raises(SystemExit) as ended:
        main()
    printed = capsys.readouterr()
    assert ended.value.code == 1
    assert ": ok" not in printed.out
    assert "bad.yaml: 1198 train samples cannot be shared" in " ".join(printed.err.split())


def test_version_is_printed():
    done = subprocess.run([sys.executable, "-m", "wflsim", "--version"], capture_output=True, text=True, timeout=60)
    assert done.stdout == f"wflsim {wflsim.__version__}\n"
    assert done.returncode == 0
