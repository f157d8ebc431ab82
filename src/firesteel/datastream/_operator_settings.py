"""The fluent setters that operators and sinks share: name, uid, parallelism, chaining, slots."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from firesteel.common._did_you_mean import SuggestsNames
from firesteel.common.errors import ProgramError, UnsupportedOperationError
from firesteel.datastream._user_functions import wrong_argument
from firesteel.datastream.slot_sharing_group import SlotSharingGroup
from firesteel.graph.stream_graph import Chaining, Node
from firesteel.plan.key_groups import UPPER_BOUND

if TYPE_CHECKING:
    from firesteel.datastream.stream_execution_environment import StreamExecutionEnvironment

__all__ = ["OperatorSettings", "SinkSettings", "check_parallelism"]

S = TypeVar("S", bound="SinkSettings")
O = TypeVar("O", bound="OperatorSettings")  # noqa: E741


class SinkSettings(SuggestsNames):
    """Setters of the node that a stream or sink stands for."""

    _env: StreamExecutionEnvironment

    def _settable_node(self, setter: str) -> int:
        """The id of the node that ``setter`` changes; raises when there is none."""
        raise NotImplementedError

    def _change(self, setter: str, **settings: Any) -> None:
        self._env._graph.change(self._settable_node(setter), **settings)

    def _node(self, setter: str) -> Node:
        return self._env._graph[self._settable_node(setter)]

    def name(self: S, name: str) -> S:
        """Name the operator, for plans, logs and metrics."""
        self._change("name()", name=_text("name()", name))
        return self

    def uid(self: S, uid: str) -> S:
        """Give the operator an id that stays the same when the program changes, so that it finds its state."""
        self._change("uid()", uid=_text("uid()", uid))
        return self

    def set_uid_hash(self: S, uid_hash: str) -> S:
        """Give the operator the generated id it had before, 32 hexadecimal digits."""
        if (
            not isinstance(uid_hash, str)
            or len(uid_hash) != 32
            or set(uid_hash) - set("0123456789abcdefABCDEF")
        ):
            raise wrong_argument("set_uid_hash()", "32 hexadecimal digits", uid_hash)
        self._change("set_uid_hash()", uid_hash=uid_hash.lower())
        return self

    def set_parallelism(self: S, parallelism: int) -> S:
        """Run the operator as that many subtasks."""
        check_parallelism("set_parallelism()", parallelism)
        node = self._node("set_parallelism()")
        if node.fixed_parallelism and parallelism != node.parallelism:
            raise UnsupportedOperationError(
                f"{node.name!r} cannot be parallel: it runs as 1 subtask, set_parallelism({parallelism}) asks for more; "
                "set the parallelism of the operators after it"
            )
        self._change("set_parallelism()", parallelism=parallelism, follows_default=False)
        return self

    def set_description(self: S, description: str) -> S:
        """Describe the operator, for plans."""
        self._change("set_description()", description=_text("set_description()", description))
        return self

    def disable_chaining(self: S) -> S:
        """Never call this operator directly from its neighbours."""
        self._change("disable_chaining()", chaining=Chaining.NEVER)
        return self

    def slot_sharing_group(self: S, slot_sharing_group: str | SlotSharingGroup) -> S:
        """Let the operator share slots only with others of the same group."""
        if isinstance(slot_sharing_group, SlotSharingGroup):
            self._env.register_slot_sharing_group(slot_sharing_group)
            slot_sharing_group = slot_sharing_group.get_name()
        group = _text("slot_sharing_group()", slot_sharing_group)
        self._change("slot_sharing_group()", slot_sharing_group=group)
        return self


class OperatorSettings(SinkSettings):
    """Setters that make sense for operators with an output."""

    def get_name(self) -> str:
        """What plans, logs and metrics call the operator."""
        return self._node("get_name()").name

    def set_max_parallelism(self: O, max_parallelism: int) -> O:
        """Set the number of key groups: the most subtasks the operator can ever have."""
        check_parallelism("set_max_parallelism()", max_parallelism)
        self._change("set_max_parallelism()", max_parallelism=max_parallelism)
        return self

    def force_non_parallel(self: O) -> O:
        """Run the operator as one subtask, and let nobody change that."""
        self._change(
            "force_non_parallel()",
            parallelism=1,
            max_parallelism=1,
            fixed_parallelism=True,
            follows_default=False,
        )
        return self

    def set_buffer_timeout(self: O, timeout_millis: int) -> O:
        """Set how long output may wait for a chunk to fill; -1 for the environment's, 0 for not at all."""
        if not isinstance(timeout_millis, int) or timeout_millis < -1:
            raise wrong_argument("set_buffer_timeout()", "milliseconds, 0 or -1", timeout_millis)
        timeout = None if timeout_millis == -1 else timeout_millis
        self._change("set_buffer_timeout()", buffer_timeout_ms=timeout)
        return self

    def start_new_chain(self: O) -> O:
        """Do not call this operator directly from the one before it."""
        self._change("start_new_chain()", chaining=Chaining.HEAD)
        return self


def check_parallelism(setter: str, parallelism: int) -> None:
    """Refuse what is not a possible number of subtasks."""
    if isinstance(parallelism, bool) or not isinstance(parallelism, int):
        raise wrong_argument(setter, "a whole number", parallelism)
    if not 1 <= parallelism <= UPPER_BOUND:
        raise ProgramError(f"{setter} needs a number from 1 to {UPPER_BOUND}, got {parallelism}")


def _text(setter: str, text: str) -> str:
    if not isinstance(text, str) or not text:
        raise wrong_argument(setter, "a text that is not empty", text)
    return text
