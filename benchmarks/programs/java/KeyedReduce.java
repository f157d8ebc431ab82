import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.connector.source.lib.NumberSequenceSource;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;

/** What keyed_reduce.py does: a running sum per key. */
public final class KeyedReduce {
    private static final long KEYS = 1000;
    private static final TypeInformation<Tuple2<Long, Long>> PAIR = Types.TUPLE(Types.LONG, Types.LONG);

    public static void main(String[] arguments) throws Exception {
        Jobs.run(arguments[0], KeyedReduce::build);
    }

    private static void build(StreamExecutionEnvironment env, long count) {
        env.fromSource(new NumberSequenceSource(1, count), WatermarkStrategy.noWatermarks(), "numbers")
                .map(n -> Tuple2.of(n % KEYS, 1L))
                .returns(PAIR)
                .keyBy(r -> r.f0)
                .reduce((a, b) -> Tuple2.of(a.f0, a.f1 + b.f1))
                .filter(r -> r.f0 == 0 && r.f1 == count / KEYS)
                .map(r -> "result " + r.f1)
                .print();
    }

    private KeyedReduce() {}
}
