"""What llm-d's benchmark report 0.2.1 allows, as far as it is written here: written anew from its published schema.

Strict: no key that the schema does not have, no unit that it does not know.
"""

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

Count = Annotated[int, Field(ge=0, strict=True)]
Number = Annotated[float, Field(allow_inf_nan=False)]


class Part(BaseModel):
    model_config = ConfigDict(extra="forbid")


class _Statistics(Part):
    mean: Number
    stddev: Number | None = None
    min: Number | None = None
    p50: Number | None = None
    p90: Number | None = None
    p95: Number | None = None
    p99: Number | None = None
    max: Number | None = None


class Length(_Statistics):
    units: Literal["count"]


class Time(_Statistics):
    units: Literal["ms", "s"]


class TimePerToken(_Statistics):
    units: Literal["ms/token", "s/token"]


class TokenRate(_Statistics):
    units: Literal["tokens/s"]


class RequestRate(_Statistics):
    units: Literal["queries/s"]


class Requests(Part):
    total: Count
    failures: Count | None = None
    incomplete: Count | None = None
    input_length: Length | None = None
    output_length: Length | None = None


class Latency(Part):
    time_to_first_token: Time | None = None
    request_latency: Time | None = None
    time_per_output_token: TimePerToken | None = None
    inter_token_latency: TimePerToken | None = None
    normalized_time_per_output_token: TimePerToken | None = None


class Throughput(Part):
    input_token_rate: TokenRate | None = None
    output_token_rate: TokenRate | None = None
    total_token_rate: TokenRate | None = None
    request_rate: RequestRate | None = None


class Aggregate(Part):
    requests: Requests | None = None
    latency: Latency | None = None
    throughput: Throughput | None = None


class Performance(Part):
    aggregate: Aggregate | None = None


class Results(Part):
    request_performance: Performance | None = None


class RunTime(Part):
    start: datetime | None = None
    end: datetime | None = None
    duration: Annotated[str, Field(pattern=r"^PT\d+(\.\d+)?S$")] | None = None


class RunPart(Part):
    uid: str
    eid: str | None = None
    time: RunTime | None = None
    description: str | None = None


class Native(Part):
    args: dict[str, Any] | None = None
    envars: dict[str, Any] | None = None
    config: Any = None


class ComponentMetadata(Part):
    label: str
    cfg_id: str


class GenericComponent(BaseModel):
    model_config = ConfigDict(extra="allow")

    kind: Literal["generic"]
    tool: str
    tool_version: str


class Component(Part):
    metadata: ComponentMetadata
    standardized: GenericComponent
    native: Native


class SequenceLength(Part):
    distribution: Literal["fixed", "gaussian", "uniform", "other"]
    value: Annotated[float, Field(ge=0)]


class StandardizedLoad(Part):
    tool: str
    tool_version: str
    source: Literal["random", "sampled", "unknown"]
    input_seq_len: SequenceLength
    output_seq_len: SequenceLength | None = None
    rate_qps: Annotated[float, Field(gt=0)] | None = None
    concurrency: Annotated[float, Field(ge=1)] | None = None


class LoadMetadata(Part):
    cfg_id: str | None = None


class Load(Part):
    metadata: LoadMetadata
    standardized: StandardizedLoad
    native: Native


class Scenario(Part):
    stack: list[Component] | None = None
    load: Load | None = None


class Report(Part):
    version: Literal["0.2.1"]
    run: RunPart
    scenario: Scenario | None = None
    results: Results
