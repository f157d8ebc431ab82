"""Every option Firesteel knows: key, type, default and one line of documentation.

Constants are grouped by subject and collected in a registry; `all_options` lists it, `find_option` looks one up
by key. `unknown_keys` finds misspelt ones, `refused_options` and `options_without_effect` what Flink has and Firesteel has not.

>>> find_option("parallelism.default") is PARALLELISM_DEFAULT
True
>>> find_option("execution.buffer-timeout").parse("1 min").to_millis()
60000
"""

from __future__ import annotations

from typing import Any, TypeVar

from firesteel.common._flink_options import ANSWERS, FlinkOptions, answer_to, flink_keys
from firesteel.common._option_types import (
    BOOLEAN,
    DURATION,
    FLOAT,
    INTEGER,
    MEMORY,
    PATH_LIST,
    PORTS,
    STRING,
    STRING_LIST,
    STRING_MAP,
    OptionType,
    choice,
)
from firesteel.common._redaction import MARKED_BY_PROGRAM, MARKED_KEY
from firesteel.common.config_options import ConfigOption
from firesteel.common.configuration import Configuration
from firesteel.common.time import Duration

__all__ = [
    "OWN_NAMESPACES",
    "REPORTER_PREFIX",
    "all_options",
    "find_option",
    "flink_options",
    "is_own",
    "options_without_effect",
    "refused_options",
    "unknown_keys",
]

T = TypeVar("T")

_REGISTRY: dict[str, ConfigOption[Any]] = {}
_BY_ANY_KEY: dict[str, ConfigOption[Any]] = {}


def _required(key: str, kind: OptionType[T], default: T, doc: str, *fallbacks: str) -> ConfigOption[T]:
    """Register an option that always has a value."""
    option: ConfigOption[T] = ConfigOption(key, kind, default, doc, fallbacks)
    _REGISTRY[key] = option
    _BY_ANY_KEY.update(dict.fromkeys((key, *fallbacks), option))
    return option


def _optional(key: str, kind: OptionType[T], doc: str, *fallbacks: str) -> ConfigOption[T | None]:
    """Register an option that reads as None when it is not given."""
    option: ConfigOption[T | None] = ConfigOption(key, kind, None, doc, fallbacks)
    _REGISTRY[key] = option
    _BY_ANY_KEY.update(dict.fromkeys((key, *fallbacks), option))
    return option


def _parse_high_availability(value: object) -> str:
    text = str(value).strip()
    if text.lower() in ("none", "filesystem"):
        return "NONE" if text.lower() == "none" else "filesystem"
    raise ValueError(
        "drivers choose their leader through files in a directory, there is no ZooKeeper and no Kubernetes client; "
        "use filesystem"
    )


def _s3_spellings(*names: str) -> tuple[str, ...]:
    """How else Flink and Hadoop let users write an option of S3."""
    first = f"s3.{names[0]}"
    keys = [f"{prefix}.{name}" for name in names for prefix in ("s3", "s3a", "fs.s3a")]
    return tuple(key for key in keys if key != first)


_ms = Duration.of_millis
_s = Duration.of_seconds
_IGNORED = "Accepted for Flink's sake and ignored: "

# The program.

PARALLELISM_DEFAULT = _optional(
    "parallelism.default", INTEGER, "Parallelism of operators that set none; unset: one for each processor."
)
PIPELINE_NAME = _optional("pipeline.name", STRING, "Name of the job, unless execute() gives one.")
JOB_ID = _optional(
    "pipeline.job-id",
    STRING,
    "Id of the job, 32 hexadecimal digits; unset: a new one for each run.",
    "$internal.pipeline.job-id",
)
MAX_PARALLELISM = _required(
    "pipeline.max-parallelism",
    INTEGER,
    -1,
    "Number of key groups, the upper bound for rescaling; -1: derived from the parallelism.",
)
OPERATOR_CHAINING = _required(
    "pipeline.operator-chaining.enabled",
    BOOLEAN,
    True,
    "Whether neighbouring operators share a task.",
    "pipeline.operator-chaining",
)
CHAIN_DIFFERENT_MAX_PARALLELISM = _required(
    "pipeline.operator-chaining.chain-operators-with-different-max-parallelism",
    BOOLEAN,
    True,
    "Whether operators with different max parallelism may share a task.",
)
AUTO_WATERMARK_INTERVAL = _required(
    "pipeline.auto-watermark-interval",
    DURATION,
    _ms(200),
    "How often periodic watermark generators are asked for a watermark; 0: never.",
)
WATERMARK_STALL_WARNING = _required(
    "firesteel.watermark.stall-warning",
    DURATION,
    _s(60),
    "Warn when an operator that waits for event time gets records for so long, and its watermark stands; 0: never.",
)
OBJECT_REUSE = _required(
    "pipeline.object-reuse",
    BOOLEAN,
    False,
    "Hand objects from operator to operator as they are; without it a record is a value, copied where it can change.",
)
GLOBAL_JOB_PARAMETERS = _optional(
    "pipeline.global-job-parameters", STRING_MAP, "Parameters that every function of the job can read."
)
PIPELINE_JARS = _optional("pipeline.jars", STRING_LIST, "Jar files for the Spark session.")
PIPELINE_CLASSPATHS = _optional(
    "pipeline.classpaths",
    STRING_LIST,
    "Paths or file: URLs, the same on all machines, that Spark's JVMs load classes from.",
)
CACHED_FILES = _optional("pipeline.cached-files", STRING, "Files registered for distribution to the workers.")
CLOSURE_CLEANER_LEVEL = _required(
    "pipeline.closure-cleaner-level",
    STRING,
    "RECURSIVE",
    _IGNORED + "Python closures carry what they use only.",
)
GENERIC_TYPES = _required("pipeline.generic-types", BOOLEAN, True, _IGNORED + "any Python object may flow.")
FORCE_KRYO = _required("pipeline.force-kryo", BOOLEAN, False, _IGNORED + "there is no Kryo.")
FORCE_AVRO = _required("pipeline.force-avro", BOOLEAN, False, _IGNORED + "values are pickled.")
AUTO_GENERATE_UIDS = _required(
    "pipeline.auto-generate-uids", BOOLEAN, True, "Whether operators without a uid get one from the graph."
)
VERTEX_DESCRIPTION_MODE = _optional(
    "pipeline.vertex-description-mode", STRING, _IGNORED + "descriptions have one form."
)
WATERMARK_ALIGNMENT_ALLOW_UNALIGNED_SPLITS = _required(
    "pipeline.watermark-alignment.allow-unaligned-source-splits",
    BOOLEAN,
    False,
    _IGNORED + "a source waits as a whole, whether it could pause splits or not.",
)

# Execution.

RUNTIME_MODE = _required(
    "execution.runtime-mode",
    choice("STREAMING", "BATCH", "AUTOMATIC"),
    "STREAMING",
    "STREAMING runs all stages at once; BATCH one after another; AUTOMATIC is BATCH if all sources are bounded.",
)
BUFFER_TIMEOUT = _required(
    "execution.buffer-timeout.interval",
    DURATION,
    _ms(100),
    "How long a record may wait for its chunk to fill; 0: not at all.",
    "execution.buffer-timeout",
)
BUFFER_TIMEOUT_ENABLED = _required(
    "execution.buffer-timeout.enabled", BOOLEAN, True, "Off: chunks leave only when they are full."
)
LATENCY_INTERVAL = _required(
    "metrics.latency.interval", DURATION, _ms(0), "How often sources send latency markers; 0: never."
)
LATENCY_GRANULARITY = _required(
    "metrics.latency.granularity",
    choice("operator", "single", "subtask"),
    "operator",
    "What operators keep a histogram of latencies for: each source, all sources together, or each subtask of each source.",
)
LATENCY_HISTORY = _required(
    "metrics.latency.history-size", INTEGER, 128, "How many of the newest latencies a histogram is made of."
)

# Metrics. What reporters are told, under metrics.reporter.<name>., is read by whoever starts them.

METRICS_REPORTERS = _optional(
    "metrics.reporters",
    STRING_LIST,
    "Names of the reporters to start, of those under metrics.reporter.<name>.; unset: all of them.",
)
METRICS_SCOPE_DELIMITER = _required(
    "metrics.scope.delimiter", STRING, ".", "What stands between the parts of a metric's full name."
)
METRICS_SCOPE_JM = _required(
    "metrics.scope.jm", STRING, "<host>.jobmanager", "How names of metrics of the driver begin."
)
METRICS_SCOPE_JM_JOB = _required(
    "metrics.scope.jm-job",
    STRING,
    "<host>.jobmanager.<job_name>",
    "How names of metrics of a job in the driver begin.",
    "metrics.scope.jm.job",
)
METRICS_SCOPE_TM = _required(
    "metrics.scope.tm",
    STRING,
    "<host>.taskmanager.<tm_id>",
    "How names of metrics of the process of a task begin.",
)
METRICS_SCOPE_TM_JOB = _required(
    "metrics.scope.tm-job",
    STRING,
    "<host>.taskmanager.<tm_id>.<job_name>",
    "How names of metrics of a job in the process of a task begin.",
    "metrics.scope.tm.job",
)
METRICS_SCOPE_TASK = _required(
    "metrics.scope.task",
    STRING,
    "<host>.taskmanager.<tm_id>.<job_name>.<task_name>.<subtask_index>",
    "How names of metrics of a vertex's subtask begin.",
)
METRICS_SCOPE_OPERATOR = _required(
    "metrics.scope.operator",
    STRING,
    "<host>.taskmanager.<tm_id>.<job_name>.<operator_name>.<subtask_index>",
    "How names of metrics of an operator's subtask begin.",
)

TASK_CANCELLATION_INTERVAL = _required(
    "task.cancellation.interval",
    DURATION,
    _ms(30_000),
    _IGNORED + "see firesteel.cancel.grace.",
    "task.cancellation-interval",
)
TASK_CANCELLATION_TIMEOUT = _required(
    "task.cancellation.timeout", DURATION, _ms(180_000), _IGNORED + "see firesteel.cancel.grace."
)
HEARTBEAT_INTERVAL = _required(
    "heartbeat.interval",
    DURATION,
    _s(10),
    "How often job master, tasks and Spark's driver process give a sign of life.",
)
HEARTBEAT_TIMEOUT = _required(
    "heartbeat.timeout",
    DURATION,
    _s(50),
    "Who gives no sign of life for so long is lost; at least twice the interval.",
)
SLOT_REQUEST_TIMEOUT = _required(
    "slot.request.timeout",
    DURATION,
    _s(300),
    "How long an attempt waits for slots on a Spark cluster, and then for its tasks to start.",
)
SCHEDULER = _required(
    "jobmanager.scheduler",
    choice("Default", "Adaptive", "AdaptiveBatch"),
    "Default",
    "Default: a job has the slots that it asks for, or does not start. Adaptive: it runs with those that there are, and is "
    "rescaled when others come or some go. AdaptiveBatch: the same as Default.",
)
ADAPTIVE_WAIT = _required(
    "jobmanager.adaptive-scheduler.submission.resource-wait-timeout",
    DURATION,
    _s(300),
    "How long the adaptive scheduler waits for all slots that a job asks for, before it starts with fewer, or fails when there "
    "are not even enough for one subtask of each operator; negative: for ever.",
    "jobmanager.adaptive-scheduler.resource-wait-timeout",
)
ADAPTIVE_STABILIZATION = _required(
    "jobmanager.adaptive-scheduler.submission.resource-stabilization-timeout",
    DURATION,
    _s(10),
    "How long the adaptive scheduler waits for more slots, before it starts a job with fewer than it asks for.",
    "jobmanager.adaptive-scheduler.resource-stabilization-timeout",
)
ADAPTIVE_COOLDOWN = _required(
    "jobmanager.adaptive-scheduler.executing.cooldown-after-rescaling",
    DURATION,
    _s(30),
    "How long a job runs at least before the adaptive scheduler rescales it again.",
    "jobmanager.adaptive-scheduler.scaling-interval.min",
)
ADAPTIVE_EXECUTING_STABILIZATION = _required(
    "jobmanager.adaptive-scheduler.executing.resource-stabilization-timeout",
    DURATION,
    _s(60),
    "How long the number of slots stays the same before the adaptive scheduler rescales a job that runs; at once when there "
    "are all that it asks for.",
)
REST_PORT = _required(
    "rest.port",
    INTEGER,
    8081,
    "Port of the REST interface; 0: any free one, -1: none. Where it is not given, the next free one after 8081 will do.",
    "jobmanager.web.port",
)
REST_BIND_PORT = _optional(
    "rest.bind-port", PORTS, "Ports of the REST interface, of which the first free one is used: 8081-8090."
)
REST_ADDRESS = _optional(
    "rest.address", STRING, "Name by which clients reach the REST interface; unset: localhost."
)
REST_TOKEN_FILE = _optional(
    "firesteel.rest.token-file",
    STRING,
    "File with the token that commands send to a REST interface; the variable FIRESTEEL_REST_TOKEN wins over it.",
)
REST_BIND_ADDRESS = _optional(
    "rest.bind-address",
    STRING,
    "Address at which the REST interface listens; unset: this machine only.",
    "jobmanager.web.address",
)
REST_ALLOW_REMOTE = _required(
    "firesteel.rest.allow-remote",
    BOOLEAN,
    False,
    "Whether the REST interface may listen where other machines reach it, though it asks nobody for a token or a certificate.",
)
REST_TOKENS_FILE = _optional(
    "firesteel.rest.tokens-file",
    STRING,
    "File with the tokens that the REST interface lets in, each with its role; 'firesteel token' writes it. Unset: no tokens "
    "are asked for.",
)
REST_MOST_BODY_BYTES = _required(
    "rest.server.max-content-length",
    INTEGER,
    104_857_600,
    "Largest body of a request to the REST interface, in bytes.",
)
FLAMEGRAPH_ENABLED = _required(
    "rest.flamegraph.enabled",
    BOOLEAN,
    True,
    "Whether tasks are sampled for flame graphs when somebody asks for one.",
)
FLAMEGRAPH_SAMPLES = _required(
    "rest.flamegraph.num-samples", INTEGER, 100, "How many samples of each task a flame graph has."
)
FLAMEGRAPH_DELAY = _required(
    "rest.flamegraph.delay-between-samples", DURATION, _ms(50), "Time from one sample of a task to the next."
)
FLAMEGRAPH_DEPTH = _required(
    "rest.flamegraph.stack-depth",
    INTEGER,
    100,
    "How many frames of a stack, from the innermost, a flame graph has.",
)
FLAMEGRAPH_REFRESH = _required(
    "rest.flamegraph.refresh-interval",
    DURATION,
    _s(60),
    "After this time tasks are sampled again, if somebody asks.",
)
FLAMEGRAPH_CLEANUP = _required(
    "rest.flamegraph.cleanup-interval",
    DURATION,
    _s(600),
    "After this time without a question samples are forgotten.",
)

# The cluster service and the history server.

CLUSTER_DIR = _optional(
    "firesteel.cluster.dir",
    STRING,
    "Folder of the cluster service; unset: cluster in Firesteel's home directory.",
)
CLUSTER_SLOTS = _optional(
    "firesteel.cluster.slots",
    INTEGER,
    "Slots that the jobs of the cluster service share; unset: 16 for each processor, and 64 at least.",
)
CLUSTER_SPARE_DRIVERS = _required(
    "firesteel.cluster.spare-drivers",
    INTEGER,
    1,
    "Drivers that the cluster service keeps ready, each with a Spark of its own; 0: jobs wait for Spark to start.",
)
JOBSTORE_CAPACITY = _required(
    "jobstore.max-capacity", INTEGER, 1000, "How many jobs that have ended the cluster service keeps."
)
ARCHIVE_DIR = _optional(
    "jobmanager.archive.fs.dir",
    STRING,
    "Directory for what is to be seen of jobs that have ended; unset: only the cluster service keeps it.",
)
HISTORY_DIR = _optional(
    "historyserver.archive.fs.dir",
    STRING,
    "Directory that the history server reads; unset: that of 'jobmanager.archive.fs.dir'.",
)
HISTORY_REFRESH = _required(
    "historyserver.archive.fs.refresh-interval",
    DURATION,
    _s(10),
    "How often the history server looks for jobs that have ended.",
)
HISTORY_PORT = _required(
    "historyserver.web.port", INTEGER, 8082, "Port of the history server; 0: any free one."
)
HISTORY_ADDRESS = _optional(
    "historyserver.web.address",
    STRING,
    "Address at which the history server listens; unset: this machine only.",
)
EXCEPTION_HISTORY_SIZE = _required(
    "web.exception-history-size", INTEGER, 16, "How many failures of a job are remembered."
)
CHECKPOINTS_HISTORY_SIZE = _required(
    "web.checkpoints.history",
    INTEGER,
    10,
    "How many checkpoints of a job are remembered one by one.",
    "jobmanager.web.checkpoints.history",
)
FAILOVER_STRATEGY = _required(
    "jobmanager.execution.failover-strategy",
    choice("full", "region"),
    "full",
    "What restarts after a failure; region does the same as full: all tasks restart.",
)

# Checkpoints and state.

CHECKPOINTING_INTERVAL = _optional(
    "execution.checkpointing.interval", DURATION, "Time between checkpoints; unset: no checkpoints."
)
CHECKPOINTING_MODE = _required(
    "execution.checkpointing.mode",
    choice("EXACTLY_ONCE", "AT_LEAST_ONCE"),
    "EXACTLY_ONCE",
    "Whether barriers are aligned (EXACTLY_ONCE) or not (AT_LEAST_ONCE).",
)
CHECKPOINTING_TIMEOUT = _required(
    "execution.checkpointing.timeout", DURATION, _s(600), "A checkpoint that takes longer is aborted."
)
WAITING_INPUT_LIMIT = _required(
    "firesteel.input.waiting-limit",
    MEMORY,
    2**30,
    "Most bytes of input that wait in a subtask, beyond 64 MB in files: if it is for barriers the checkpoint is aborted.",
    "task.checkpoint.alignment.max-size",
)
CHECKPOINTING_MIN_PAUSE = _required(
    "execution.checkpointing.min-pause", DURATION, _ms(0), "Least time between the end of one and the next."
)
CHECKPOINTING_MAX_CONCURRENT = _required(
    "execution.checkpointing.max-concurrent-checkpoints", INTEGER, 1, "How many may be under way at once."
)
CHECKPOINTING_TOLERABLE_FAILURES = _required(
    "execution.checkpointing.tolerable-failed-checkpoints",
    INTEGER,
    0,
    "Failed ones in a row before the job fails.",
)
CHECKPOINTING_NUM_RETAINED = _required(
    "execution.checkpointing.num-retained",
    INTEGER,
    1,
    "How many complete checkpoints are kept.",
    "state.checkpoints.num-retained",
)
CHECKPOINTING_RETENTION = _required(
    "execution.checkpointing.externalized-checkpoint-retention",
    choice("NO_EXTERNALIZED_CHECKPOINTS", "DELETE_ON_CANCELLATION", "RETAIN_ON_CANCELLATION"),
    "NO_EXTERNALIZED_CHECKPOINTS",
    "What happens to checkpoints when the job is cancelled.",
)
CHECKPOINTING_STORAGE = _optional(
    "execution.checkpointing.storage",
    STRING,
    "jobmanager (memory) or filesystem; unset: by directory.",
    "state.checkpoint-storage",
)
CHECKPOINTING_DIR = _optional(
    "execution.checkpointing.dir",
    STRING,
    "Directory for checkpoints.",
    "state.checkpoints.dir",
    "state.backend.fs.checkpointdir",
)
SAVEPOINT_DIR = _optional(
    "execution.checkpointing.savepoint-dir",
    STRING,
    "Default directory for savepoints.",
    "state.savepoints.dir",
    "savepoints.state.backend.fs.dir",
)
CHECKPOINTING_INCREMENTAL = _required(
    "execution.checkpointing.incremental",
    BOOLEAN,
    False,
    "Whether only changed state is written.",
    "state.backend.incremental",
)
CHECKPOINTING_UNALIGNED = _required(
    "execution.checkpointing.unaligned.enabled",
    BOOLEAN,
    False,
    "Whether barriers may overtake records.",
    "execution.checkpointing.unaligned",
)
CHECKPOINTING_FORCE_UNALIGNED = _required(
    "execution.checkpointing.unaligned.forced",
    BOOLEAN,
    False,
    _IGNORED + "barriers do not overtake records yet.",
)
CHECKPOINTING_ALIGNED_TIMEOUT = _required(
    "execution.checkpointing.aligned-checkpoint-timeout",
    DURATION,
    _ms(0),
    _IGNORED + "barriers do not overtake records yet.",
    "execution.checkpointing.alignment-timeout",
)
CHECKPOINTING_AFTER_TASKS_FINISH = _required(
    "execution.checkpointing.checkpoints-after-tasks-finish",
    BOOLEAN,
    True,
    _IGNORED + "checkpoints always continue after some tasks have finished.",
    "execution.checkpointing.checkpoints-after-tasks-finish.enabled",
)
CHECKPOINTING_RESUME = _required(
    "execution.checkpointing.resume",
    BOOLEAN,
    False,
    "Whether to resume from the newest checkpoint of the job with this id or name, if there is one.",
)
STORAGE_PATIENCE = _required(
    "firesteel.storage.patience",
    DURATION,
    _s(30),
    "How long a job that is to be resumed waits for checkpoint storage that does not answer, before it is refused.",
)
CHECKPOINTING_FILE_MERGING = _required(
    "execution.checkpointing.file-merging.enabled", BOOLEAN, False, _IGNORED + "few files are written anyway."
)
CHECKPOINTING_SNAPSHOT_COMPRESSION = _required(
    "execution.checkpointing.snapshot-compression", BOOLEAN, False, "Whether full snapshots are compressed."
)
CHECKPOINTING_MEMORY_LIMIT = _required(
    "firesteel.checkpoint.memory-limit",
    INTEGER,
    5 * 1024 * 1024,
    "Most bytes of state that a subtask may send to the driver's memory, where checkpoints are kept without a "
    "directory.",
)
SAVEPOINT_PATH = _optional(
    "execution.state-recovery.path",
    STRING,
    "Savepoint or checkpoint to start from.",
    "execution.savepoint.path",
)
SAVEPOINT_IGNORE_UNCLAIMED = _required(
    "execution.state-recovery.ignore-unclaimed-state",
    BOOLEAN,
    False,
    "Whether state of operators that no longer exist is dropped silently.",
    "execution.savepoint.ignore-unclaimed-state",
)
SAVEPOINT_CLAIM_MODE = _required(
    "execution.state-recovery.claim-mode",
    choice("NO_CLAIM", "CLAIM", "LEGACY"),
    "NO_CLAIM",
    "Whom the savepoint or checkpoint belongs to that a job starts from: always to you, so CLAIM is refused.",
    "execution.savepoint-restore-mode",
)
STATE_BACKEND = _required(
    "state.backend.type",
    STRING,
    "hashmap",
    "hashmap: objects in memory; disk (also: rocksdb): larger than memory; module:name: a backend of one's own.",
    "state.backend",
)
STATE_DISK_CACHE_SIZE = _required(
    "state.backend.disk.cache-size",
    MEMORY,
    256 * 2**20,
    "About how much memory backends other than hashmap use per operator and subtask.",
)
STATE_DISK_CACHE_ENTRIES = _optional(
    "state.backend.disk.cache-entries",
    INTEGER,
    "How many keys per operator and subtask they keep in memory, instead of cache-size.",
)
STATE_MAX_DELTAS = _required(
    "execution.checkpointing.incremental.max-deltas",
    INTEGER,
    16,
    "How many incremental checkpoints may follow a full one.",
)
STATE_DISK_DIRS = _optional(
    "state.backend.disk.dirs",
    STRING,
    "Local directories for state on disk, separated by commas; unset: io.tmp.dirs.",
    "state.backend.rocksdb.localdir",
)
TMP_DIRS = _optional(
    "io.tmp.dirs",
    STRING,
    "Local directories for what tasks put on disk, separated by commas; unset: the system's.",
    "taskmanager.tmp.dirs",
)
LOCAL_RECOVERY = _required(
    "execution.state-recovery.from-local",
    BOOLEAN,
    False,
    "Whether tasks keep copies of keyed state on the disks of their machine and restart from them.",
    "state.backend.local-recovery",
)
LOCAL_STATE_DIRS = _optional(
    "taskmanager.state.local.root-dirs",
    STRING,
    "Local directories for these copies, separated by commas; unset: those of io.tmp.dirs.",
)
STATE_CHANGELOG = _optional(
    "state.changelog.enabled",
    BOOLEAN,
    _IGNORED + "deltas serve the same purpose.",
    "state.backend.changelog.enabled",
)

QUERYABLE_STATE = _required(
    "queryable-state.enable",
    BOOLEAN,
    False,
    "Whether others may ask a running job for the states that its program has made queryable.",
)

# Restarts.

RESTART_STRATEGY = _optional(
    "restart-strategy.type",
    choice("none", "off", "disable", "fixed-delay", "failure-rate", "exponential-delay"),
    "When a failed job starts again; unset: exponential-delay if checkpoints are on, else none.",
    "restart-strategy",
)
FIXED_DELAY_ATTEMPTS = _required(
    "restart-strategy.fixed-delay.attempts", INTEGER, 1, "How many restarts before the job fails for good."
)
FIXED_DELAY_DELAY = _required(
    "restart-strategy.fixed-delay.delay", DURATION, _s(1), "Time between failure and restart."
)
FAILURE_RATE_MAX_FAILURES = _required(
    "restart-strategy.failure-rate.max-failures-per-interval", INTEGER, 1, "Failures allowed per interval."
)
FAILURE_RATE_INTERVAL = _required(
    "restart-strategy.failure-rate.failure-rate-interval",
    DURATION,
    _s(60),
    "Interval in which failures count.",
)
FAILURE_RATE_DELAY = _required(
    "restart-strategy.failure-rate.delay", DURATION, _s(1), "Time between failure and restart."
)
EXPONENTIAL_INITIAL_BACKOFF = _required(
    "restart-strategy.exponential-delay.initial-backoff", DURATION, _s(1), "Time before the first restart."
)
EXPONENTIAL_MAX_BACKOFF = _required(
    "restart-strategy.exponential-delay.max-backoff", DURATION, _s(60), "Longest time before a restart."
)
EXPONENTIAL_MULTIPLIER = _required(
    "restart-strategy.exponential-delay.backoff-multiplier",
    FLOAT,
    1.5,
    "Growth of the time after each failure.",
)
EXPONENTIAL_RESET = _required(
    "restart-strategy.exponential-delay.reset-backoff-threshold",
    DURATION,
    _s(3600),
    "After running that long, the time starts small again.",
)
EXPONENTIAL_JITTER = _required(
    "restart-strategy.exponential-delay.jitter-factor", FLOAT, 0.1, "Random part of the time, as a fraction."
)
EXPONENTIAL_ATTEMPTS = _optional(
    "restart-strategy.exponential-delay.attempts-before-reset-backoff",
    INTEGER,
    "Restarts before the job fails for good; unset: no limit.",
)
REPEATED_FAILURE_THRESHOLD = _required(
    "firesteel.repeated-failure.threshold",
    INTEGER,
    3,
    "How often the same record must fail a job, without progress in between, to be recognised; 0: never.",
)
REPEATED_FAILURE_ACTION = _optional(
    "firesteel.repeated-failure.action",
    choice("warn", "fail"),
    "What happens then: the job restarts as before, or fails; unset: warn, in the simulator fail.",
)

# Standby drivers.

HIGH_AVAILABILITY = _required(
    "high-availability.type",
    OptionType("NONE | filesystem", _parse_high_availability),
    "NONE",
    "filesystem: of several drivers of a job one leads; another one takes the job over when it dies.",
    "high-availability",
)
HIGH_AVAILABILITY_DIR = _optional(
    "high-availability.storageDir",
    STRING,
    "Directory through which the drivers choose their leader; unset: the checkpoint directory.",
    "high-availability.zookeeper.storageDir",
)
HIGH_AVAILABILITY_CLUSTER_ID = _optional(
    "high-availability.cluster-id",
    STRING,
    "Keeps jobs of the same name apart that share these directories; unset: name or id of the job say which it is.",
    "high-availability.zookeeper.path.namespace",
)
HIGH_AVAILABILITY_LEASE_TIMEOUT = _required(
    "high-availability.filesystem.lease-timeout",
    DURATION,
    _s(10),
    "A leader that has not been heard of for so long is taken for dead; it says that it lives four times as often.",
)

# Python.

PYTHON_FILES = _optional("python.files", PATH_LIST, "Python files, packages or archives for the workers.")
PYTHON_REQUIREMENTS = _optional("python.requirements", STRING, "requirements.txt to install on the workers.")
PYTHON_ARCHIVES = _optional("python.archives", PATH_LIST, "Archives to unpack on the workers.")
PYTHON_EXECUTABLE = _optional("python.executable", STRING, "Python interpreter of the workers.")
PYTHON_CLIENT_EXECUTABLE = _optional(
    "python.client.executable", STRING, "Python interpreter in which firesteel run starts the program."
)
PYTHON_PATH = _optional(
    "python.pythonpath", STRING, "Directories on the workers to import from, separated as in PYTHONPATH."
)
PYTHON_EXECUTION_MODE = _optional(
    "python.execution-mode", STRING, _IGNORED + "operators and functions share one process."
)
PYTHON_BUNDLE_SIZE = _required(
    "python.fn-execution.bundle.size", INTEGER, 1000, _IGNORED + "see firesteel.chunk.records."
)
PYTHON_BUNDLE_TIME = _required(
    "python.fn-execution.bundle.time", INTEGER, 1000, _IGNORED + "see execution.buffer-timeout.interval."
)
PYTHON_ARROW_BATCH_SIZE = _required(
    "python.fn-execution.arrow.batch.size", INTEGER, 1000, _IGNORED + "see firesteel.chunk.records."
)
PYTHON_MEMORY_MANAGED = _required(
    "python.fn-execution.memory.managed", BOOLEAN, True, _IGNORED + "see firesteel.task.memory-limit."
)
PYTHON_STATE_CACHE_SIZE = _required(
    "python.state.cache-size", INTEGER, 1000, _IGNORED + "state lives in the same process."
)
PYTHON_MAP_STATE_READ_CACHE = _required(
    "python.map-state.read-cache-size", INTEGER, 1000, _IGNORED + "state lives in the same process."
)
PYTHON_PROFILE = _required("python.profile.enabled", BOOLEAN, False, "Whether user functions are profiled.")

# Who reaches the driver, and how.

JOBMANAGER_ADDRESS = _optional(
    "jobmanager.rpc.address",
    STRING,
    "Name or address by which tasks on other machines reach the driver; unset: spark.driver.host, or the address of "
    "this machine that leads outward.",
)
JOBMANAGER_PORT = _optional(
    "jobmanager.rpc.port",
    PORTS,
    "Ports on which the driver may listen for tasks on other machines, such as 50100-50200; every running job takes one; "
    "unset or 0: any free one.",
)
JOBMANAGER_BIND_HOST = _optional(
    "jobmanager.bind-host",
    STRING,
    "Address on which the driver listens for tasks on other machines, 0.0.0.0 for all; unset: spark.driver.bindAddress, "
    "or jobmanager.rpc.address where that is an address of this machine.",
)
SSL_INTERNAL = _required(
    "security.ssl.internal.enabled",
    BOOLEAN,
    False,
    "Whether everything that travels between driver, executors and tasks is encrypted, and both ends show a certificate.",
)
SSL_INTERNAL_KEYSTORE = _optional(
    "security.ssl.internal.keystore",
    STRING,
    "Key store (PKCS12 or JKS) with certificate and key for Spark's connections, at this path on every machine; unset: one is "
    "made, which only the embedded Spark can use.",
    "security.ssl.keystore",
)
SSL_INTERNAL_KEYSTORE_PASSWORD = _optional(
    "security.ssl.internal.keystore-password",
    STRING,
    "Password of that key store.",
    "security.ssl.keystore-password",
)
SSL_INTERNAL_KEY_PASSWORD = _optional(
    "security.ssl.internal.key-password",
    STRING,
    "Password of the key in it; unset: that of the key store.",
    "security.ssl.key-password",
)
SSL_INTERNAL_TRUSTSTORE = _optional(
    "security.ssl.internal.truststore",
    STRING,
    "Key store with the authority that has signed the certificates of the others, at this path on every machine.",
    "security.ssl.truststore",
)
SSL_INTERNAL_TRUSTSTORE_PASSWORD = _optional(
    "security.ssl.internal.truststore-password",
    STRING,
    "Password of that one.",
    "security.ssl.truststore-password",
)
SSL_INTERNAL_CERT_FILE = _optional(
    "security.ssl.internal.cert-file",
    STRING,
    "Certificate for the control connections of tasks, in PEM, on the driver's machine; unset: one is made for each driver.",
)
SSL_INTERNAL_KEY_FILE = _optional(
    "security.ssl.internal.key-file",
    STRING,
    "Key of that certificate, in PEM; only its owner may be able to read it.",
)
SSL_INTERNAL_CA_FILE = _optional(
    "security.ssl.internal.ca-file", STRING, "Certificate, in PEM, of the authority that has signed it."
)
SSL_REST = _required(
    "security.ssl.rest.enabled",
    BOOLEAN,
    False,
    "Whether the REST interface speaks TLS; it needs a certificate.",
)
SSL_REST_CERT_FILE = _optional(
    "security.ssl.rest.cert-file", STRING, "Certificate of the REST interface, in PEM."
)
SSL_REST_KEY_FILE = _optional(
    "security.ssl.rest.key-file",
    STRING,
    "Key of that certificate, in PEM; only its owner may be able to read it.",
)
SSL_REST_KEY_PASSWORD = _optional(
    "security.ssl.rest.key-password",
    STRING,
    "Password of the key, if it is encrypted.",
)
SSL_REST_CA_FILE = _optional(
    "security.ssl.rest.ca-file",
    STRING,
    "Certificates, in PEM, of those who sign the certificates of clients, and that clients trust to sign the server's.",
)
SSL_REST_AUTHENTICATION = _required(
    "security.ssl.rest.authentication-enabled",
    BOOLEAN,
    False,
    "Whether clients of the REST interface must have a certificate that security.ssl.rest.ca-file has signed.",
)
REDACTED_KEYS = _optional(
    MARKED_KEY,
    STRING_LIST,
    "Further keys, or parts of keys, whose values are shown to nobody; those with password, secret, token and the like never are.",
)
PROGRAM_REDACTED_KEYS = _optional(
    MARKED_BY_PROGRAM, STRING_LIST, "The same, for keys that a program marks with Configuration.set_secret()."
)
TRUST_DIRECTORY = _required(
    "firesteel.checkpoint.trust-directory",
    BOOLEAN,
    False,
    "Whether a job may resume from a checkpoint or savepoint that other users of the machine can write: it is code that "
    "the driver runs.",
)

# Firesteel's own.

SPARK_MASTER = _required(
    "firesteel.spark.master",
    STRING,
    "embedded",
    "Spark master to run on; embedded: a Spark inside this program.",
)
SPARK_SLOTS = _optional(
    "firesteel.spark.slots", INTEGER, "Slots of the embedded Spark; unset: as many as the job needs."
)
TASK_SLOTS = _optional(
    "taskmanager.numberOfTaskSlots",
    INTEGER,
    "Slots of each executor of a Spark cluster, which are its cores; as spark.executor.cores, which wins.",
)
DRIVER_HEAP = _optional(
    "jobmanager.memory.heap.size", MEMORY, "Heap of the driver's JVM; as spark.driver.memory, which wins."
)
EXECUTOR_HEAP = _optional(
    "taskmanager.memory.task.heap.size",
    MEMORY,
    "Heap of the JVM of each executor of a Spark cluster; as spark.executor.memory, which wins.",
)
JAVA_OPTIONS = _optional(
    "env.java.opts.all", STRING, "Options for Spark's JVMs, driver and executors.", "env.java.opts"
)
DRIVER_JAVA_OPTIONS = _optional(
    "env.java.opts.jobmanager",
    STRING,
    "Options for the driver's JVM; as spark.driver.extraJavaOptions, which come behind and win.",
    "env.java.opts.client",
)
EXECUTOR_JAVA_OPTIONS = _optional(
    "env.java.opts.taskmanager",
    STRING,
    "Options for the executors' JVMs, in an embedded Spark the driver's; as spark.executor.extraJavaOptions.",
)
LOG_DIR = _optional(
    "env.log.dir",
    STRING,
    "Directory of log files, of the driver and of each executor; unset: none but those of firesteel run -d, which are in "
    "Firesteel's home directory.",
)
LOG_MAX = _required(
    "env.log.max", INTEGER, 10, "How many old files of a log are kept when it is rolled over."
)
LOG_MAX_SIZE = _required(
    "firesteel.logging.max-size", MEMORY, 100 << 20, "Size at which a log file is rolled over."
)
LOG_FORMAT = _required(
    "firesteel.logging.format",
    choice("text", "json"),
    "text",
    "Form of the lines of log files: text, or an object of JSON on each line.",
)
LOG_LEVEL = _optional(
    "env.log.level",
    STRING,
    "Level of the root logger, of driver and tasks: ERROR, WARN, INFO, DEBUG...; unset: what the program says.",
    "python.logging.default.level",
)
LOG_LEVEL_OVERRIDES = _optional(
    "python.logging.level.overrides",
    STRING_MAP,
    "Levels of single loggers, of driver and tasks, as in 'orders: DEBUG'.",
)
EXECUTOR = _optional(
    "firesteel.executor", STRING, "Another executor instead of Spark, as 'module:attribute'; used by tests."
)
CHUNK_RECORDS = _required(
    "firesteel.chunk.records", INTEGER, 1024, "Records per chunk between stages; larger: faster, later."
)
SOURCE_BATCH = _required("firesteel.source.batch", INTEGER, 1024, "Records that a source hands over at once.")
SHUFFLE_BUFFER = _required(
    "firesteel.shuffle.buffer", MEMORY, 2**19, "Shuffle memory per task; smaller: less delay when saturated."
)
RECORD_MAX_SIZE = _required(
    "firesteel.record.max-size",
    MEMORY,
    256 * 2**20,
    "Most bytes of a record, pickled, that goes to another task; Spark's JVMs need several times as much memory.",
)
TASK_MEMORY_LIMIT = _optional(
    "firesteel.task.memory-limit",
    MEMORY,
    "Most memory of the Python process of a task, which fails above it; 0: no limit; unset: 80 % of the machine's, or "
    "what spark.executor.pyspark.memory leaves a worker.",
)
CANCEL_GRACE = _required(
    "firesteel.cancel.grace",
    DURATION,
    _s(2),
    "How long a cancelled task may take to close before it is killed.",
)
SIMULATOR_SEED = _required("firesteel.simulator.seed", INTEGER, 0, "What the simulator draws its order from.")
METRICS_INTERVAL = _required(
    "firesteel.metrics.interval", DURATION, _ms(500), "How often tasks report their metrics."
)

# Object stores.

S3_ENDPOINT = _optional(
    "s3.endpoint",
    STRING,
    "Address of a store that speaks S3, as http://host:port; unset: AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, or Amazon's.",
    *_s3_spellings("endpoint"),
)
S3_ACCESS_KEY = _optional(
    "s3.access-key",
    STRING,
    "Access key for S3; unset: the usual ways of AWS, such as AWS_ACCESS_KEY_ID, a profile, or a role of the machine.",
    *_s3_spellings("access-key", "access.key"),
)
S3_SECRET_KEY = _optional(
    "s3.secret-key",
    STRING,
    "Secret key that belongs to s3.access-key; never printed.",
    *_s3_spellings("secret-key", "secret.key"),
)
S3_SESSION_TOKEN = _optional(
    "s3.session-token",
    STRING,
    "Token of temporary keys; never printed.",
    *_s3_spellings("session-token", "session.token"),
)
S3_REGION = _optional(
    "s3.region",
    STRING,
    "Region of the buckets; unset: AWS_REGION, AWS_DEFAULT_REGION, else Amazon is asked for that of the bucket.",
    *_s3_spellings("region", "endpoint.region"),
)
S3_PATH_STYLE = _optional(
    "s3.path.style.access",
    BOOLEAN,
    "Whether the bucket is a part of the path and not of the host name; unset: with an endpoint of one's own.",
    *_s3_spellings("path.style.access", "path-style-access"),
)
S3_SSL = _required(
    "s3.connection.ssl.enabled",
    BOOLEAN,
    True,
    "Whether to use TLS for an endpoint that does not say http:// or https://.",
    *_s3_spellings("connection.ssl.enabled"),
)
S3_ATTEMPTS = _required(
    "s3.attempts.maximum",
    INTEGER,
    3,
    "How often a request to S3 is tried before it has failed.",
    *_s3_spellings("attempts.maximum"),
)
S3_REQUEST_TIMEOUT = _required(
    "s3.connection.timeout",
    DURATION,
    _s(30),
    "How long S3 may take to answer a request.",
    *_s3_spellings("connection.timeout"),
)
S3_CONNECT_TIMEOUT = _required(
    "s3.connection.establish.timeout",
    DURATION,
    _s(5),
    "How long it may take to connect to S3.",
    *_s3_spellings("connection.establish.timeout"),
)

#: Beginnings of keys that nobody but Flink and Firesteel has any use for: one that they do not know is a mistake.
OWN_NAMESPACES: tuple[str, ...] = (
    "firesteel.", "execution.", "pipeline.", "state.", "parallelism.", "restart-strategy.", "heartbeat.", "taskmanager.",
    "jobmanager.", "high-availability.", "security.", "metrics.", "python.",
)  # fmt: skip

#: Beginning of the options of reporters; the name of one and a key of its own follow.
REPORTER_PREFIX = "metrics.reporter."

# What follows "state.backend." may be the name of a store that the program brings along, and then options of that.
_STORES = "state.backend."
_KNOWN_STORES = (
    "rocksdb",
    "forst",
    "disk",
    "fs",
    "changelog",
    "latency-track",
    "local-recovery",
    "incremental",
    "type",
)

# So close to a known key is a typo, most likely. Of keys that are nobody's namespace, most are the program's own.
_PERHAPS_TYPO = 0.85
_TYPO_IN_OWN_NAMESPACE = 0.75


def all_options() -> tuple[ConfigOption[Any], ...]:
    """Return every option, in the order of this file."""
    return tuple(_REGISTRY.values())


def find_option(key: str) -> ConfigOption[Any] | None:
    """Return the option with that key or fallback key."""
    return _BY_ANY_KEY.get(key)


def flink_options() -> tuple[FlinkOptions, ...]:
    """Return what Firesteel answers to options of Flink that it does not have."""
    return ANSWERS


def is_own(key: str) -> bool:
    """Whether only Flink and Firesteel would use such a key, so that one which they do not know is a mistake.

    >>> is_own("execution.foo"), is_own("my.execution.foo"), is_own("state.backend.my-store.foo")
    (True, False, False)
    """
    if key.startswith(_STORES):
        store, dot, _ = key.removeprefix(_STORES).partition(".")
        return not dot or store in _KNOWN_STORES
    return key.startswith(OWN_NAMESPACES)


def unknown_keys(configuration: Configuration) -> dict[str, str | None]:
    """Return the keys that neither Firesteel nor Flink has, each with the known key that it may be misspelt for, or None.

    They may be the program's own, unless they begin as those of `OWN_NAMESPACES`. Keys of Spark pass.

    >>> unknown_keys(Configuration.from_dict({"paralelism.default": "2", "spark.any": "x", "rest.port": "8081"}))
    {'paralelism.default': 'parallelism.default'}
    """
    return {
        key: _closest(key, _TYPO_IN_OWN_NAMESPACE if is_own(key) else _PERHAPS_TYPO)
        for key in sorted(configuration.key_set() - _BY_ANY_KEY.keys())
        if not key.startswith(("spark.", REPORTER_PREFIX)) and answer_to(key) is None
    }


def _closest(key: str, cutoff: float) -> str | None:
    import difflib

    matches = difflib.get_close_matches(key, [*_BY_ANY_KEY, *flink_keys()], n=1, cutoff=cutoff)
    return matches[0] if matches else None


def refused_options(configuration: Configuration) -> dict[str, str]:
    """Return the options of Flink that must not be passed over, each with the reason; some values ask for nothing."""
    rows = {key: answer_to(key) for key in sorted(configuration.key_set() - _BY_ANY_KEY.keys())}
    return {
        key: row.answer
        for key, row in rows.items()
        if row is not None
        and row.is_refused
        and configuration.get_string(key, "").strip().lower() not in row.harmless
    }


def options_without_effect(configuration: Configuration) -> dict[str, str]:
    """Return the options of Flink that were given and do nothing, each with what there is instead.

    >>> options_without_effect(Configuration.from_dict({"pipeline.generic-types": "false", "task.slots": "1"}))
    {'pipeline.generic-types': 'any Python object may flow'}
    """
    answers = {}
    for key in sorted(configuration.key_set()):
        option = _BY_ANY_KEY.get(key)
        if option is None:
            row = answer_to(key)
            if row is not None and not row.is_refused:
                answers[key] = row.answer
        elif option.description.startswith(_IGNORED) and configuration.get(option) != option.default:
            answers[key] = option.description.removeprefix(_IGNORED).rstrip(".")
    return answers
