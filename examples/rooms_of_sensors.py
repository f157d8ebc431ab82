"""Rooms of sensors (J31): every reading asks a database where its sensor stands, 100 readings at a time.

    firesteel run examples/rooms_of_sensors.py

The database is SQLite, whose client blocks: so the question is asked in threads. A client with ``async`` methods would be
awaited in `async_invoke` instead. A sensor that the database does not know, or a database that does not answer within
five seconds, gives the room UNKNOWN ROOM.
"""

from __future__ import annotations

import asyncio
import sqlite3
import tempfile
from collections.abc import Iterable
from contextlib import closing

from firesteel.common import Time
from firesteel.datastream import AsyncDataStream, DataStream, StreamExecutionEnvironment
from firesteel.datastream.functions import AsyncFunction
from sensor_readings import SensorReading, fahrenheit_readings

UNKNOWN = "UNKNOWN ROOM"


def create_rooms(path: str, rooms: Iterable[tuple[str, str]]) -> None:
    """The database: which sensor is in which room."""
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("CREATE TABLE rooms (sensor TEXT PRIMARY KEY, room TEXT)")
        database.executemany("INSERT INTO rooms VALUES (?, ?)", rooms)


class RoomOf(AsyncFunction[SensorReading, tuple[str, str]]):
    """(sensor, room) for every reading."""

    def __init__(self, path: str) -> None:
        self.path = path

    async def async_invoke(self, value: SensorReading) -> list[tuple[str, str]]:
        """Ask, in a thread."""
        return [(value.id, await asyncio.to_thread(self.look_up, value.id))]

    def timeout(self, value: SensorReading) -> list[tuple[str, str]]:
        """The database did not answer in time."""
        return [(value.id, UNKNOWN)]

    def look_up(self, sensor: str) -> str:
        """One question, with a connection of its own: a connection belongs to its thread."""
        with closing(sqlite3.connect(self.path)) as database:
            row = database.execute("SELECT room FROM rooms WHERE sensor = ?", (sensor,)).fetchone()
        return UNKNOWN if row is None else str(row[0])


def build(env: StreamExecutionEnvironment, readings: list[SensorReading], path: str) -> DataStream:
    """Readings in the order in which they came, each with its room."""
    stream = env.from_collection(readings)
    return AsyncDataStream.ordered_wait(stream, RoomOf(path), Time.seconds(5), capacity=100)


def main() -> None:
    """Print the rooms of some readings."""
    env = StreamExecutionEnvironment.get_execution_environment()
    with tempfile.TemporaryDirectory() as directory:
        path = f"{directory}/rooms.db"
        create_rooms(path, [(f"sensor_{number}", f"room {number % 3 + 1}") for number in range(1, 5)])
        build(env, fahrenheit_readings(20), path).print()
        env.execute("rooms of sensors")


if __name__ == "__main__":
    main()
