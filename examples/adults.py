"""The minimal program (J34): of three people, print the adults.

With two tasks or more the lines are ``1> Fred: age 35`` and ``2> Wilma: age 35``: the number before
``>`` says which task printed the line. Records of one collection are dealt out to the tasks in turn.
"""

from __future__ import annotations

from dataclasses import dataclass

from firesteel.datastream import DataStream, StreamExecutionEnvironment


@dataclass(frozen=True)
class Person:
    """Somebody with an age."""

    name: str
    age: int

    def __str__(self) -> str:
        return f"{self.name}: age {self.age}"


def build(env: StreamExecutionEnvironment) -> DataStream[Person]:
    people = env.from_elements(Person("Fred", 35), Person("Wilma", 35), Person("Pebbles", 2))
    return people.filter(lambda person: person.age >= 18)


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    build(env).print()
    env.execute("Adults")


if __name__ == "__main__":
    main()
