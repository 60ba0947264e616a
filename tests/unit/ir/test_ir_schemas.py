from __future__ import annotations

import importlib.util
import inspect
import json
from pathlib import Path

import jsonschema
import pytest
from ir_samples import everything

from codedag.ir import FILE_NAMES, save

ROOT = Path(__file__).parents[3]
SCHEMAS = ROOT / "src" / "codedag" / "ir" / "schemas"


def written():
    spec = importlib.util.spec_from_file_location("write_schemas", ROOT / "scripts" / "write_schemas.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.schemas()


def test_the_schemas_are_current():
    wanted = written()
    assert {path: path.read_text() for path in SCHEMAS.iterdir()} == wanted, "run `make schemas`"
    assert sorted(path.name for path in wanted) == sorted(f"{kind}.schema.json" for kind in FILE_NAMES)


def descriptions(part):
    if isinstance(part, list):
        return [text for one in part for text in descriptions(one)]
    if not isinstance(part, dict):
        return []
    own = [part["description"]] if isinstance(part.get("description"), str) else []
    return own + [text for one in part.values() for text in descriptions(one)]


def test_descriptions_have_no_indentation_of_the_source():
    """Python 3.13 takes it out of docstrings, earlier ones leave it in: the schemas are the same on all of them."""
    texts = [text for schema in written().values() for text in descriptions(json.loads(schema))]
    assert any("\n" in text for text in texts)
    assert [text for text in texts if text != inspect.cleandoc(text)] == []


def validator(kind):
    schema = json.loads((SCHEMAS / f"{kind}.schema.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


@pytest.mark.parametrize("kind", sorted(everything()))
def test_saved_files_are_valid(kind, tmp_path):
    save(everything()[kind], tmp_path / "file.json")
    whole = json.loads((tmp_path / "file.json").read_bytes())
    validator(kind).validate(whole)
    for missing in ("format", "version"):
        assert not validator(kind).is_valid({key: value for key, value in whole.items() if key != missing})


def test_a_schema_refuses_what_loading_refuses(tmp_path):
    save(everything()["graph"], tmp_path / "graph.json")
    whole = json.loads((tmp_path / "graph.json").read_bytes())
    whole["ops"][0]["kind"] = "magic"
    assert not validator("graph").is_valid(whole)


def test_the_page_names_every_file_and_field():
    page = (ROOT / "docs" / "files.md").read_text()
    for kind, name in FILE_NAMES.items():
        schema = json.loads((SCHEMAS / f"{kind}.schema.json").read_text())
        assert f"## {name}" in page
        assert f"{kind}.schema.json" in page
        for part in schema["$defs"].values():
            for field in part.get("properties", ()):  # a row that is a list has none
                assert f"`{field}`" in page, f"{name}: {field}"
