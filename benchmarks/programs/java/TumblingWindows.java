import java.time.Duration;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.AggregateFunction;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.connector.source.lib.NumberSequenceSource;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.api.java.tuple.Tuple3;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.windowing.ProcessWindowFunction;
import org.apache.flink.streaming.api.windowing.assigners.TumblingEventTimeWindows;
import org.apache.flink.streaming.api.windowing.windows.TimeWindow;
import org.apache.flink.util.Collector;

/** What "windows.py tumbling" does: counts per key and ten seconds. */
public final class TumblingWindows {
    private static final long KEYS = 1000;
    private static final TypeInformation<Tuple2<Long, Long>> PAIR = Types.TUPLE(Types.LONG, Types.LONG);

    public static void main(String[] arguments) throws Exception {
        Jobs.run(arguments[0], TumblingWindows::build);
    }

    private static void build(StreamExecutionEnvironment env, long count) {
        WatermarkStrategy<Tuple2<Long, Long>> byTime =
                WatermarkStrategy.<Tuple2<Long, Long>>forMonotonousTimestamps()
                        .withTimestampAssigner((record, before) -> record.f1);
        env.fromSource(new NumberSequenceSource(0, count - 1), WatermarkStrategy.noWatermarks(), "numbers")
                .setParallelism(1)
                .map(n -> Tuple2.of(n % KEYS, n))
                .returns(PAIR)
                .assignTimestampsAndWatermarks(byTime)
                .keyBy(r -> r.f0)
                .window(TumblingEventTimeWindows.of(Duration.ofSeconds(10)))
                .aggregate(new Count(), new WithEnd())
                .filter(r -> r.f0 < 3 && r.f1 <= 10_000)
                .map(r -> "result " + r.f0 + " " + r.f1 + " " + r.f2)
                .print();
    }

    private static final class Count implements AggregateFunction<Tuple2<Long, Long>, Long, Long> {
        @Override
        public Long createAccumulator() {
            return 0L;
        }

        @Override
        public Long add(Tuple2<Long, Long> value, Long accumulator) {
            return accumulator + 1;
        }

        @Override
        public Long getResult(Long accumulator) {
            return accumulator;
        }

        @Override
        public Long merge(Long a, Long b) {
            return a + b;
        }
    }

    private static final class WithEnd
            extends ProcessWindowFunction<Long, Tuple3<Long, Long, Long>, Long, TimeWindow> {
        @Override
        public void process(
                Long key, Context context, Iterable<Long> counts, Collector<Tuple3<Long, Long, Long>> out) {
            for (Long count : counts) {
                out.collect(Tuple3.of(key, context.window().getEnd(), count));
            }
        }
    }

    private TumblingWindows() {}
}
