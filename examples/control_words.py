"""Control words (J38): a control stream names words that are to be dropped from a stream of words.

Both streams are keyed by the word, so a control word and the same word of the other stream meet in one
task and share its state. Nothing says which of them comes first: they race. A word that overtakes its
control record gets through, so the outcome is only certain when the control stream is early. Programs
to which that matters keep words in state until they know.
"""

from __future__ import annotations

from collections.abc import Iterator

from firesteel.common import Types
from firesteel.datastream import CoFlatMapFunction, DataStream, RuntimeContext, StreamExecutionEnvironment
from firesteel.datastream.state import ValueStateDescriptor

CONTROL = ["DROP", "IGNORE"]
WORDS = ["Apache", "DROP", "Flink", "IGNORE"]


class Blocker(CoFlatMapFunction[str, str, str]):
    """Lets a word through unless it was named on the control stream."""

    def open(self, runtime_context: RuntimeContext) -> None:
        """Ask for the state: one flag per word."""
        self.blocked = runtime_context.get_state(ValueStateDescriptor("blocked", Types.BOOLEAN()))

    def flat_map1(self, value: str) -> None:
        """A control word: remember it; nothing is emitted."""
        self.blocked.update(True)

    def flat_map2(self, value: str) -> Iterator[str]:
        """A word."""
        if not self.blocked.value():
            yield value


def build(control: DataStream[str], words: DataStream[str]) -> DataStream[str]:
    keyed_control = control.key_by(lambda word: word)
    keyed_words = words.key_by(lambda word: word)
    return keyed_control.connect(keyed_words).flat_map(Blocker())


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    build(env.from_collection(CONTROL), env.from_collection(WORDS)).print()
    env.execute("Control words")


if __name__ == "__main__":
    main()
