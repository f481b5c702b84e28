"""The JSON Schemas of the `json` format, made from the results' own types, and the tables of keys in docs/.

    python -m regress_gate.report.schema

writes both; run it after every change of a result. Not for validating: any draft 2020-12 validator does that with
`result.schema.json`, with `deployments.schema.json` for a check of several servers, and with `audit.schema.json`.
"""

import ast
import inspect
import json
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from pydantic.json_schema import GenerateJsonSchema

from regress_gate.model import result as result_module
from regress_gate.model.result import Result
from regress_gate.report import audit_document
from regress_gate.report.audit_document import AuditOut, AuditServersOut

SCHEMA_PATH = Path(__file__).with_name("result.schema.json")
SERVERS_PATH = Path(__file__).with_name("deployments.schema.json")
AUDIT_PATH = Path(__file__).with_name("audit.schema.json")
PAGE = Path(__file__).parents[2] / "docs" / "json.md"
"""In a checkout; an installed package has no pages."""
AUDIT_PAGE = PAGE.with_name("audit.md")


def schema() -> dict[str, Any]:
    """Keys that are not named stay allowed: the contract grows by additions."""
    generated = Result.model_json_schema(mode="serialization")
    generated["properties"]["created"]["pattern"] = "Z$"
    _describe({**generated["$defs"], "Result": generated}, result_module)
    return {"$schema": GenerateJsonSchema.schema_dialect, **generated, "title": "regress-gate result, schema_version 1"}


def audit_schema() -> dict[str, Any]:
    """Of an audit, and of the audits of several servers."""
    generated = AuditServersOut.model_json_schema(mode="serialization")
    parts = {**generated.pop("$defs"), "AuditServersOut": generated}
    parts["AuditOut"]["properties"]["created"]["pattern"] = "Z$"
    _describe(parts, result_module)
    _describe(parts, audit_document)
    return {
        "$schema": GenerateJsonSchema.schema_dialect,
        "$defs": parts,
        "title": "regress-gate audit, schema_version 1",
        "anyOf": [{"$ref": f"#/$defs/{one.__name__}"} for one in (AuditOut, AuditServersOut)],
    }


def servers_schema() -> dict[str, Any]:
    """Of a check of several servers, which is an object around their results (`views/servers_view.py`)."""
    result = schema()
    properties = result["properties"]
    return {
        "$schema": result.pop("$schema"),
        "$defs": {**result.pop("$defs"), "Result": result},
        "title": "regress-gate check of several servers, schema_version 1",
        "type": "object",
        "properties": {
            **{key: properties[key] for key in ("schema_version", "tool_version")},
            "decision": {**properties["decision"], "description": "The worst: fail before inconclusive before pass."},
            "exit_code": {**properties["exit_code"], "description": "The worst, in the same order."},
            "deployments": {
                "type": "array",
                "minItems": 1,
                "items": {"$ref": "#/$defs/Result"},
                "description": "A result for each server, whose `deployment` names it.",
            },
        },
        "required": ["schema_version", "tool_version", "decision", "exit_code", "deployments"],
    }


def schema_text(of: dict[str, Any]) -> str:
    return json.dumps(of, indent=2, sort_keys=True) + "\n"


def _describe(parts: dict[str, Any], module: ModuleType) -> None:
    """Every key with the text below its field."""
    for model, fields in _field_texts(module).items():
        for field, text in fields.items():
            if field in parts.get(model, {}).get("properties", {}):
                parts[model]["properties"][field]["description"] = text


def _field_texts(module: ModuleType) -> dict[str, dict[str, str]]:
    """Class to field to the text that stands below the field. pydantic could read them too, but at every start."""
    texts: dict[str, dict[str, str]] = {}
    for node in ast.parse(inspect.getsource(module)).body:
        if not isinstance(node, ast.ClassDef):
            continue
        fields = texts.setdefault(node.name, {})
        for field, below in zip(node.body, node.body[1:], strict=False):
            if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and _is_text(below):
                fields[field.target.id] = inspect.cleandoc(ast.literal_eval(below.value))  # type: ignore[attr-defined]
    return texts


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


# Tables for docs/json.md


def key_tables() -> str:
    """Markdown: a table of keys for each object, then the values of each word that a key may hold."""
    whole = schema()
    objects = {"Result": whole, **{name: part for name, part in whole["$defs"].items() if "properties" in part}}
    words = {name: part for name, part in whole["$defs"].items() if "enum" in part}
    parts = ["\n".join(_object_table(name, part)) for name, part in objects.items()]
    values = [f"| `{name}` | {', '.join(f'`{one}`' for one in part['enum'])} |" for name, part in words.items()]
    return "\n\n".join([*parts, "\n".join(["## Words", "", "| type | values |", "| --- | --- |", *values])]) + "\n"


def audit_tables() -> str:
    """Markdown: a table of keys for each object of an audit that a result of `compare` does not have."""
    parts = audit_schema()["$defs"]
    own = [name for name in _field_texts(audit_document) if name in parts]
    ordered = sorted(own, key=lambda name: name != AuditOut.__name__)
    text = "\n\n".join("\n".join(_object_table(name, parts[name], "###")) for name in ordered) + "\n"
    here = {name.lower() for name in own}
    return re.sub(r"\]\(#(\w+)\)", lambda link: link[0] if link[1] in here else f"]({PAGE.name}#{link[1]})", text)


def _object_table(name: str, part: dict[str, Any], heading: str = "##") -> Iterator[str]:
    yield f"{heading} {name}"
    yield ""
    if name != "Result" and (text := part.get("description")):
        yield from (text.replace("\n", " "), "")
    yield "| key | type | is |"
    yield "| --- | --- | --- |"
    for key, value in part["properties"].items():
        meaning = value.get("description", "").replace("\n", " ").replace("|", "\\|")
        yield f"| `{key}` | {_type_text(value)} | {meaning} |"


def _link(model: str) -> str:
    if hasattr(audit_document, model) and not hasattr(result_module, model):
        values = getattr(getattr(audit_document, model), "__members__", {}).values()
        return ", ".join(f"`{one.value}`" for one in values) or f"[`{model}`](#{model.lower()})"
    is_word = hasattr(getattr(result_module, model, None), "__members__")
    return f"[`{model}`](#{'words' if is_word else model.lower()})"


def _type_text(value: dict[str, Any]) -> str:
    if "anyOf" in value:
        return " or ".join(_type_text(one) for one in value["anyOf"])
    if "$ref" in value:
        return _link(value["$ref"].rpartition("/")[2])
    if "enum" in value:
        return ", ".join(f"`{one}`" for one in value["enum"])
    if "const" in value:
        return f"`{json.dumps(value['const'])}`"
    if value.get("type") == "array":
        if "prefixItems" in value:
            return f"[{', '.join(_type_text(one) for one in value['prefixItems'])}]"
        return f"list of {_type_text(value['items'])}" if value.get("items") else "list"
    return str(value.get("format") or value.get("type", "any"))


def audit_page_text(page: str) -> str:
    """The page of `audit` with the tables of today."""
    return page[: page.index("### AuditOut\n")] + audit_tables()


def page_text(page: str) -> str:
    """The page with the tables of today: everything from the first of them on."""
    return page[: page.index("## Result\n")] + key_tables()


if __name__ == "__main__":
    SCHEMA_PATH.write_text(schema_text(schema()), encoding="utf-8")
    SERVERS_PATH.write_text(schema_text(servers_schema()), encoding="utf-8")
    AUDIT_PATH.write_text(schema_text(audit_schema()), encoding="utf-8")
    if PAGE.exists():
        AUDIT_PAGE.write_text(audit_page_text(AUDIT_PAGE.read_text(encoding="utf-8")), encoding="utf-8")
        PAGE.write_text(page_text(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
