"""What a person wants of a source: pause, resume, rollback, empty, remove."""

from temporalio import activity

from activities.heartbeat import heartbeats
from activities.indexing import write_stores
from activities.ports import Ports
from contracts.activities import OBEY_COMMAND, Command, CommandRequest, CommandResult
from contracts.documents import PreparedDocument
from contracts.errors import RunError, SluiceError, UnknownSource
from contracts.runs import EMPTYING, REMOVAL, AuditEntry, RunCounts, RunTicket
from contracts.visibility import View

KEYS_PER_PAGE = 500


class Commands:
    """Activities that carry a person's decision to the catalog and the stores."""

    def __init__(self, ports: Ports) -> None:
        self._ports = ports

    @activity.defn(name=OBEY_COMMAND)
    async def obey_command(self, request: CommandRequest) -> CommandResult:
        """Do it; a refusal is an answer, not a failure of the activity."""
        verbs = {
            "pause": self._pause,
            "resume": self._resume,
            "rollback": self._roll_back,
            "empty": self._empty,
            "remove": self._remove,
        }
        async with heartbeats(request.command.verb):
            try:
                result = await verbs[request.command.verb](request.source_id, request.command)
            except SluiceError as error:
                if error.retryable:
                    raise
                return CommandResult(ok=False, message=str(error), error=error.name)
        if request.command.verb != "rollback":  # which is audited in its own transaction
            await self._audit(request.source_id, request.command, result)
        return result

    async def _pause(self, source_id: str, _command: Command) -> CommandResult:
        await self._ports.catalog.mark_source(source_id, paused=True)
        return CommandResult(ok=True, message="paused: changes collect, and no run starts")

    async def _resume(self, source_id: str, _command: Command) -> CommandResult:
        await self._ports.catalog.mark_source(source_id, paused=False)
        await self._ports.catalog.unpin(source_id)
        return CommandResult(ok=True, message="resumed: what changed meanwhile is taken up now")

    async def _roll_back(self, source_id: str, command: Command) -> CommandResult:
        pointer = await self._ports.catalog.roll_back(
            source_id,
            command.to_seq,
            command.actor,
            command.reason,
            self._ports.now(),
            _request("rollback"),
        )
        return CommandResult(
            ok=True,
            message=f"readers see sequence {pointer.seq} again; the source is pinned until "
            f"`sluice source resume {source_id}`",
            seq=pointer.seq,
        )

    async def _remove(self, source_id: str, _command: Command) -> CommandResult:
        """Close every document in a last run, flip, and leave the rest to retirement."""
        catalog = self._ports.catalog
        removed = CommandResult(ok=True, message="removed: its chunks are deleted after the grace")
        try:
            pointer = (await catalog.pointers([source_id]))[source_id]
        except UnknownSource:
            return removed  # by an earlier attempt
        if pointer.open_seq is not None or await catalog.has_documents(pointer.view):
            await self._close_everything(source_id, REMOVAL)
        await catalog.mark_source(source_id, removed=True)
        return removed

    async def _empty(self, source_id: str, _command: Command) -> CommandResult:
        """Close every document in a run of its own; the sequence before it stays for rollback."""
        catalog = self._ports.catalog
        pointer = (await catalog.pointers([source_id]))[source_id]
        if pointer.open_seq is None and not await catalog.has_documents(pointer.view):
            return CommandResult(ok=True, message="nothing of it is served", seq=pointer.seq)
        ticket = await self._close_everything(source_id, EMPTYING)
        return CommandResult(
            ok=True,
            message=f"nothing of it is served any more; `sluice rollback {source_id}` undoes that",
            seq=ticket.seq,
        )

    async def _close_everything(self, source_id: str, cause: str) -> RunTicket:
        catalog = self._ports.catalog
        answer = await catalog.open_run(source_id, _request(cause), cause, self._ports.now())
        if answer.ticket is None:
            raise RunError(
                f"{source_id} can't be emptied now: {answer.refused}; try again in a moment"
            )
        ticket = answer.ticket
        counts = RunCounts(deleted=await self._stage_deletions(ticket))
        if cause == REMOVAL:
            # No earlier version is kept of a source that nobody can ask any more.
            config = (await catalog.source(source_id)).config
            await catalog.put_source(config.model_copy(update={"retain_versions": 0}), cause)
        await catalog.promote(ticket, counts, cause, self._ports.now())
        return ticket

    async def _stage_deletions(self, ticket: RunTicket) -> int:
        catalog = self._ports.catalog
        base = View(source_id=ticket.source_id, generation=ticket.generation, seq=ticket.base_seq)
        after, total = "", 0
        while True:
            keys = list(await catalog.source_versions(base, after, None, KEYS_PER_PAGE))
            documents = [PreparedDocument(doc_key=key, deleted=True) for key in keys]
            if documents:
                delta = await catalog.stage(ticket, documents)
                await write_stores(self._ports, ticket, delta)
                await catalog.settle(ticket, delta)
            total += len(keys)
            if len(keys) < KEYS_PER_PAGE:
                return total
            after = keys[-1]

    async def _audit(self, source_id: str, command: Command, result: CommandResult) -> None:
        await self._ports.catalog.append(
            AuditEntry(
                source_id=source_id,
                seq=result.seq,
                actor=command.actor,
                action=command.verb,
                reason=command.reason,
                at=self._ports.now(),
            )
        )


def _request(act: str) -> str:
    """The same in every attempt at this activity, and in no other."""
    info = activity.info()
    return f"{act}#{info.workflow_run_id}#{info.activity_id}"
