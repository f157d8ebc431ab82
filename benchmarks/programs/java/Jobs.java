import java.util.Locale;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;

/** Runs a program at several sizes, one after the other in this process, and prints the seconds of each. */
final class Jobs {
    /** Builds a job that reads so many numbers. */
    interface Program {
        void build(StreamExecutionEnvironment env, long count);
    }

    static void run(String sizes, Program program) throws Exception {
        for (String size : sizes.split(",")) {
            StreamExecutionEnvironment env = StreamExecutionEnvironment.getExecutionEnvironment();
            env.setParallelism(2);
            program.build(env, Long.parseLong(size));
            long started = System.nanoTime();
            env.execute();
            System.out.printf(Locale.ROOT, "seconds %.3f%n", (System.nanoTime() - started) / 1e9);
        }
    }

    private Jobs() {}
}
