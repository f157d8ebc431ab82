import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.connector.source.lib.NumberSequenceSource;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.util.Collector;

/** What stateless.py does: map, filter and flat_map over a sequence of numbers. */
public final class Stateless {
    private static final TypeInformation<Tuple2<Long, Long>> PAIR = Types.TUPLE(Types.LONG, Types.LONG);

    public static void main(String[] arguments) throws Exception {
        Jobs.run(arguments[0], Stateless::build);
    }

    private static void build(StreamExecutionEnvironment env, long count) {
        env.fromSource(new NumberSequenceSource(1, count), WatermarkStrategy.noWatermarks(), "numbers")
                .map(n -> Tuple2.of(n, n * 3))
                .returns(PAIR)
                .filter(r -> r.f0 % 4 != 1)
                .flatMap(Stateless::halves)
                .returns(PAIR)
                .filter(r -> r.f0 == count)
                .map(r -> "result " + r.f1)
                .print();
    }

    private static void halves(Tuple2<Long, Long> record, Collector<Tuple2<Long, Long>> out) {
        out.collect(Tuple2.of(record.f0, record.f1 / 2));
        out.collect(Tuple2.of(record.f0, record.f1 - record.f1 / 2));
    }

    private Stateless() {}
}
