import json
import re
import threading

import pytest

from firesteel import launch
from firesteel.common import Configuration, RestartStrategies, Row, Types, WatermarkStrategy, options
from firesteel.common.errors import (
    FunctionNotSerializableError,
    InvalidOptionError,
    ProgramError,
    TypeMismatchError,
    UnsupportedOperationError,
)
from firesteel.connectors.number_sequence import NumberSequenceSource
from firesteel.contracts.source import ParallelSourceFunction, SourceFunction
from firesteel.contracts.state_backend import store_opener
from firesteel.datastream import (
    CheckpointingMode,
    CustomStateBackend,
    EmbeddedRocksDBStateBackend,
    HashMapStateBackend,
    RuntimeExecutionMode,
    SlotSharingGroup,
    StateBackend,
    StreamExecutionEnvironment,
    TimeCharacteristic,
)
from firesteel.datastream._given_options import CLIENT_VARIABLE
from firesteel.testing import DictStore, simulated_environment, use_simulator

get_execution_environment = StreamExecutionEnvironment.get_execution_environment


class Stop(Exception):
    pass


def submitted(env, run=lambda env: env.execute()):
    """What the environment hands over to be run."""
    submissions = []

    def take(submission):
        submissions.append(submission)
        raise Stop

    with launch.intercept(take), pytest.raises(Stop):
        run(env)
    return submissions[0]


# Parallelism


def test_parallelism_is_the_number_of_processors_by_default(env):
    assert env.get_parallelism() == env.get_default_local_parallelism() >= 1
    env.set_default_local_parallelism(7)
    assert env.get_parallelism() == 7


def test_precedence_operator_then_environment_then_client_then_configuration(monkeypatch, node_of):
    configuration = Configuration().set_integer("parallelism.default", 2)
    assert get_execution_environment(configuration).get_parallelism() == 2
    monkeypatch.setenv(CLIENT_VARIABLE, json.dumps({"parallelism.default": "3"}))
    env = get_execution_environment(configuration)
    assert env.get_parallelism() == 3
    env.configure(configuration)
    assert env.get_parallelism() == 3
    env.set_parallelism(4)
    assert env.get_parallelism() == 4
    mapped = env.from_sequence(1, 2).map(str)
    assert env._graph[mapped._operator("")].parallelism == 4
    assert env._graph[mapped.set_parallelism(5)._operator("")].parallelism == 5


def test_an_operator_takes_the_parallelism_of_the_time_it_is_added(env, node_of):
    source = env.from_sequence(1, 2)
    assert node_of(source).parallelism is None
    early = env.set_parallelism(2) and source.map(str)
    late = env.set_parallelism(3) and source.map(str)
    assert (node_of(early).parallelism, node_of(late).parallelism) == (2, 3)


def test_parallelism_relative_to_the_environments(env):
    env.set_parallelism(8)
    source = env.from_sequence(1, 2)
    doubled = source.map(str).set_parallelism(env.get_parallelism() * 2)
    assert env._graph[doubled._operator("")].parallelism == 16


@pytest.mark.parametrize("bad", [0, -3, 40000])
def test_bad_parallelism_is_refused(env, bad):
    with pytest.raises(ProgramError, match=f"from 1 to 32768, got {bad}"):
        env.set_parallelism(bad)
    with pytest.raises(ProgramError):
        env.set_max_parallelism(bad)


# Options


def test_settings_are_kept(env):
    assert env.is_chaining_enabled()
    assert env.set_max_parallelism(64).get_max_parallelism() == 64
    assert env.get_buffer_timeout() == 100
    assert env.set_buffer_timeout(12).get_buffer_timeout() == 12
    assert env.set_buffer_timeout(-1).get_buffer_timeout() == -1
    assert env.set_buffer_timeout(0).get_buffer_timeout() == 0
    assert not env.disable_operator_chaining().is_chaining_enabled()
    assert env.is_chaining_of_operators_with_different_max_parallelism_enabled()
    assert env.is_changelog_state_backend_enabled() is None
    assert env.enable_changelog_state_backend(True).is_changelog_state_backend_enabled() is True
    assert env.get_default_savepoint_directory() is None
    assert env.set_default_savepoint_directory("s3://x").get_default_savepoint_directory() == "s3://x"
    assert env.get_checkpoint_interval() == -1
    assert env.get_checkpointing_mode() is CheckpointingMode.EXACTLY_ONCE
    assert not env.is_unaligned_checkpoints_enabled()
    assert not env.is_force_unaligned_checkpoints()


def test_configure_understands_flinks_options(env):
    configuration = Configuration()
    configuration.set_string("pipeline.operator-chaining", "false")
    configuration.set_string("execution.buffer-timeout", "1 min")
    configuration.set_string("execution.checkpointing.timeout", "12000")
    env.configure(configuration)
    assert not env.is_chaining_enabled()
    assert env.get_buffer_timeout() == 60000
    assert env.get_checkpoint_config().get_checkpoint_timeout() == 12000


def test_a_later_call_wins_over_an_older_spelling_of_the_option(env):
    env.configure(Configuration().set_string("execution.buffer-timeout", "1 min"))
    assert env.set_buffer_timeout(5).get_buffer_timeout() == 5


def test_a_program_may_have_options_of_its_own(caplog):
    env = get_execution_environment(Configuration().set_string("my.own.key", "2"))
    env.configure(Configuration().set_string("qqq", "1"))
    configuration = env.get_configuration()
    assert (configuration.get_string("my.own.key", ""), configuration.get_string("qqq", "")) == ("2", "1")
    assert not caplog.records


def test_a_misspelt_option_is_answered_with_a_guess(caplog):
    get_execution_environment(Configuration().set_string("paralelism.default", "2"))
    assert "unknown option 'paralelism.default'; did you mean 'parallelism.default'?" in caplog.text


@pytest.mark.parametrize(
    ("key", "hint"),
    [
        ("firesteel.chunk", "did you mean 'firesteel.chunk.records'?"),
        ("execution.foo", "docs/operations.md lists all of them"),
        ("execution.checkpointing.intervall", "did you mean 'execution.checkpointing.interval'?"),
        ("state.backend.tpye", "did you mean 'state.backend.type'?"),
    ],
)
def test_unknown_options_of_our_namespaces_are_refused(key, hint):
    with pytest.raises(InvalidOptionError, match=re.escape(f"unknown option '{key}'; {hint}")):
        get_execution_environment(Configuration().set_string(key, "2"))


def test_protection_that_is_not_there_is_refused_at_once():
    with pytest.raises(
        InvalidOptionError, match=r"option 'security.kerberos.login.keytab': .* call kinit before"
    ):
        get_execution_environment(Configuration().set_string("security.kerberos.login.keytab", "/keytab"))


def test_options_without_effect_stop_no_program_and_are_told_once(env, caplog, monkeypatch):
    monkeypatch.setattr("firesteel.datastream._not_yet._SAID", set())
    env.configure(Configuration.from_dict({"web.timeout": "1 s", "taskmanager.memory.process.size": "2g"}))
    env.get_config().set_task_cancellation_interval(7)
    for _ in range(2):
        env.from_collection([1]).print()
        with use_simulator():
            env.execute()
    told = [record.getMessage().split(":")[0] for record in caplog.records]
    assert told == [
        "option 'task.cancellation.interval' has no effect",
        "option 'taskmanager.memory.process.size' has no effect",
        "option 'web.timeout' has no effect",
    ]


def test_bad_values_are_refused_at_once():
    with pytest.raises(InvalidOptionError, match=r"parallelism\.default"):
        get_execution_environment(Configuration().set_string("parallelism.default", "many"))


@pytest.mark.parametrize("text", ["{", "[1]", '"x"'])
def test_bad_client_settings_are_refused(monkeypatch, text):
    monkeypatch.setenv(CLIENT_VARIABLE, text)
    with pytest.raises(InvalidOptionError, match="FIRESTEEL_CONFIG must hold a JSON object"):
        get_execution_environment()


def test_the_callers_configuration_is_not_changed():
    configuration = Configuration()
    get_execution_environment(configuration).set_parallelism(3)
    assert configuration.to_dict() == {}


def test_execution_config_and_environment_share_their_settings(env):
    env.get_config().set_parallelism(5).set_global_job_parameters({"a": 1})
    assert env.get_parallelism() == 5
    assert env.set_parallelism(6).get_config().get_parallelism() == 6
    assert env.from_sequence(1, 2).get_execution_config() is env.get_config()


def test_local_and_remote_environments():
    local = StreamExecutionEnvironment.create_local_environment(3)
    assert local.get_parallelism() == 3
    assert local.get_configuration().get_string("firesteel.spark.master", "") == "embedded"
    remote = StreamExecutionEnvironment.create_remote_environment("host", 7077)
    assert remote.get_configuration().get_string("firesteel.spark.master", "") == "spark://host:7077"
    whole = StreamExecutionEnvironment.create_remote_environment("local[4]")
    assert whole.get_configuration().get_string("firesteel.spark.master", "") == "local[4]"


def test_remote_environment_takes_python_files(tmp_path):
    module = tmp_path / "helpers.py"
    module.touch()
    env = StreamExecutionEnvironment.create_remote_environment("host", 7077, str(module))
    assert env.get_configuration().to_dict()["python.files"] == str(module)


# Files


def test_python_files_requirements_and_archives(env, tmp_path, monkeypatch):
    for name in ("a.py", "b.zip", "requirements.txt", "data.zip"):
        (tmp_path / name).touch()
    monkeypatch.chdir(tmp_path)
    env.add_python_file("a.py")
    env.add_python_file(str(tmp_path / "b.zip"))
    env.add_python_file("a.py")
    env.set_python_requirements("requirements.txt", str(tmp_path))
    env.add_python_archive("data.zip", "data")
    env.set_python_executable("/usr/bin/python3")
    found = env.get_configuration().to_dict()
    assert found["python.files"].split(";") == [f"{tmp_path}/a.py", f"{tmp_path}/b.zip"]
    assert found["python.requirements"] == f"{tmp_path}/requirements.txt#{tmp_path}"
    assert found["python.archives"] == f"{tmp_path}/data.zip#data"
    assert found["python.executable"] == "/usr/bin/python3"


def test_files_that_do_not_exist_are_refused(env):
    for add in (env.add_python_file, env.set_python_requirements, env.add_python_archive):
        with pytest.raises(ProgramError, match=r"there is no file /nowhere/x\.py"):
            add("/nowhere/x.py")


def test_cached_files_have_names(env, tmp_path):
    path = tmp_path / "model.bin"
    path.touch()
    env.register_cached_file(str(path), "model")
    env.register_cached_file(f"file://{path}", "model", executable=True)
    env.register_cached_file("s3://bucket/x", "remote")
    found = json.loads(env.get_configuration().get_string("pipeline.cached-files", ""))
    assert found == {"model": str(path), "remote": "s3://bucket/x"}
    with pytest.raises(ProgramError, match="'model' already stands for"):
        env.register_cached_file("s3://bucket/y", "model")


# Sources


def test_from_collection_is_a_source_of_one_subtask(env, node_of):
    stream = env.from_collection([1, 2, 3])
    node = node_of(stream)
    assert (node.name, node.parallelism, node.fixed_parallelism) == ("Collection Source", 1, True)
    assert node.spec.bounded
    assert node.spec.function.load().values == [1, 2, 3]
    assert node.spec.function.description == "collection of 3 elements"
    with pytest.raises(UnsupportedOperationError, match="'Collection Source' cannot be parallel"):
        stream.set_parallelism(2)
    stream.set_parallelism(1)


@pytest.mark.parametrize("collection", [(1, 2), iter([1, 2]), range(1, 3), {1: 0, 2: 0}])
def test_from_collection_takes_any_iterable(env, node_of, collection):
    assert node_of(env.from_collection(collection)).spec.function.load().values == [1, 2]


def test_from_collection_converts_to_the_type(env, node_of):
    stream = env.from_collection([("a", 1)], Types.ROW_NAMED(["k", "v"], [Types.STRING(), Types.INT()]))
    assert node_of(stream).spec.function.load().values == [Row(k="a", v=1)]
    short = env.from_collection([43878], type_info=Types.SHORT())
    assert node_of(short).spec.function.load().values == [-21658]


def test_from_collection_refuses_values_that_do_not_fit_at_once(env):
    with pytest.raises(TypeMismatchError, match="expected Integer, got 'x'"):
        env.from_collection([1, "x"], Types.INT())


def test_from_collection_refuses_what_is_no_collection(env):
    for bad in (5, "text", b"bytes"):
        with pytest.raises(TypeError, match=r"from_collection\(\) needs a list or another iterable"):
            env.from_collection(bad)


def test_from_elements(env, node_of):
    assert node_of(env.from_elements(1, 2)).spec.function.load().values == [1, 2]
    with pytest.raises(ProgramError, match="at least one element"):
        env.from_elements()


def test_from_source_knows_what_the_source_says(env, node_of):
    source = NumberSequenceSource(1, 10)
    stream = env.from_source(source, WatermarkStrategy.for_monotonous_timestamps(), "numbers", Types.LONG())
    node = node_of(stream)
    assert (node.name, node.parallelism, node.fixed_parallelism) == ("numbers", None, False)
    assert (node.spec.bounded, node.output_type) == (True, Types.LONG())
    assert node_of(env.generate_sequence(1, 3)).output_type == Types.LONG()


def test_from_source_takes_any_strategy_along(env, node_of):
    strategy = WatermarkStrategy.no_watermarks().with_timestamp_assigner(lambda value, _: value)
    shipped = node_of(env.from_source(NumberSequenceSource(1, 2), strategy, "numbers")).spec.strategy
    assert shipped.description.startswith("lambda")
    assert shipped.load().timestamp_function()(7, 0) == 7
    plain = env.from_source(NumberSequenceSource(1, 2), WatermarkStrategy.no_watermarks(), "numbers")
    assert node_of(plain).spec.strategy is None
    with pytest.raises(TypeError, match=r"from_source\(\) needs a WatermarkStrategy, got None"):
        env.from_source(NumberSequenceSource(1, 2), None, "numbers")


def test_from_source_and_add_source_do_not_mix(env):
    class Loop(SourceFunction):
        def run(self, ctx):
            pass

    with pytest.raises(TypeError, match=r"use add_source\(\)"):
        env.from_source(Loop(), WatermarkStrategy.no_watermarks(), "x")
    with pytest.raises(TypeError, match=r"use from_source\(\)"):
        env.add_source(NumberSequenceSource(1, 2))
    with pytest.raises(TypeError, match=r"add_source\(\) needs a SourceFunction"):
        env.add_source(lambda ctx: None)


def test_source_functions_run_once_or_in_parallel(env, node_of):
    class Once(SourceFunction):
        def run(self, ctx):
            pass

    class Parallel(ParallelSourceFunction):
        bounded = True

        def run(self, ctx):
            pass

    once, parallel = node_of(env.add_source(Once())), node_of(env.add_source(Parallel(), "p", Types.INT()))
    assert (once.name, once.parallelism, once.fixed_parallelism) == ("Once", 1, True)
    assert (parallel.name, parallel.parallelism, parallel.fixed_parallelism) == ("p", None, False)
    assert (once.spec.bounded, parallel.spec.bounded) == (False, True)
    assert parallel.output_type == Types.INT()


def test_text_files_sockets_and_generators(env, node_of, tmp_path):
    path = tmp_path / "lines.txt"
    path.write_text("a\n")
    assert node_of(env.read_text_file(str(path))).output_type == Types.STRING()
    socket = node_of(env.socket_text_stream("localhost", 9999))
    assert (socket.parallelism, socket.spec.bounded, socket.output_type) == (1, False, Types.STRING())
    assert not node_of(env.from_data_gen(lambda i: i)).spec.bounded
    assert node_of(env.from_data_gen(lambda i: i, count=5)).spec.bounded


# Execution


def test_execute_hands_over_graph_configuration_and_name(env):
    env.set_parallelism(2).set_runtime_mode(RuntimeExecutionMode.BATCH)
    env.from_sequence(1, 3).print()
    submission = submitted(env, lambda env: env.execute("my job"))
    assert submission.job_name == "my job"
    assert [node.name for node in submission.graph] == ["Sequence Source", "Print to Std. Out"]
    options = submission.configuration.to_dict()
    assert (options["parallelism.default"], options["execution.runtime-mode"]) == ("2", "BATCH")


def test_job_name_comes_from_the_option_when_execute_gives_none(env):
    env.configure(Configuration().set_string("pipeline.name", "named"))
    env.from_sequence(1, 3).print()
    assert submitted(env).job_name == "named"


def test_default_job_name_and_parallelism(env):
    env.from_sequence(1, 3).print()
    submission = submitted(env, lambda env: env.execute_async())
    assert submission.job_name == "Firesteel Streaming Job"
    assert submission.configuration.get_integer("parallelism.default", 0) == env.get_parallelism()


def test_what_was_executed_is_not_executed_again(env):
    numbers = env.from_sequence(1, 3)
    numbers.map(str).print()
    assert len(submitted(env).graph.nodes) == 3
    with pytest.raises(ProgramError, match="nothing to execute"):
        env.execute()
    numbers.print()
    assert len(submitted(env).graph.nodes) == 2


def test_executing_nothing_is_refused(env):
    with pytest.raises(ProgramError, match=r"there is nothing to execute: .*from_collection"):
        env.execute()


def test_one_subtask_collects_whatever_the_parallelism(env):
    env.set_parallelism(3)
    submission = submitted(
        env, lambda env: env.from_collection([1]).map(str).name("map").execute_and_collect("job")
    )
    assert [(node.name, node.parallelism) for node in submission.graph] == [
        ("Collection Source", 1),
        ("map", 3),
        ("Collect", 1),
    ]
    assert submission.job_name == "job"


@pytest.mark.parametrize("limit", [0, -1, "2"])
def test_collect_refuses_bad_limits(env, limit):
    with pytest.raises(TypeError, match="a limit of at least 1"):
        env.from_collection([1]).execute_and_collect(limit=limit)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("execution.state-recovery.claim-mode", "CLAIM"),
        ("python.profile.enabled", "true"),
    ],
)
def test_options_for_missing_features_are_refused_not_ignored(env, key, value):
    env.configure(Configuration().set_string(key, value))
    env.from_collection([1]).print()
    with pytest.raises(NotImplementedError, match=f"option '{key}': .* not part of this version"):
        env.execute()


def test_unaligned_checkpoints_are_a_hint_that_is_answered_with_a_warning(caplog):
    env = simulated_environment()
    env.get_checkpoint_config().enable_unaligned_checkpoints()
    env.from_collection([1]).print()
    env.execute()
    assert "checkpoints are aligned, with the same results" in caplog.text


def test_execution_plan_is_json_like_flinks(env):
    env.from_collection([1]).map(str).set_parallelism(2).print()
    nodes = json.loads(env.get_execution_plan())["nodes"]
    assert [node["type"] for node in nodes] == ["Source: Collection Source", "Map", "Sink: Print to Std. Out"]
    assert [node["parallelism"] for node in nodes][:2] == [1, 2]


# Flink 1.x


def test_names_of_flink_1_are_accepted(env):
    env.set_stream_time_characteristic(TimeCharacteristic.EventTime)
    assert env.get_stream_time_characteristic() is TimeCharacteristic.EventTime
    backend = HashMapStateBackend()
    assert env.set_state_backend(backend).get_state_backend() is backend
    env.set_restart_strategy(RestartStrategies.no_restart())
    assert env.get_restart_strategy() == RestartStrategies.no_restart()
    env.register_type("java.lang.Object")
    env.add_default_kryo_serializer("A", "B")
    env.close()


def test_restart_strategies_and_backends_become_options(env):
    env.set_restart_strategy(RestartStrategies.fixed_delay_restart(3, 1000))
    env.set_state_backend(EmbeddedRocksDBStateBackend(enable_incremental_checkpointing=True))
    chosen = env.get_configuration()
    assert chosen.get(options.RESTART_STRATEGY) == "fixed-delay"
    assert chosen.get(options.FIXED_DELAY_ATTEMPTS) == 3
    assert chosen.get(options.STATE_BACKEND) == "rocksdb"
    assert chosen.get(options.CHECKPOINTING_INCREMENTAL) is True
    env.set_state_backend(HashMapStateBackend())
    assert env.get_configuration().get(options.STATE_BACKEND) == "hashmap"


def test_a_backend_says_where_its_files_are_and_wins_over_the_configuration():
    env = get_execution_environment(
        Configuration.from_dict(
            {"state.backend.incremental": "true", "state.backend.rocksdb.localdir": "/elsewhere"}
        )
    )
    assert env.get_configuration().get(options.STATE_DISK_DIRS) == "/elsewhere"
    backend = EmbeddedRocksDBStateBackend(enable_incremental_checkpointing=False)
    env.set_state_backend(backend)
    backend.set_db_storage_paths("/fast", "file:///large/")
    env.from_elements(1).print()
    chosen = submitted(env).configuration
    assert chosen.get(options.STATE_DISK_DIRS) == "/fast,/large"
    assert chosen.get(options.CHECKPOINTING_INCREMENTAL) is False


def test_a_backend_without_opinion_leaves_increments_to_the_configuration():
    env = get_execution_environment(Configuration.from_dict({"state.backend.incremental": "true"}))
    env.set_state_backend(EmbeddedRocksDBStateBackend())
    assert env.get_configuration().get(options.CHECKPOINTING_INCREMENTAL) is True


def test_an_unknown_backend_is_refused_before_the_job_starts(env):
    env.configure(Configuration.from_dict({"state.backend": "redis"}))
    env.from_elements(1).print()
    with pytest.raises(
        InvalidOptionError, match=r"'state.backend.type' is 'redis', expected hashmap or disk"
    ):
        env.execute()


def test_older_names_of_options_are_understood():
    env = get_execution_environment(
        Configuration.from_dict(
            {
                "state.checkpoints.num-retained": "3",
                "state.checkpoint-storage": "jobmanager",
                "execution.savepoint-restore-mode": "NO_CLAIM",
            }
        )
    )
    chosen = env.get_configuration()
    assert chosen.get(options.CHECKPOINTING_NUM_RETAINED) == 3
    assert chosen.get(options.CHECKPOINTING_STORAGE) == "jobmanager"
    assert chosen.get(options.SAVEPOINT_CLAIM_MODE) == "NO_CLAIM"


class OwnBackend(StateBackend):
    """A backend of one's own with a setting."""

    def __init__(self, setting=None):
        self.setting = setting

    def open(self, context):
        return DictStore(context)


@pytest.mark.parametrize(
    "backend",
    [
        OwnBackend(3),
        CustomStateBackend(OwnBackend(3)),
        CustomStateBackend(OwnBackend),
        CustomStateBackend(DictStore),
    ],
    ids=["backend", "wrapped", "class of a backend", "class of a store"],
)
def test_a_backend_of_ones_own_travels_with_the_job_and_wins_over_the_configuration(backend):
    env = get_execution_environment(Configuration.from_dict({"state.backend": "rocksdb"}))
    assert env.set_state_backend(backend).get_state_backend() is backend
    env.from_elements(1).print()
    submission = submitted(env)
    assert submission.configuration.get(options.STATE_BACKEND).endswith(("OwnBackend", ":DictStore"))
    assert store_opener(submission.state_backend.load(), "test") is not None
    assert (
        "OwnBackend" in submission.state_backend.description
        or "DictStore" in submission.state_backend.description
    )


def test_the_backend_that_was_chosen_last_counts(env):
    env.set_state_backend(OwnBackend())
    env.configure(Configuration.from_dict({"state.backend.type": "disk"}))
    env.from_elements(1).print()
    assert submitted(env).state_backend is None
    env.set_state_backend(OwnBackend())
    env.set_state_backend(HashMapStateBackend())
    env.from_elements(1).print()
    submission = submitted(env)
    assert submission.state_backend is None
    assert submission.configuration.get(options.STATE_BACKEND) == "hashmap"


def test_a_backend_that_cannot_travel_is_refused_where_it_is_set(env):
    with pytest.raises(
        FunctionNotSerializableError, match=r"set_state_backend\(\) cannot ship class OwnBackend"
    ):
        env.set_state_backend(OwnBackend(threading.Lock()))
    assert env.get_state_backend() is None
    assert env.get_configuration().get(options.STATE_BACKEND) == "hashmap"


def test_a_backend_without_a_store_is_refused(env):
    class Nothing(StateBackend):
        pass

    with pytest.raises(ProgramError, match=r"Nothing is not a backend that Firesteel has; override open\(\)"):
        env.set_state_backend(Nothing())


def test_a_backend_that_the_configuration_names_is_looked_for_before_the_job_starts(env):
    env.configure(Configuration.from_dict({"state.backend.type": "firesteel.testing:NoSuchStore"}))
    env.from_elements(1).print()
    with pytest.raises(
        InvalidOptionError, match=r"'firesteel\.testing:NoSuchStore', expected 'module:attribute'"
    ):
        env.execute()


def test_backends_and_restart_strategies_of_other_kinds_are_refused(env):
    with pytest.raises(TypeError, match="backends written in Java cannot keep Python state"):
        env.set_state_backend(CustomStateBackend(object()))
    with pytest.raises(TypeError, match="needs one of RestartStrategies"):
        env.set_restart_strategy("fixed-delay")


def test_enabling_checkpoints_sets_interval_and_mode(env):
    assert env.get_checkpoint_interval() == -1
    assert env.enable_checkpointing(5000, CheckpointingMode.AT_LEAST_ONCE) is env
    assert env.get_checkpoint_interval() == 5000
    assert env.get_checkpointing_mode() is CheckpointingMode.AT_LEAST_ONCE
    assert env.enable_checkpointing(100).get_checkpointing_mode() is CheckpointingMode.AT_LEAST_ONCE
    with pytest.raises(ProgramError, match="at least 10 ms"):
        env.enable_checkpointing(5)


def test_a_choice_that_flink_has_dropped_is_accepted_with_a_warning(env):
    config = env.get_checkpoint_config()
    with pytest.warns(UserWarning, match=r"set_prefer_checkpoint_for_recovery\(\) has no effect"):
        assert config.set_prefer_checkpoint_for_recovery(True) is config


def test_time_characteristics_turn_periodic_watermarks_on_and_off(env):
    config = env.get_config()
    env.set_stream_time_characteristic(TimeCharacteristic.ProcessingTime)
    assert config.get_auto_watermark_interval() == 0
    env.set_stream_time_characteristic(TimeCharacteristic.IngestionTime)
    assert config.get_auto_watermark_interval() == 200
    config.set_auto_watermark_interval(50)
    env.set_stream_time_characteristic(TimeCharacteristic.EventTime)
    assert config.get_auto_watermark_interval() == 50
    with pytest.raises(TypeError, match="needs a TimeCharacteristic"):
        env.set_stream_time_characteristic("EventTime")


def test_slot_sharing_group_objects_are_registered(env, node_of):
    group = SlotSharingGroup.builder("heavy").set_cpu_cores(1).set_task_heap_memory_mb(10).build()
    assert node_of(env.from_sequence(1, 2).slot_sharing_group(group)).slot_sharing_group == "heavy"
    assert env._slot_sharing_groups == {"heavy": group}
