"""A PyFlink program: the basic operations, one sink each."""

from pyflink.common import Types
from pyflink.datastream import FlatMapFunction, StreamExecutionEnvironment


class Letters(FlatMapFunction):
    def flat_map(self, value):
        yield from value.split(",")


def main():
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    numbers = env.from_collection([1, 2, 3], type_info=Types.INT())
    numbers.map(lambda n: n * 2, output_type=Types.INT()).print("doubled")
    numbers.filter(lambda n: n > 2).print("kept")
    env.from_collection(["a,b", "c"], type_info=Types.STRING()).flat_map(Letters(), Types.STRING()).print(
        "flat"
    )
    pairs = env.from_collection(
        [(1, "a"), (2, "b"), (1, "aa")], type_info=Types.TUPLE([Types.INT(), Types.STRING()])
    )
    longest = pairs.key_by(lambda pair: pair[0]).reduce(lambda a, b: b if len(b[1]) > len(a[1]) else a)
    longest.filter(lambda pair: len(pair[1]) == (2 if pair[0] == 1 else 1)).print("keyed")
    env.execute("operations")


if __name__ == "__main__":
    main()
