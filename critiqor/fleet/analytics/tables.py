"""The tables of the Parquet export: their columns, what these mean, and which of them hold content.

`day` and `host` are no columns of the files: they are in the names of the folders, `day=2026-11-02/host=build-7`, from
which every reader of such a layout takes them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    import pyarrow as pa

ColumnType = Literal["text", "integer", "number", "boolean", "time"]
SCHEMA_KEY = b"critiqor.schema"
"""Key of the metadata of each file that names table and version."""
TABLES_VERSION = 1
# 1: first version. A column that is added does not change it; one that is removed or means something else does.


class Column(NamedTuple):
    """One column of a table."""

    name: str
    type: ColumnType
    meaning: str
    is_content: bool = False
    """Whether it holds what was said or done, and is written only if content is exported."""


class Table(NamedTuple):
    """One table."""

    name: str
    columns: tuple[Column, ...]

    def without_content(self) -> Table:
        """Return the table without the columns that hold content."""
        return Table(self.name, tuple(column for column in self.columns if not column.is_content))

    def schema(self) -> pa.Schema:
        """Return the schema of the files, with its version in the metadata."""
        import pyarrow as pa

        types = {
            "text": pa.string(),
            "integer": pa.int64(),
            "number": pa.float64(),
            "boolean": pa.bool_(),
            "time": pa.timestamp("ms", tz="UTC"),
        }
        metadata = {SCHEMA_KEY: f"critiqor.fleet.{self.name}.v{TABLES_VERSION}".encode()}
        return pa.schema([(column.name, types[column.type]) for column in self.columns], metadata)


_RUN = (
    Column("run_id", "text", "the run, on its host"),
    Column("seal", "text", "digest of its sealed evidence: the same in all tables, unique in the store"),
)
_PLACE = (
    Column("session_key", "text", "the session; null if it is none of a session"),
    Column("agent_run_id", "text", "the agent run; null if it is none of an agent run"),
)

EVENTS = Table(
    "events",
    (
        *_RUN,
        Column("event_id", "text", "unique in the run; sorts in the order of events"),
        Column("time", "time", "when it happened"),
        *_PLACE,
        Column("type", "text", "canonical name of the event"),
        Column("tool", "text", "name of the tool"),
        Column("tool_call_id", "text", "connects a call with its result"),
        Column("status", "text", "`ok` or `error`"),
        Column("duration_ms", "number", "milliseconds; null for an event that ends nothing"),
        Column("provider", "text", "provider of the model that was called"),
        Column("model", "text", "model that was called"),
        Column("input_tokens", "integer", "tokens that this event adds to those of the run; null if it adds none"),
        Column("output_tokens", "integer", "likewise"),
        Column("cache_read_tokens", "integer", "likewise"),
        Column("cache_write_tokens", "integer", "likewise"),
        Column("cost_usd", "number", "US dollars that this event adds to the cost; null if no price is known"),
        Column("error", "text", "error message", is_content=True),
        Column("payload", "text", "data that is specific to the type, as JSON", is_content=True),
    ),
)
RUNS = Table(
    "runs",
    (
        *_RUN,
        Column("agent_id", "text", "name that the agent is recorded under"),
        Column("tenant_id", "text", "tenant that owns the run"),
        Column("visibility", "text", "who may see it"),
        Column("created_at", "time", "when it was created"),
        Column("sealed_at", "time", "when its evidence was sealed"),
        Column("events", "integer", "number of its events"),
        Column("critiqor_version", "text", "version that recorded it"),
        Column("openclaw_version", "text", "version of the recorded OpenClaw; null if unknown"),
        Column("rule_set", "text", "rule set of its latest diagnosis in the store"),
        Column("verdict", "text", "`ready`, `review`, `unsafe` or `unknown`"),
        Column("trust", "integer", "0 to 100; null if no agent was observed"),
        Column("confidence", "integer", "0 to 100"),
        Column("outcome", "text", "how the run ended"),
        Column("task", "text", "whether the agent did what it was asked to do"),
        Column("sessions", "integer", "number of sessions"),
        Column("findings", "integer", "number of findings, without those of extensions"),
        Column("model_calls", "integer", "number of model calls"),
        Column("tool_calls", "integer", "number of tool calls"),
        Column("input_tokens", "integer", "tokens of all model calls"),
        Column("output_tokens", "integer", "likewise"),
        Column("cache_read_tokens", "integer", "likewise"),
        Column("cache_write_tokens", "integer", "likewise"),
        Column("cost_usd", "number", "US dollars; null if no price is known"),
        Column("cost_is_partial", "boolean", "whether a part of the cost is unknown"),
        Column("wall_ms", "integer", "wall time in milliseconds; null if unknown"),
        Column("headline", "text", "the diagnosis in one sentence", is_content=True),
    ),
)
FINDINGS = Table(
    "findings",
    (
        *_RUN,
        Column("agent_id", "text", "name that the agent is recorded under"),
        Column("rule_set", "text", "rule set that found it"),
        Column("finding_id", "text", "unique in the diagnosis; the worst comes first"),
        *_PLACE,
        Column("type", "text", "failure type"),
        Column("cause", "text", "type, tool and kind of error: the same in every run with this failure"),
        Column("severity", "text", "`critical`, `high`, `medium`, `low` or `info`"),
        Column("confidence", "integer", "0 to 100"),
        Column("occurrences", "integer", "how often it happened"),
        Column("first_event", "text", "event where it began"),
        Column("trust_points", "integer", "points of trust that it costs"),
        Column("wasted_tokens", "integer", "tokens that were wasted; null if unknown"),
        Column("wasted_usd", "number", "the same in US dollars"),
        Column("wasted_ms", "integer", "milliseconds that were wasted; null if unknown"),
        Column("extension", "text", "package that found it; null for Critiqor's own detectors"),
        Column("title", "text", "the failure in one sentence", is_content=True),
        Column("explanation", "text", "what happened", is_content=True),
    ),
)
CLAIMS = Table(
    "claims",
    (
        *_RUN,
        Column("agent_id", "text", "name that the agent is recorded under"),
        Column("rule_set", "text", "rule set that checked it"),
        Column("claim_id", "text", "unique in the diagnosis"),
        *_PLACE,
        Column("event_id", "text", "event that contains it"),
        Column("kind", "text", "what is claimed: `check`, `action`, `inspection`, `value`, `quote` or `completeness`"),
        Column("status", "text", "`supported`, `contradicted`, `unsupported` or `unverifiable`"),
        Column("text", "text", "the claim", is_content=True),
        Column("reason", "text", "why it has this status", is_content=True),
    ),
)
TABLES = (EVENTS, RUNS, FINDINGS, CLAIMS)
