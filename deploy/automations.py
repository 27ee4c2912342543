"""What the Prefect server does by itself: tell of runs that go wrong, and end those whose process is gone.

    set -a; . /etc/das-flows/environment; set +a
    .venv/bin/python deploy/automations.py

DAS_NOTIFY_URL is where messages go, as JSON {"text": …} by POST: a chat's incoming webhook, a mail gateway. Without it
nobody is told. Run it again after a change: automations and block are replaced by name.
"""

from __future__ import annotations

import os
from datetime import timedelta
from uuid import UUID

from prefect.automations import Automation
from prefect.blocks.notifications import CustomWebhookNotificationBlock
from prefect.client.schemas.objects import StateType
from prefect.events.actions import ChangeFlowRunState, SendNotification
from prefect.events.schemas.automations import EventTrigger, Posture

from flows.execution.systems import SYSTEMS

FLOWS = (*SYSTEMS, "dry-run")
WENT_WRONG = ("Failed", "Refused", "Crashed", "Late")
# Every state that ends a run or sets it aside: a run in one of them sends no heartbeats and is no zombie.
ENDED = ("Completed", "Failed", "Crashed", "Cancelled", "Refused", "Skipped", "Tried")
ASIDE = ("Cancelling", "Suspended", "Paused", "Scheduled", "AwaitingRetry", "AwaitingInput")
HEARTBEATS = 3  # missed in a row
BLOCK = "das-notify"


def main() -> None:
    """Make or replace the automations."""
    found = [ended_zombies()]
    if url := os.environ.get("DAS_NOTIFY_URL"):
        block = CustomWebhookNotificationBlock(name=BLOCK, url=url, json_data={"text": "{{subject}}\n{{body}}"})
        found.append(told_of_trouble(UUID(str(block.save(BLOCK, overwrite=True)))))
    for automation in found:
        try:
            earlier = Automation.read(name=automation.name)
        except ValueError:
            automation.create()
        else:
            automation.id = earlier.id
            automation.update()
        print(automation.name)


def told_of_trouble(block: UUID) -> Automation:
    """Tell of a run that failed, was refused, crashed or is late; its message holds nothing confidential."""
    return Automation(
        name="das-flows: tell of trouble",
        description="A run failed, was refused, crashed, or has not begun in time.",
        trigger=EventTrigger(
            expect={f"prefect.flow-run.{state}" for state in WENT_WRONG},
            match={"prefect.resource.id": "prefect.flow-run.*"},
            match_related={"prefect.resource.role": "flow", "prefect.resource.name": list(FLOWS)},
            for_each={"prefect.resource.id"},
            posture=Posture.Reactive,
            threshold=1,
            within=timedelta(minutes=1),  # a crash is entered twice: by the worker, and with how to go on
        ),
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
                "one charge at most; Retry continues with the same noise",
            )
        ],
    )


if __name__ == "__main__":
    main()
