"""The maximum temperature of each sensor in ten seconds, for other programs to ask for (J26), and a program that asks.

The job, which runs until it is cancelled:

    firesteel run -d examples/queryable_maxima.py

The client, in another terminal. Every ten seconds it prints what the job knows about five sensors; of a sensor whose
first ten seconds are not over there is nothing yet:

    firesteel list                                                   # says the id of the job, and where it listens
    python examples/queryable_maxima.py --ask JOB_ID                 # at localhost:8081, unless --at says otherwise

No database stands between them: the client asks the task that owns the key. What it gets is the newest result of that
sensor; earlier ones are gone, which is what a state is for and a table of all results is not.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterable, Sequence

from endless_averages import sensors
from firesteel.common import Configuration, Duration, JobID, Time, Types, WatermarkStrategy
from firesteel.common.errors import UnknownKeyOrNamespaceError
from firesteel.datastream import DataStreamSink, StreamExecutionEnvironment
from firesteel.datastream.connectors import Source
from firesteel.datastream.state import ValueStateDescriptor
from firesteel.datastream.window import TumblingEventTimeWindows
from firesteel.queryable_state import QueryableStateClient
from sensor_readings import reading_time, to_celsius

STATE = "maximum temperature"
SECONDS = 10
TEN_SECONDS = Time.seconds(SECONDS)
#: Declared on both sides, because what travels between them is JSON and no pickle.
SENSOR = Types.STRING()
MAXIMUM = Types.TUPLE([Types.STRING(), Types.DOUBLE()])

# The job ----------------------------------------------------------------------------------------------


def build(env: StreamExecutionEnvironment, source: Source, size: Time = TEN_SECONDS) -> DataStreamSink:
    """The maxima end in a state instead of a sink: by sensor, the newest one stays."""
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(200))
    timed = strategy.with_timestamp_assigner(lambda reading, _: reading_time(reading))
    celsius = env.from_source(source, timed, "Sensors").map(to_celsius).name("Celsius")
    pairs = celsius.map(lambda reading: (reading.id, reading.temperature), output_type=MAXIMUM)
    by_sensor = pairs.key_by(lambda pair: pair[0], key_type=SENSOR)
    maxima = by_sensor.window(TumblingEventTimeWindows.of(size)).max(1)
    return maxima.key_by(lambda pair: pair[0], key_type=SENSOR).as_queryable_state(STATE)


def run() -> None:
    # Nobody may ask unless the job says so.
    options = Configuration().set_string("queryable-state.enable", "true")
    env = StreamExecutionEnvironment.get_execution_environment(options)
    build(env, sensors())
    env.execute("Queryable maxima")


# The client -------------------------------------------------------------------------------------------


def maxima_of(
    client: QueryableStateClient, job: JobID | str, names: Iterable[str]
) -> dict[str, float | None]:
    """The newest maximum of each sensor; None where there is none yet. All are asked at once."""
    descriptor = ValueStateDescriptor(STATE, MAXIMUM)
    futures = {name: client.get_kv_state(job, STATE, name, SENSOR, descriptor) for name in names}
    found: dict[str, float | None] = {}
    for name, future in futures.items():
        try:
            found[name] = future.result().value()[1]
        except UnknownKeyOrNamespaceError:
            found[name] = None
    return found


def dashboard(
    client: QueryableStateClient,
    job: JobID | str,
    names: Sequence[str],
    rounds: int | None = None,
    wait: Callable[[float], None] = time.sleep,
) -> None:
    """Print a line every ten seconds, so many or until Ctrl-C."""
    print(" | ".join(f"{name:>9}" for name in names))
    done = 0
    while rounds is None or done < rounds:
        if done:
            wait(SECONDS)
        maxima = maxima_of(client, job, names).values()
        texts = ["-" if maximum is None else f"{maximum:.1f} °C" for maximum in maxima]
        print(" | ".join(f"{text:>9}" for text in texts), flush=True)
        done += 1


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--ask", metavar="JOB_ID", help="be the client, and ask this job")
    parser.add_argument("--at", metavar="HOST:PORT", default="localhost:8081", help="where the job listens")
    parser.add_argument("--sensors", type=int, default=5, help="how many sensors to ask for")
    parser.add_argument("--rounds", type=int, help="how many lines to print; otherwise until Ctrl-C")
    options = parser.parse_args(arguments)
    if options.ask is None:
        run()
        return
    host, _, port = options.at.rpartition(":")
    names = [f"sensor_{number + 1}" for number in range(options.sensors)]
    with QueryableStateClient(host, int(port)) as client:
        dashboard(client, options.ask, names, options.rounds)


if __name__ == "__main__":
    main()
