"""The JSON Schema of the `json` format, made from the result's own types.

    python -m regress_gate.report.schema

writes `result.schema.json` beside this file; run it after every change of the result. Not for validating: any
draft 2020-12 validator does that with the file.
"""

import json
from pathlib import Path
from typing import Any

from pydantic.json_schema import GenerateJsonSchema

from regress_gate.model.result import Result

SCHEMA_PATH = Path(__file__).with_name("result.schema.json")


def schema() -> dict[str, Any]:
    """Keys that are not named stay allowed: the contract grows by additions."""
    generated = Result.model_json_schema(mode="serialization")
    generated["properties"]["created"]["pattern"] = "Z$"
    return {"$schema": GenerateJsonSchema.schema_dialect, **generated, "title": "regress-gate result, schema_version 1"}


def schema_text() -> str:
    return json.dumps(schema(), indent=2, sort_keys=True) + "\n"


if __name__ == "__main__":
    SCHEMA_PATH.write_text(schema_text(), encoding="utf-8")
