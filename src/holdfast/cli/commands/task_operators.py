"""Commands of ``holdfast tasks`` for operators: take leases over, revoke them, end runs by hand."""

from __future__ import annotations

from typing import Any

import click

from holdfast.cli.commands.lease_output import CAPABILITIES, TTL, WORKER, lease_view, report
from holdfast.cli.context import command_context, printing
from holdfast.cli.params import JSON
from holdfast.connect.blocking.tasks import TaskWorker
from holdfast.errors import HoldfastError
from holdfast.service.tasks.lease_state import RunEnded
from holdfast.views.text import payload


@click.command(epilog="Example: holdfast tasks reclaim last --capability cuda")
@click.argument("run", metavar="RUN")
@CAPABILITIES
@TTL
@WORKER
@printing
def reclaim(run: str, capabilities: list[str], ttl: str, worker: str) -> None:
    """Lease this run, whose holder is gone. A run that has reached its limit of reclaims fails."""
    with command_context().opened() as database:
        record = database.find(run, mine=True)
        offer: dict[str, Any] = {
            "capabilities": capabilities,
            "workflows": [record.workflow],
            "claims": False,
            "renew": False,
        }
        task_worker: TaskWorker = database.engine.tasks.worker(worker, ttl=ttl, **offer)
        try:
            answer = task_worker.reclaim(record.id)
        except HoldfastError:
            task_worker.close()
            raise
        if isinstance(answer, RunEnded):
            task_worker.close()
            report(
                {"run": record.id, "status": answer.status.value},
                f"run {record.id} is {answer.status.value}",
            )
        else:
            report(
                lease_view(answer),
                f"{answer.proof}  {answer.run.workflow}  {payload(answer.input)}",
            )


@click.command(epilog="Example: holdfast tasks revoke last --reason 'its machine hangs'")
@click.argument("run", metavar="RUN")
@click.option(
    "--reason",
    default="revoked by an operator",
    show_default=True,
    metavar="TEXT",
    help="The reason. E.g. --reason 'it hangs'",
)
@printing
def revoke(run: str, reason: str) -> None:
    """Revoke the lease of a run; later writes of its holder are refused."""
    with command_context().opened() as database:
        run_id = database.find(run, mine=True).id
        revoked = database.engine.tasks.revoke(run_id, reason, by=command_context().person())
        if revoked:
            line = f"the lease of run {run_id} was revoked"
        else:
            line = f"run {run_id} has no holder: nothing was revoked"
        report({"run": run_id, "revoked": revoked}, line)


@click.command(epilog="Example: holdfast tasks priority last 5")
@click.argument("run", metavar="RUN")
@click.argument("priority", metavar="N", type=int)
@printing
def priority(run: str, priority: int) -> None:
    """Change the priority of a run."""
    with command_context().opened() as database:
        run_id = database.find(run, mine=True).id
        old = database.engine.tasks.prioritise(run_id, priority, by=command_context().person())
        report(
            {"run": run_id, "old": old, "new": priority},
            f"the priority of run {run_id} is {priority} (was {old})",
        )


@click.command(epilog="Example: holdfast tasks override last 'done by hand' --result '7'")
@click.argument("run", metavar="RUN")
@click.argument("reason", metavar="REASON")
@click.option(
    "--result", type=JSON, metavar="JSON", help="The result of the run. E.g. --result '7'"
)
@click.option("--failed", is_flag=True, help="End the run as failed.")
@printing
def override(run: str, reason: str, result: Any, failed: bool) -> None:
    """End a run as completed or failed, whether it has a holder or not."""
    with command_context().opened() as database:
        run_id = database.find(run, mine=True).id
        status = database.engine.tasks.override(
            run_id, reason, result=result, failed=failed, by=command_context().person()
        )
        report({"run": run_id, "status": status.value}, f"run {run_id} is {status.value}")
