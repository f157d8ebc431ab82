"""Options of Flink that Firesteel does not act on, and what it answers to each: one table, which the documentation shows.

`flink_keys.txt` has the keys of Flink 1.20 and 2.3 that `options` does not know. The table answers every one of them: it has
no effect, with what to use instead, or it is refused, because the program would do something else without it, or be less
protected than it asks for.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from importlib import resources

__all__ = ["ANSWERS", "FlinkOptions", "answer_to", "flink_keys"]

_NO_REST = "the REST interface (docs/rest.md) and its pages have no such setting"
_NO_CLUSTER = "it concerns Flink's clusters; jobs run on Spark, which has options of its own under 'spark.'"
_STORAGE = "stores are opened by pyarrow, with other options than Flink's, or the credentials of the environment (docs/object_stores.md)"
_IN_FILES = "drivers choose their leader through files: see 'high-availability.storageDir'"
_FEW_FILES = (
    "a subtask writes one file for each checkpoint anyway, and the driver deletes them beside its work"
)
_PICKLED = "values are pickled; a state can have a serializer of its own (docs/state.md)"


@dataclass(frozen=True, slots=True)
class FlinkOptions:
    """Options with one answer: those that ``keys`` name, or begin with one of them that ends in a dot or dash.

    ``harmless`` are values that ask for nothing else than what there is; refused options may have them.
    """

    keys: tuple[str, ...]
    answer: str
    is_refused: bool = False
    harmless: tuple[str, ...] = ("false",)

    def has(self, key: str) -> bool:
        """Whether a key is one of them."""
        return any(key == own or (own[-1] in ".-" and key.startswith(own)) for own in self.keys)


def _ignored(answer: str, *keys: str) -> FlinkOptions:
    return FlinkOptions(keys, answer)


def _refused(answer: str, *keys: str, harmless: tuple[str, ...] = ("false",)) -> FlinkOptions:
    return FlinkOptions(keys, answer, is_refused=True, harmless=harmless)


#: The first that has a key counts.
ANSWERS: tuple[FlinkOptions, ...] = (
    # What would leave a job less protected than its owner thinks, or make it another job.
    _refused(
        "the REST interface reads certificates in PEM, not Java's key stores ('openssl pkcs12' turns one into the other): see "
        "'security.ssl.rest.cert-file', 'security.ssl.rest.key-file' and 'security.ssl.rest.ca-file' (docs/security.md)",
        "security.ssl.rest.keystore", "security.ssl.rest.keystore-password", "security.ssl.rest.keystore-type",
        "security.ssl.rest.truststore", "security.ssl.rest.truststore-password", "security.ssl.rest.truststore-type",
    ),
    _refused(
        "it was for two things, which are two options: 'security.ssl.internal.enabled' and 'security.ssl.rest.enabled'",
        "security.ssl.enabled",
    ),
    _refused(
        "who is let in is said by an authority of one's own: see 'security.ssl.rest.ca-file' (docs/security.md)",
        "security.ssl.rest.cert.fingerprint", "security.ssl.internal.cert.fingerprint",
    ),
    _refused(
        "TLS 1.2 and newer are spoken, with the ciphers that OpenSSL and Java choose by themselves",
        "security.ssl.algorithms", "security.ssl.protocol", "security.ssl.provider",
    ),
    _ignored(
        "Java tells PKCS12 from JKS by itself", "security.ssl.internal.keystore-type", "security.ssl.internal.truststore-type"
    ),
    _ignored("names of servers are always verified", "security.ssl.rest.verify-hostname", "security.ssl.verify-hostname"),
    _ignored(
        "time-outs and sessions of TLS are as Python and Java have them",
        "security.ssl.close-notify-flush-timeout", "security.ssl.handshake-timeout", "security.ssl.session-cache-size",
        "security.ssl.session-timeout", "security.ssl.internal.close-notify-flush-timeout",
        "security.ssl.internal.handshake-timeout", "security.ssl.internal.session-cache-size",
        "security.ssl.internal.session-timeout",
    ),
    _ignored("who needs a ticket takes that of the user", "security.kerberos.login.use-ticket-cache"),
    _refused(
        "a job logs in nowhere by itself; let Spark do it with 'spark.kerberos.keytab' and 'spark.kerberos.principal', or "
        "call kinit before",
        "security.kerberos.login.", "security.kerberos.krb5-conf.path", "security.kerberos.access.", "security.keytab",
        "security.principal",
    ),
    _ignored("Spark renews the tokens that it needs: see 'spark.security.credentials.'", "security."),
    _refused(
        "a path without a scheme is a local one, as with 'file:///'; write any other scheme into the paths",
        "fs.default-scheme", harmless=("file:///", "file:/", "file"),
    ),
    _refused("call env.set_stream_time_characteristic() instead", "pipeline.time-characteristic"),
    # Memory, processes, machines.
    _ignored(
        "tasks are Python processes, which 'firesteel.task.memory-limit' limits, beside executors of Spark, whose size is "
        "'spark.executor.memory' (docs/operations.md#memory)",
        "taskmanager.memory.", "taskmanager.heap.",
    ),
    _ignored(
        "the driver's JVM has as much memory as 'spark.driver.memory' says", "jobmanager.memory.", "jobmanager.heap."
    ),
    _ignored(
        "Spark moves the records: see 'firesteel.shuffle.buffer' and 'firesteel.chunk.records'",
        "taskmanager.network.", "taskmanager.net.", "taskmanager.data.", "shuffle-service-factory.",
    ),
    _ignored("tasks listen at no port of their own (docs/security.md#ports)", "taskmanager.host", "taskmanager.bind-host",
             "taskmanager.rpc.", "taskmanager.collect-sink.port"),
    _ignored("slots are the executors' cores: see 'taskmanager.numberOfTaskSlots'", "taskmanager.cpu.cores"),
    _ignored("see 'env.log.dir'", "taskmanager.log.path"),
    _ignored("what tasks print comes out of the driver; 'env.log.dir' has files of it", "taskmanager.system-out."),
    _ignored("tasks run in executors of Spark, which has options of its own under 'spark.'", "taskmanager."),
    _ignored(
        "a rescale takes a checkpoint of its own, at once (docs/rescaling.md)",
        "jobmanager.adaptive-scheduler.", "web.adaptive-scheduler.",
    ),
    _ignored(
        "Spark gives the slots: see 'jobmanager.scheduler'",
        "jobmanager.adaptive-batch-scheduler.", "scheduler-mode",
        "slotmanager.", "slot.", "resourcemanager.", "cluster.evenly-spread-out-slots", "slow-task-detector.",
        "pipeline.jobvertex-parallelism-overrides",
    ),
    _ignored(_NO_REST, "jobmanager.web.", "rest.", "web."),
    _ignored("docs/cluster.md has the options of the archive and the history server", "historyserver.", "jobstore."),
    _ignored("see 'jobmanager.rpc.port'", "jobmanager.rpc.bind-port", "high-availability.jobmanager.port"),
    _ignored("Java classes of a cluster are not called; get_failures() of the job client tells what failed",
             "jobmanager.failure-enrichers", "execution.job-listeners", "execution.job-status-changed-listeners"),
    _ignored("the job master is a part of the driver", "jobmanager."),
    _ignored(_IN_FILES, "high-availability.", "recovery.", "zookeeper."),
    _ignored("how often signs of life are missed does not matter, only for how long: see 'heartbeat.timeout'", "heartbeat."),
    # The environment.
    _ignored("set the environment variable JAVA_HOME", "env.java.home"),
    _ignored(
        "options for Spark's JVMs are 'env.java.opts.all', 'env.java.opts.jobmanager' and 'env.java.opts.taskmanager'",
        "env.java.",
    ),
    _ignored("set HADOOP_CONF_DIR, YARN_CONF_DIR or HBASE_CONF_DIR in the environment",
             "env.hadoop.", "env.yarn.", "env.hbase."),
    _ignored("Flink's start scripts are not there", "env."),
    _ignored("there are no output formats of Java; FileSink never overwrites files", "fs.overwrite-files",
             "fs.output.always-create-directory"),
    _ignored(_STORAGE, "fs.", "s3.", "s3a.", "presto.", "gs.", "azure."),
    _ignored("see 'io.tmp.dirs' for temporary files", "process."),
    # Metrics and the like.
    _ignored("see 'firesteel.metrics.interval'", "metrics.fetcher.update-interval"),
    _ignored("metrics are always on; docs/metrics.md has what there is and who reports it", "metrics.", "python.metric.enabled"),
    _ignored("traces and events are not reported; metrics are (docs/metrics.md), and the log says what happens", "traces.",
             "events."),
    _ignored("access to state is not measured", "state.latency-track.", "state.size-track.", "state.backend.latency-track."),
    # State and checkpoints.
    _ignored("state on disk is in LMDB: see 'state.backend.disk.cache-size' and 'state.backend.disk.dirs'",
             "state.backend.rocksdb.", "state.backend.forst."),
    _ignored("checkpoints with 'execution.checkpointing.incremental' write what changed",
             "state.changelog.", "state.backend.changelog.", "dstl."),
    _ignored(_FEW_FILES, "state.storage.fs.", "state.backend.fs.", "state.checkpoint.cleaner.",
             "execution.checkpointing.cleaner.", "execution.checkpointing.data-inline-threshold",
             "execution.checkpointing.write-buffer-size", "execution.checkpointing.file-merging."),
    _ignored("every job has a directory of its own", "state.checkpoints.create-subdir",
             "execution.checkpointing.create-subdir"),
    _ignored("snapshots are always taken between records, and written beside them", "state.backend.async"),
    _ignored("barriers do not overtake records yet, so checkpoints hold none that were on their way",
             "execution.checkpointing.unaligned.", "execution.checkpointing.recover-without-channel-state.",
             "execution.checkpointing.during-recovery.", "execution.state-recovery.without-channel-state."),
    _ignored("'execution.checkpointing.interval' counts always", "execution.checkpointing.interval-during-backlog"),
    _ignored("see 'execution.state-recovery.from-local' and 'taskmanager.state.local.root-dirs'",
             "execution.checkpointing.local-backup.", "execution.checkpointing.approximate-local-recovery",
             "execution.state-recovery.approximate-local-recovery"),
    _ignored("nothing has to be forced: there are no iterations", "execution.checkpointing.force"),
    _ignored("state is in the same process as the functions", "execution.async-state.", "python.map-state."),
    _ignored("queries of state go to the REST interface (docs/queryable_state.md)", "queryable-state.", "query."),
    # How jobs run.
    _ignored("the stages of a batch job run one after another, on Spark's shuffle, with sorted inputs (docs/architecture.md)",
             "execution.batch.", "execution.batch-", "execution.sorted-inputs.", "execution.sort-partition.",
             "execution.sort-keyed-partition."),
    _ignored("'firesteel run -m' and 'firesteel.spark.master' say where a job runs", "execution.target"),
    _ignored("a program may set any option; 'firesteel run -D' wins over it", "execution.program-config.",
             "execution.allow-client-job-configurations"),
    _ignored("'firesteel run' stays until the jobs of a program have ended, with -d it does not", "execution."),
    _ignored(_PICKLED, "pipeline.default-kryo-serializers", "pipeline.registered-kryo-types",
             "pipeline.registered-pojo-types", "pipeline.serialization-config", "pipeline.auto-type-registration",
             "pipeline.force-kryo-avro"),
    _ignored("patterns (CEP) are not there yet", "pipeline.cep."),
    _ignored("operators are named one way, and sources begin at once", "pipeline."),
    _ignored("see 'pipeline.operator-chaining.enabled'", "python.operator-chaining.enabled"),
    _ignored("functions run in the task itself, with the environment of its worker", "python."),
    _ignored("files for the tasks are 'python.files', 'python.archives' and 'pipeline.jars'", "user.artifacts."),
    _ignored("the Table API and SQL are not there yet", "table.", "sql-client.", "sql-gateway."),
    _ignored("Spark's cluster managers have options of their own: 'spark.kubernetes.', 'spark.yarn.', 'spark.hadoop.'",
             "kubernetes.", "yarn.", "containerized.", "flink."),
    _ignored("see 'spark.executor.resource.'", "external-resource.", "external-resources"),
    _ignored("functions are Python's, so there are no classes of theirs to load", "classloader."),
    _ignored("see 'firesteel.cancel.grace'", "task."),
    _ignored(_NO_CLUSTER, "akka.", "application-result-store.", "blob.", "cleanup-strategy", "cleanup-strategy.", "client.",
             "cluster.", "compiler.", "completed-application-store.", "jmx.", "job-event.", "job-result-store.", "jobstore.",
             "pekko."),
)  # fmt: skip


@cache
def flink_keys() -> frozenset[str]:
    """The keys of Flink that `options` does not know; what stands in angle brackets is any name."""
    text = resources.files(__package__).joinpath("flink_keys.txt").read_text(encoding="utf-8")
    return frozenset(line for line in text.splitlines() if line and not line.startswith("#"))


@cache
def _with_names() -> re.Pattern[str]:
    """Matches the keys that are no fixed text."""
    open_keys = [re.escape(key) for key in flink_keys() if "<" in key]
    forms = [re.sub(r"<\w+>", ".+", key) for key in open_keys]
    return re.compile("|".join(forms))


def answer_to(key: str) -> FlinkOptions | None:
    """What Firesteel answers to a key that is Flink's and not its own; None: Flink does not have it either.

    >>> answer_to("rest.url-prefix").answer
    'the REST interface (docs/rest.md) and its pages have no such setting'
    >>> answer_to("rest.of.the.world") is None
    True
    """
    if key not in flink_keys() and not _with_names().fullmatch(key):
        return None
    return next(row for row in ANSWERS if row.has(key))
