"""`critiqor receive`."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import click

from critiqor.cli.hints import add_runs_dir
from critiqor.cli.options import drop_unset, json_option, runs_dir_option, visibility_option
from critiqor.cli.output import answer_line, say, warn

if TYPE_CHECKING:
    from critiqor.receiver.importing import TraceResult
    from critiqor.receiver.serving import Listening


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@runs_dir_option
@click.option(
    "--host", metavar="ADDRESS", default="127.0.0.1", show_default=True, help="Address or host name to listen on."
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=4318,
    show_default=True,
    help="Port to listen on; 0 picks a free one.",
)
@click.option(
    "--idle",
    type=click.FloatRange(min=0, min_open=True),
    default=60.0,
    show_default=True,
    help="Seconds without new spans after which a trace without a root span is imported.",
)
@click.option(
    "--agent-id", envvar="CRITIQOR_AGENT_ID", help="Agent name for the runs.  [default: service.name of the sender]"
)
@click.option("--tenant-id", envvar="CRITIQOR_TENANT_ID", help="Tenant that owns the runs.  [default: default]")
@visibility_option
@click.option(
    "--benchmark-id", envvar="CRITIQOR_BENCHMARK_ID", help="Benchmark to rank the runs in.  [default: imported]"
)
@json_option
def receive(runs_dir: str, host: str, port: int, idle: float, as_json: bool, **metadata: str | None) -> None:
    """Receive OpenTelemetry traces over OTLP/HTTP until you press Ctrl-C: each becomes a run, sealed and diagnosed.

    A trace is imported 5 seconds after its root span and the last other span have arrived, or when it is idle. Each
    run is one line. What was received and not imported yet is kept for the next start.

    Other machines can send only if CRITIQOR_RECEIVE_TOKEN is set, as `Authorization: Bearer TOKEN`.

    \b
    critiqor receive
    OTEL_EXPORTER_OTLP_ENDPOINT=http://localhost:4318 OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf python agent.py
    """
    from critiqor.receiver.serving import TOKEN_VARIABLE, ReceiverOptions, serve
    from critiqor.receiver.spool import KEEP_DAYS
    from critiqor.run.store import RunStore

    def opened(listening: Listening) -> None:
        if listening.waiting.traces:
            say(f"{listening.waiting.traces} traces of an earlier receiver wait to be imported")
        if as_json:
            answer_line("receive", {"address": listening.address, "port": listening.port})
        say(f"receiving traces at {listening.address}/v1/traces; Ctrl-C ends the receiver")

    def imported(result: TraceResult) -> None:
        if as_json:
            answer_line("receive", result)
        elif result.problem is None:
            click.echo(_line(result))
        if result.trace_id is None:
            warn(f"nothing more is imported: {result.problem}")
        elif result.problem is not None:
            kept = f"it stays in the spool for {KEEP_DAYS} days, and is not tried again"
            again = kept if result.is_given_up else "it is tried again"
            warn(f"trace {result.trace_id} could not be imported: {result.problem}; {again}")

    options = ReceiverOptions(
        host=host, port=port, token=os.environ.get(TOKEN_VARIABLE) or None, idle=idle, metadata=drop_unset(metadata)
    )
    # The server ends with either signal, and sends it again when it has ended.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    figures, waiting = serve(RunStore(runs_dir), options, opened=opened, imported=imported)
    refused = f"; {figures.refused} requests were refused" if figures.refused else ""
    left = f"; {waiting.traces} traces wait for the next start" if waiting.traces else ""
    say(f"received {figures.spans} spans in {figures.requests} requests{refused}{left}")


def _line(result: TraceResult) -> str:
    from critiqor.model.sanitize import sanitize_line

    if result.run_id is None:
        return f"left out  {result.trace_id}  {result.spans} spans without an agent, a model call or a tool call"
    headline = sanitize_line(result.headline or "")
    following = add_runs_dir(f"critiqor show {result.run_id}")
    return f"{result.run_id}  {result.trace_id}  {result.spans} spans  {headline}  → {following}"
