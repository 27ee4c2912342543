"""What the Prefect server does by itself: report runs that wait for approval or go wrong, stop schedules that cannot
spend, cancel late runs, and end runs whose process is gone.

    set -a; . /etc/das-flows/environment; set +a
    .venv/bin/python deploy/automations.py

DAS_NOTIFY_URL is where messages go, as JSON {"text": …} by POST: a chat's incoming webhook, a mail gateway. Without it
nobody is notified. Run it again after a change: automations and block are replaced by name.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

from prefect.automations import Automation
from prefect.blocks.notifications import CustomWebhookNotificationBlock
from prefect.client.schemas.objects import StateType
from prefect.events.actions import CancelFlowRun, ChangeFlowRunState, PauseDeployment, SendNotification
from prefect.events.schemas.automations import EventTrigger, Posture

from flows.execution.systems import SYSTEMS

FLOWS = (*SYSTEMS, "dry-run")
WENT_WRONG = ("Failed", "Refused", "Crashed", "Late")
# Every state that ends a run or sets it aside: a run in one of them sends no heartbeats and is no zombie.
ENDED = ("Completed", "Failed", "Crashed", "Cancelled", "Refused", "Skipped", "Tried")
ASIDE = ("Cancelling", "Suspended", "Paused", "Scheduled", "AwaitingRetry", "AwaitingInput")
HEARTBEATS = 3  # missed in a row
BLOCK = "das-notify"
BY_SCHEDULE = {"prefect.resource.role": "tag", "prefect.resource.id": "prefect.tag.auto-scheduled"}


def main() -> None:
    """Make or replace the automations."""
    found = [ended_zombies(), paused_schedules(), cancelled_late_runs()]
    if url := os.environ.get("DAS_NOTIFY_URL"):
        block = CustomWebhookNotificationBlock(name=BLOCK, url=url, json_data={"text": "{{subject}}\n{{body}}"})
        saved = UUID(str(block.save(BLOCK, overwrite=True)))
        found += [notify_of_trouble(saved), notify_of_waiting(saved)]
    for automation in found:
        try:
            earlier = Automation.read(name=automation.name)
        except ValueError:
            automation.create()
        else:
            automation.id = earlier.id
            automation.update()
        print(automation.name)


def entered(states: Sequence[str], *others: dict[str, str], within: timedelta = timedelta(0)) -> EventTrigger:
    """Return the trigger of a run that enters one of these states; `others`: what else must be related to it."""
    of_ours: dict[str, Any] = {"prefect.resource.role": "flow", "prefect.resource.name": list(FLOWS)}
    return EventTrigger(
        expect={f"prefect.flow-run.{state}" for state in states},
        match={"prefect.resource.id": "prefect.flow-run.*"},
        match_related=[of_ours, *others],
        for_each={"prefect.resource.id"},
        posture=Posture.Reactive,
        threshold=1,
        within=within,
    )


def paused_schedules() -> Automation:
    """Pause the deployment of a scheduled run that was refused, as the next would be: its waiting runs are deleted."""
    return Automation(
        name="das-flows: pause the schedule of a refused run",
        description="Resume the deployment's schedule once the cause is mended, as by another account.",
        trigger=entered(["Refused"], BY_SCHEDULE),
        actions=[PauseDeployment(source="inferred")],
    )


def cancelled_late_runs() -> Automation:
    """Cancel a scheduled run that did not begin in time, so that none begins when nobody expects it any more.

    PREFECT_SERVER_SERVICES_LATE_RUNS_AFTER_SECONDS of the server says when a run is late.
    """
    return Automation(
        name="das-flows: cancel late scheduled runs",
        description="After an outage nothing begins that was due before it. Start a run by hand in its place.",
        trigger=entered(["Late"], BY_SCHEDULE),
        actions=[CancelFlowRun()],
    )


def notify_of_waiting(block: UUID) -> Automation:
    """Report a run that waits for a person; the form behind the link has its question."""
    return Automation(
        name="das-flows: tell of runs that wait for approval",
        description="A run has checked its input and waits, charged nothing, for a person's answer.",
        trigger=entered(["Suspended"]),
        actions=[
            SendNotification(
                block_document_id=block,
                subject="das-flows: {{ flow.name }} {{ flow_run.name }} waits for a person",
                body="Resume shows what it would charge and asks for an answer: {{ flow_run|ui_url }}",
            )
        ],
    )


def notify_of_trouble(block: UUID) -> Automation:
    """Report a run that failed, was refused, crashed or is late; its message has nothing confidential."""
    return Automation(
        name="das-flows: tell of trouble",
        description="A run failed, was refused, crashed, or has not begun in time.",
        trigger=entered(WENT_WRONG, within=timedelta(minutes=1)),  # a crash is entered twice, last with how to go on
        actions=[
            SendNotification(
                block_document_id=block,
                subject="das-flows: {{ flow.name }} {{ flow_run.name }} {{ flow_run.state.name }}",
                body="{{ flow_run.state.message }}\n{{ flow_run|ui_url }}",
            )
        ],
    )


def ended_zombies() -> Automation:
    """End a run that has sent no heartbeat: its process is gone, and its worker too, or it could not say so."""
    each = int(os.environ.get("PREFECT_FLOWS_HEARTBEAT_FREQUENCY") or 30)
    return Automation(
        name="das-flows: end runs whose process is gone",
        description="Else they stay Running for good. Retry continues with the same noise and no second charge.",
        trigger=EventTrigger(
            after={"prefect.flow-run.heartbeat"},
            expect={"prefect.flow-run.heartbeat", *(f"prefect.flow-run.{state}" for state in (*ENDED, *ASIDE))},
            match={"prefect.resource.id": "prefect.flow-run.*"},
            match_related={"prefect.resource.role": "flow", "prefect.resource.name": list(FLOWS)},
            for_each={"prefect.resource.id"},
            posture=Posture.Proactive,
            threshold=1,
            within=timedelta(seconds=HEARTBEATS * each),
        ),
        actions=[
            ChangeFlowRunState(
                state=StateType.CRASHED,
                name="Crashed",
                message=f"no heartbeat for {HEARTBEATS * each} s, so its process is gone; "
                "one charge at most; Retry, or what das runs show ID says, continues with the same noise",
            )
        ],
    )


if __name__ == "__main__":
    main()
