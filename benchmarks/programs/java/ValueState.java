import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.connector.source.lib.NumberSequenceSource;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.util.Collector;

/** What value_state.py does: a count per key in value state, by a keyed process function. */
public final class ValueState {
    private static final TypeInformation<Tuple2<Long, Long>> PAIR = Types.TUPLE(Types.LONG, Types.LONG);

    public static void main(String[] arguments) throws Exception {
        long keys = Long.parseLong(arguments[0]);
        Jobs.run(arguments[1], (env, count) -> build(env, keys, count));
    }

    private static void build(StreamExecutionEnvironment env, long keys, long count) {
        env.fromSource(new NumberSequenceSource(0, count - 1), WatermarkStrategy.noWatermarks(), "numbers")
                .map(n -> Tuple2.of(n % keys, n))
                .returns(PAIR)
                .keyBy(r -> r.f0)
                .process(new RunningCount())
                .filter(r -> r.f0 < 5 && r.f1 <= 4)
                .map(r -> "result " + r.f0 + " " + r.f1)
                .print();
    }

    private static final class RunningCount
            extends KeyedProcessFunction<Long, Tuple2<Long, Long>, Tuple2<Long, Long>> {
        private transient org.apache.flink.api.common.state.ValueState<Long> count;

        @Override
        public void open(OpenContext context) {
            count = getRuntimeContext().getState(new ValueStateDescriptor<>("count", Types.LONG));
        }

        @Override
        public void processElement(Tuple2<Long, Long> value, Context context, Collector<Tuple2<Long, Long>> out)
                throws Exception {
            Long seen = count.value();
            long now = seen == null ? 1 : seen + 1;
            count.update(now);
            out.collect(Tuple2.of(value.f0, now));
        }
    }

    private ValueState() {}
}
