"""What the client sends becomes the line of expected replies."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Final

from emqproxy.session.commands import RULES, Rule, blind_reason, on_a_queue, setname, unanswered
from emqproxy.session.exchange import Command, Word
from emqproxy.session.modes import Run, Sent, Slot
from emqproxy.session.table import option_of
from emqproxy.wire.frames import strict_int
from emqproxy.wire.items import Item, Request

SILENT_MAX: Final = 10_000
"""Script calls under CLIENT REPLY OFF: nobody will ever know whether they ran; past it the session goes blind."""
_SCRIPTS_SUB = frozenset({b"LOAD"})
"""Of SCRIPT's subcommands, those somebody reads."""


class Intake:
    """Requests in, slots out. Keeps the state that the connection is in if all that was sent is accepted."""

    def __init__(self, line: deque[Slot | Run], prefixes: tuple[bytes, ...] = ()) -> None:
        """`prefixes` end with their colon: what a write does to keys within them may be of interest."""
        self.blind: str | None = None
        """Why nothing that follows can be paired."""
        self.quit = False
        """QUIT was sent: Redis reads nothing that follows."""
        self.kept = 0
        """Calls that somebody wants and that are not answered yet."""
        self.held_bytes = 0
        """Words held for commands that are not answered yet."""
        self.refused = 0
        """Slots in line whose answer is ours."""
        self._line, self._prefixes = line, prefixes
        self.sent = Sent()
        self._number = 0
        self._silent = 0
        self._moves = 0
        """Slots in line that may change the database."""
        self._fresh = 0
        """So many items at the end of the line hold what was handed out last, and what stood between."""

    def take(self, items: Iterable[Item], now: int) -> list[Command]:
        """Puts commands in line; those of interest are returned."""
        commands: list[Command] = []
        before = len(self._line)
        for item in items:
            if isinstance(item, Request):
                self._special(item, now, commands)
            elif item:
                self._plain(item)
            else:
                self.sent.skip = False  # an empty command is no command, and yet uses up a SKIP
            if self.blind is not None or self.quit:
                break
        self._fresh = len(self._line) - before if commands else 0
        return commands

    def settle(self) -> None:
        """What has been handed out and was not kept is counted like any plain command.

        So a pipeline of calls that nobody knows costs no more than one of PINGs. Call it when all have been decided.
        """
        fresh, self._fresh = self._fresh, 0
        line = self._line
        if not fresh or not line:
            return
        tail = [line.pop() for _ in range(min(fresh, len(line)))]
        count = 0
        while tail:
            item = tail.pop()
            if isinstance(item, Run):
                count += item.count
                continue
            if item.command is not None and not item.command.wanted:
                self.drop_words(item.command)
                if item.silent:
                    self._silent -= 1
                    continue
                if not item.guarded:
                    count += 1
                    continue
                item.rule = item.command = None
            self._count(count)
            line.append(item)
            count = 0
        self._count(count)

    def _count(self, count: int) -> None:
        """So many plain commands, behind all that is in line."""
        line = self._line
        last = line[-1] if line else None
        if isinstance(last, Run):
            last.count += count
        elif count:
            line.append(Run(count))

    def close(self, reason: str, now: int) -> None:
        """Nothing that follows can be paired; what stands in line still can."""
        self.blind = reason
        self._line.append(Slot(Rule.BLIND, now, reason=reason))

    def hold_words(self, command: Command) -> None:
        """The words are needed until the answer comes."""
        command.held_bytes = sum(len(word) for word in command.words if word)
        self.held_bytes += command.held_bytes

    def refuse_last(self, answer: bytes) -> bool:
        """The command that was handed out last does not go on; whether Redis would have run it inside MULTI. What goes
        in its place is answered once, unless CLIENT REPLY keeps it back."""
        slot = self._line[-1]
        assert isinstance(slot, Slot)
        assert slot.command is not None
        self.drop_words(slot.command)
        if slot.silent:
            self._line.pop()
            self._silent -= 1
        else:
            slot.rule, slot.command, slot.text = Rule.REFUSED, None, answer
            self.refused += 1
        self._fresh = 0
        return self.sent.multi

    def drop_words(self, command: Command) -> None:
        """The words are no longer needed."""
        command.words = []

    def answered(self, command: Command) -> None:
        """One that somebody wants: it is nobody's burden now but the caller's."""
        self.kept -= 1
        self.held_bytes -= command.held_bytes
        command.held_bytes = 0

    def db_settled(self, db: int) -> None:
        """A reply that may have changed the database came: `db` is the database now."""
        self._moves -= 1
        if not self._moves:
            self.sent.db = db

    # ---------------------------------------------------------------- one command

    def _plain(self, count: int) -> None:
        sent = self.sent
        if sent.off:
            return
        if sent.skip:
            sent.skip = False
            count -= 1
        if count and sent.guard:
            self._append(Slot(None, 0))
            count -= 1
        self._count(count)

    def _append(self, slot: Slot) -> None:
        if not slot.silent:
            slot.guarded, self.sent.guard = self.sent.guard, False
        self._moves += slot.moves_db
        self._line.append(slot)

    def _special(self, request: Request, now: int, commands: list[Command]) -> None:
        words = request.words
        rule = RULES.get(words[0] or b"", Rule.WRITE)
        if rule is Rule.SCRIPT or (rule is Rule.WRITE and on_a_queue(words, request.length, self._prefixes)):
            self._script(request, now, commands)
        elif rule is Rule.WRITE:
            self._plain(1)
        elif rule is Rule.CLIENT:
            self._client(request, now)
        else:
            self._change(rule, request, now)

    def _change(self, rule: Rule, request: Request, now: int) -> None:
        """A command after which the connection is in another state."""
        words, sent = request.words, self.sent
        name = words[0] or b""
        if rule is Rule.BLIND:
            self.close(blind_reason(name), now)
        elif rule is Rule.REPLCONF:
            if unanswered(words):
                self.close("REPLCONF ACK and GETACK have no answer, unless they are refused", now)
            else:
                self._plain(1)
        elif rule is Rule.QUIT:
            self.quit = True
            if not sent.silenced():
                self._append(Slot(rule, now))
        elif (sent.off or sent.skip) and not (sent.off and rule in {Rule.MULTI, Rule.EXEC, Rule.DISCARD}):
            if rule is Rule.RESET and not sent.skip and request.length == 1:
                self._reset(now)
            else:
                self.close(f"{name.decode()} while CLIENT REPLY keeps its answer back", now)
        elif rule in {Rule.MULTI, Rule.EXEC, Rule.DISCARD}:
            self._transaction(rule, request, now)
        elif rule is Rule.RESET:
            if request.length == 1:
                self._reset(now)
            else:
                self._plain(1)
        elif rule in {Rule.SUBSCRIBE, Rule.UNSUBSCRIBE}:
            self._subscription(rule, name, request, now)
        else:
            self._settings(rule, words, now)

    def _script(self, request: Request, now: int, commands: list[Command]) -> None:
        words = request.words
        name = words[0] or b""
        if name == b"SCRIPT" and (len(words) < 3 or (words[1] or b"").upper() not in _SCRIPTS_SUB):
            self._plain(1)
            return
        command = self._appended(name, words, now)
        if self._silent > SILENT_MAX:
            self._line.pop()
            self.close("too many script calls under CLIENT REPLY OFF", now)
            return
        commands.append(command)

    def _appended(self, name: bytes, words: list[Word], now: int) -> Command:
        """A command of interest, in line."""
        self._number += 1
        command = Command(name, words, self._number, self.sent.db_now, now)
        silent = self.sent.silenced()
        self._silent += silent
        self._append(Slot(Rule.SCRIPT, now, command=command, silent=silent))
        return command

    def refusable(self, request: Request, now: int) -> Command:
        """A command in line, whatever it is: `refuse_last` is called next."""
        return self._appended(request.words[0] or b"", request.words, now)

    def _transaction(self, rule: Rule, request: Request, now: int) -> None:
        sent = self.sent
        # Refused for its arity; EXEC then aborts the transaction all the same, the others change nothing.
        malformed = request.length != 1
        if malformed and rule is not Rule.EXEC:
            self._plain(1)
            return
        moves = False
        if rule is Rule.MULTI:
            sent.multi = True
        else:
            moves = rule is Rule.EXEC and sent.multi_db is not None
            sent.left_multi(executed=rule is Rule.EXEC and not malformed)
        if not sent.off:
            self._append(Slot(rule, now, moves_db=moves))

    def _reset(self, now: int) -> None:
        self.sent.reset()
        self._append(Slot(Rule.RESET, now, moves_db=True))

    def _client(self, request: Request, now: int) -> None:
        words, sent = request.words, self.sent
        sub = (words[1] or b"").upper() if len(words) > 1 else b""
        if sub == b"SETNAME" and request.length == 3 and not (sent.off or sent.skip):
            self._append(Slot(Rule.CLIENT, now, text=words[2]))
            return
        if 0 in sub:  # it may be taken for any
            self.close("a zero byte in the name of a subcommand of CLIENT", now)
            return
        way = option_of(words[2]) if sub == b"REPLY" and request.length == 3 else b""
        if way not in {b"ON", b"OFF", b"SKIP"} or (way == b"ON" and not sent.off and not sent.skip):
            self._plain(1)  # ON where nothing is kept back changes nothing, queued or refused or not
        elif sent.multi:
            self.close("CLIENT REPLY inside MULTI", now)
        elif sent.subscribed:
            self.close("CLIENT REPLY on a connection that may be subscribed", now)
        elif way == b"ON":
            sent.off = sent.skip = False
            self._append(Slot(Rule.CLIENT, now))
        else:
            sent.guard = True
            sent.skip = way == b"SKIP" and not sent.off
            sent.off = sent.off or way == b"OFF"

    def _subscription(self, rule: Rule, name: bytes, request: Request, now: int) -> None:
        if self.sent.multi:
            self.close(f"{name.decode()} inside MULTI", now)
        elif rule is Rule.SUBSCRIBE and request.length == 1:
            self._plain(1)
        else:
            self.sent.subscribed = True
            self._append(Slot(rule, now, replies=request.length - 1, name=name))

    def _settings(self, rule: Rule, words: list[Word], now: int) -> None:
        """SELECT and HELLO: they change the connection if they succeed."""
        number = strict_int(words[1] or b"") if len(words) > 1 else None
        if rule is Rule.HELLO:
            self._append(Slot(rule, now, value=number, text=setname(words)))
            return
        if number is None or number < 0 or len(words) != 2:
            self._plain(1)
            return
        inside = self.sent.multi
        if inside:
            self.sent.multi_db = number
        else:
            self.sent.db = number
        self._append(Slot(rule, now, value=number, moves_db=not inside))
