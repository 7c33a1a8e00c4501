"""Damaged folders: whatever happened to a file, the answer is a sentence or the right bytes, never a wrong table."""

from __future__ import annotations

import json
import os
import random
import shutil

import damage
import pytest

from wflsim.errors import StoreError
from wflsim.files import Damaged, Mark, read_sealed, write_sealed
from wflsim.results.store import Store

TOP = {
    "run": ("run.json", "scenario.yaml", "partition-seed-0.csv", "summary.csv", "runs.csv", "world.csv", ".lock"),
    "cut": ("run.json", "scenario.yaml", "partition-seed-0.csv"),
    "sweep": ("run.json", "scenario.yaml", "runs.csv", "summary.csv"),
    "tune": ("run.json", "scenario.yaml", "map.csv", "costs.csv", "curves.csv", "answer.txt", "map.png"),
}
ROWS = ("rounds.csv", "clients.csv", "legs.csv", "trace.jsonl", "status.json")
FILES = [
    *((kind, name) for kind, names in TOP.items() for name in names),
    *(("run", f"drdm/seed-0/{name}") for name in (*ROWS, "fleet.csv", "wall.json", ".lock")),
    *(("cut", f"fedavg/seed-0/{name}") for name in ROWS),
    *(("cut", f"drdm/seed-0/{name}") for name in (*ROWS, "checkpoint.pt")),
]
CASES = [(kind, name, how) for kind, name in FILES for how in damage.DAMAGES]
STORED = ("trace.jsonl", "seal.json", "checkpoint.pt")
KEPT = [(name, how) for name in (*STORED, "record") for how in damage.DAMAGES]
SAMPLE = random.Random(7).sample(CASES, 22)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Folders of every kind, and what they say undamaged."""
    base, before = tmp_path_factory.mktemp("whole"), os.environ.get("WFLSIM_STORE")
    try:
        damage.make_all(base)
        shutil.copytree(base, base.parent / f"{base.name}-kept")
        shutil.copytree(base / "cut", base / "finished")
        right = {kind: damage.again(kind, base) for kind in ("run", "sweep", "tune")}
        right["cut"] = damage.again("cut", base, "finished")
        right["longer"] = damage.again("longer", base)
        frames = {kind: damage.frames(base / where) for kind, where in (("run", "run"), ("cut", "finished"))}
        joined = {kind: [damage.joined(base / kind)] for kind in ("run", "sweep")}
        joined["cut"] = [damage.joined(base / "finished"), damage.joined(base / "cut")]  # of the runs that ended, saying so
        pages = {kind: damage.page(base / kind)[0] for kind in ("run", "sweep", "tune")}
    finally:
        os.environ.pop("WFLSIM_STORE") if before is None else os.environ.__setitem__("WFLSIM_STORE", before)
    return base.parent / f"{base.name}-kept", right, frames, joined, pages


@pytest.fixture
def copied(whole, tmp_path, monkeypatch):
    base = shutil.copytree(whole[0], tmp_path / "base")
    monkeypatch.setenv("WFLSIM_STORE", str(base / "store"))
    return base


def left_out(found, right):
    """A comparison of fewer runs that says so, with the lines of all others as they were."""
    lines, _, notes = found
    kept = {line.partition(",")[2] for line in lines.splitlines()}
    return notes == ["1 of 2 runs have not ended and are left out"] and kept < {line.partition(",")[2] for line in right[0].splitlines()}


def look(kind, name, how, whole, copied, with_page=True):
    """Damage one file, read the folder in every way, call the command again, and read once more."""
    _, right, frames, joined, pages = whole
    folder = copied / kind
    how(folder / name, random.Random(f"{kind} {name} {how.__name__}"))
    if kind in ("run", "cut"):
        found = damage.attempt(damage.frames, folder)
        assert isinstance(found, str) or found == frames[kind], "a wrong table"
    found = damage.attempt(damage.joined, folder)
    assert isinstance(found, str) or found in joined[kind] or left_out(found, joined[kind][0]), "a wrong comparison"
    if with_page:
        found = damage.attempt(damage.page, folder)
        if not isinstance(found, str) and kind != "cut":
            lines, missing = found
            assert lines <= pages[kind] or any(name.rpartition("/")[2] in line for line in missing), lines - pages[kind]
    found = damage.attempt(damage.again, kind, copied)
    if isinstance(found, str):
        assert folder.name in found, found
        return found
    assert found == right[kind]
    if kind in ("run", "cut"):
        assert damage.frames(folder) == frames[kind]
    return ""


@pytest.mark.parametrize(("kind", "name", "how"), SAMPLE, ids=lambda value: getattr(value, "__name__", str(value)))
def test_a_sample_of_all_damages_ends_in_a_sentence_or_the_right_bytes(kind, name, how, whole, copied):
    look(kind, name, how, whole, copied, with_page=False)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "name", "how"), CASES, ids=lambda value: getattr(value, "__name__", str(value)))
def test_every_damage_to_every_file_ends_in_a_sentence_or_the_right_bytes(kind, name, how, whole, copied):
    look(kind, name, how, whole, copied)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "how"), KEPT, ids=lambda value: getattr(value, "__name__", str(value)))
def test_every_damage_to_the_store_ends_in_a_sentence_or_the_right_bytes(name, how, whole, copied):
    right = whole[1]
    paths = (copied / "store/runs").rglob("*.json") if name == "record" else (copied / "store/traces").glob(f"*/{name}")
    for path in paths:
        how(path, random.Random(f"{path.name} {how.__name__}"))
    shutil.rmtree(copied / "run")
    for kind in ("run", "sweep", "tune", "longer"):
        found = damage.attempt(damage.again, kind, copied)
        if isinstance(found, str):
            assert "remove" in found, found
        else:
            assert found == right[kind], kind


@pytest.mark.parametrize("name", ["clients.csv", "legs.csv", "trace.jsonl"])
def test_a_finished_run_with_a_damaged_file_is_not_taken_for_whole(name, whole, copied):
    """compare and Results name the file and the cure, a report leaves the run out, run computes it again and says so."""
    _, right, _, _, pages = whole
    folder = copied / "run"
    path = folder / "drdm/seed-0" / name
    damage.flipped(path, random.Random(1))
    for reading in (damage.frames, damage.joined):
        with pytest.raises(StoreError, match=rf"drdm/seed-0/{name} is damaged: .*; call the same wflsim command again"):
            reading(folder)
    lines, missing = damage.page(folder)
    assert lines < pages["run"]
    assert not any(line.startswith("drdm") for line in lines)
    assert any(f"drdm/seed-0 is left out: {path} is damaged" in line for line in missing), missing
    said = []
    damage.wflsim.run(damage.RUN, folder, workers=1, say=said.append)
    assert said == [f"drdm seed 0 is computed again: {path} is damaged: it is not what it was when it was finished"]
    assert damage.bytes_of(folder) == right["run"]
    damage.wflsim.run(damage.RUN, folder, workers=1, say=said.append)
    assert len(said) == 1


def test_an_interrupted_folder_is_refused_with_the_cure(copied):
    with pytest.raises(StoreError, match=r"1 of 2 runs are not finished \(drdm seed 0\); the same `wflsim run` goes on"):
        damage.frames(copied / "cut")
    lines, _, notes = damage.joined(copied / "cut")
    assert "fedavg" in lines
    assert "drdm" not in lines
    assert notes == ["1 of 2 runs have not ended and are left out"]
    (copied / "cut/fedavg/seed-0/status.json").unlink()
    with pytest.raises(StoreError, match="no run of it has ended yet; run it again"):
        damage.joined(copied / "cut")
    (copied / "sweep/run.json").write_text(write_sealed({**read_sealed(copied / "sweep/run.json")[0], "status": "interrupted"}, {}))
    with pytest.raises(StoreError, match="the sweep is not finished"):
        damage.joined(copied / "sweep")


def test_a_damaged_checkpoint_or_prefix_begins_the_run_anew_and_says_so(whole, copied):
    cell = copied / "cut/drdm/seed-0"
    damage.flipped(cell / "legs.csv", random.Random(2))
    assert damage.again("cut", copied) == whole[1]["cut"]
    assert f"(begun anew: {cell / 'legs.csv'} is damaged" in json.loads((cell / "status.json").read_text())["mode"]


def test_a_folder_from_before_there_were_seals_is_looked_through(whole, copied):
    """Its runs are believed while their tables are whole; a cut line or a lost round is refused."""
    cell = copied / "run/fedavg/seed-0"
    for path in (copied / "run/run.json", cell / "status.json", copied / "run/drdm/seed-0/status.json"):
        path.write_text(json.dumps(read_sealed(path)[0]))
    assert damage.frames(copied / "run") == whole[2]["run"]
    stamp = (cell / "rounds.csv").stat().st_mtime_ns
    assert damage.again("run", copied) == whole[1]["run"]
    assert (cell / "rounds.csv").stat().st_mtime_ns == stamp, "an old run that is whole was computed again"
    for name, damaged in (("legs.csv", lambda body: body[:-9]), ("rounds.csv", lambda body: b"".join(body.splitlines(True)[::2]))):
        kept = (cell / name).read_bytes()
        (cell / name).write_bytes(damaged(kept))
        with pytest.raises(Damaged, match=f"fedavg/seed-0/{name} is damaged"):
            damage.frames(copied / "run")
        assert damage.again("run", copied) == whole[1]["run"]
        (cell / name).write_bytes(kept)


def test_no_byte_of_a_seal_can_change_unnoticed(whole, copied):
    """Bytes of run.json, status.json and the store's seal, changed one by one: refused, or the same content."""
    rng = random.Random(3)
    for path in (copied / "run/run.json", copied / "run/drdm/seed-0/status.json"):
        right, body = read_sealed(path), path.read_bytes()
        for i in range(0, len(body), 4):
            path.write_bytes(body[:i] + bytes([body[i] ^ rng.randrange(1, 256)]) + body[i + 1 :])
            try:
                assert read_sealed(path) == right
            except Damaged:
                continue
    entry = next((copied / "store/traces").iterdir())
    stored, seal = Store(copied / "store").trace(entry.name), entry / "seal.json"
    held, body = stored.read(), seal.read_bytes()
    about = json.loads(body)["about"]
    for i in range(len(body)):
        seal.write_bytes(body[:i] + bytes([body[i] ^ 1]) + body[i + 1 :])
        try:
            assert stored.read() == held, body[max(0, i - 20) : i + 20]
            assert stored.reaches(damage.ROUNDS + 1) is False
        except StoreError:
            continue
    assert about


def test_a_mark_is_the_size_and_checksum_of_what_is_there(tmp_path):
    path = tmp_path / "x"
    path.write_bytes(b"abc" * 1_000_000)
    assert Mark.of_file(path) == Mark.of(b"abc" * 1_000_000)
    assert Mark.of(b"abc").size == 3
    import hashlib

    assert Mark.of(b"abc").checksum == hashlib.blake2b(b"abc", digest_size=16).hexdigest()
