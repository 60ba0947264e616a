"""report.json: fields that came later are optional, and a claim without figures is refused."""

from __future__ import annotations

import json

import pytest

from codedag.ir import BadFile, Block, Claim, Heat, Mark, Proof, Report, Speed, load, save

OLD = {
    "format": "codedag/report",
    "version": 1,
    "gain": 1.5,
    "verdict": {"identical": True, "checked": 1, "mismatches": 0, "how": ""},
    "changes": [{"what": "resize", "where": "train.py:4"}],
    "declined": [{"what": "read", "where": "train.py:9", "reason": "not pure"}],
}
PROOF = Proof(identical=True, checked=1, mismatches=0, how="")


def test_a_report_from_before_these_fields_loads(tmp_path):
    file = tmp_path / "report.json"
    file.write_text(json.dumps(OLD))
    found = load(file, "report")
    assert (found.claim, found.heat, found.speed) == (None, None, None)
    change = found.changes[0]
    assert (change.saved_seconds, change.spent_seconds, change.state, change.reason_code) == (None, None, "", "")


def test_a_report_with_all_of_them_is_read_back_as_it_was(tmp_path):
    blocks = [Block(start=0.0, seconds=0.5, turns=4), Block(start=0.5, seconds=0.25, turns=4, changed=True, void=True)]
    report = Report(
        verdict=PROOF,
        claim=Claim(reason_code="few_blocks", reason="the program ended after 3 pairs of blocks", pairs=3),
        heat=Heat(sampled_seconds=2.0, is_biased=True),
        speed=Speed(unit="batch", blocks=blocks, marks=[Mark(name="resize", seconds=0.5)]),
    )
    save(report, tmp_path / "report.json")
    assert load(tmp_path / "report.json", "report") == report


@pytest.mark.parametrize(
    ("field", "value", "named"),
    [
        ("claim", {"known": True, "ratio": 1.2, "low": 1.1}, "high"),
        ("claim", {"known": True, "ratio": 1.2, "low": 1.3, "high": 1.1}, "low"),
        ("claim", {"clock": "sundial"}, "clock"),
        ("heat", {"sampled_seconds": -1.0}, "sampled_seconds"),
        ("heat", {}, "sampled_seconds"),
        ("heat", {"sampled_seconds": 1.0, "lines": [{"file": "a.py", "line": -1, "seconds": 1.0}]}, "line"),
        ("speed", {"blocks": [{"start": 0.0, "seconds": 1.0, "turns": -4}]}, "turns"),
    ],
)
def test_what_cannot_be_is_refused_by_name(tmp_path, field, value, named):
    file = tmp_path / "report.json"
    file.write_text(json.dumps({**OLD, field: value}))
    with pytest.raises(BadFile, match=named):
        load(file, "report")
