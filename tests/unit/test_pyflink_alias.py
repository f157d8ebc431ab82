import importlib
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import firesteel
import firesteel.datastream
from firesteel import pyflink_alias
from firesteel.common import _missing_modules as missing_modules
from firesteel.common.errors import MissingModuleError


@pytest.fixture
def alias():
    pyflink_alias.install()
    yield pyflink_alias
    pyflink_alias.uninstall()


def run_python(*arguments, cwd=None):
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, cwd=cwd, timeout=600)


def test_modules_are_the_very_same(alias):
    import pyflink
    import pyflink.common
    import pyflink.datastream.functions
    from pyflink.common.typeinfo import Types
    from pyflink.datastream import StreamExecutionEnvironment

    assert pyflink is firesteel
    assert pyflink.datastream is firesteel.datastream
    assert StreamExecutionEnvironment is firesteel.datastream.StreamExecutionEnvironment
    assert Types is importlib.import_module("firesteel.common.typeinfo").Types


def test_modules_keep_their_own_identity(alias):
    module = importlib.import_module("pyflink.datastream.state")
    assert module.__name__ == "firesteel.datastream.state"
    assert module.__spec__.name == "firesteel.datastream.state"
    assert sys.modules["firesteel.datastream.state"] is module


def test_submodules_imported_from_their_package(alias):
    from pyflink.datastream import output_tag

    assert output_tag is sys.modules["firesteel.datastream.output_tag"]


def test_of_the_table_api_there_are_the_types_and_the_rest_is_missed_with_a_sentence(alias):
    from pyflink.table import DataTypes
    from pyflink.table.types import RowType

    assert isinstance(DataTypes.ROW([]), RowType)
    with pytest.raises(ModuleNotFoundError, match="the Table API and SQL are not part of Firesteel yet"):
        importlib.import_module("pyflink.table.expressions")
    with pytest.raises(ModuleNotFoundError, match="the Table API"):
        from pyflink.table import StreamTableEnvironment  # noqa: F401


def test_other_modules_are_missed_by_name(alias):
    with pytest.raises(
        ModuleNotFoundError, match=r"no module named 'pyflink.nothing': Firesteel does not have it"
    ):
        importlib.import_module("pyflink.nothing")


@pytest.mark.parametrize("package", ["firesteel", "pyflink"])
@pytest.mark.parametrize(
    ("module", "instead"),
    [
        (
            "datastream.connectors.dynamic_kafka",
            "no connector for .* yet; sources and sinks can be written in Python",
        ),
        (
            "datastream.connectors.pulsar",
            "no connector for Pulsar yet; its Python client and about a hundred lines",
        ),
        ("table.udf", "only their types"),
    ],
)
def test_missing_connectors_and_formats_are_missed_with_a_sentence(alias, package, module, instead):
    name = f"{package}.{module}"
    with pytest.raises(ModuleNotFoundError, match=f"no module named '{name}': .*{instead}") as caught:
        importlib.import_module(name)
    assert caught.value.name == name


def test_missing_connectors_imported_from_their_package_are_missed_in_the_same_way(alias):
    with pytest.raises(ModuleNotFoundError, match="no connector for Pulsar yet"):
        from pyflink.datastream.connectors import PulsarSource  # noqa: F401
    with pytest.raises(ImportError, match="cannot import name 'Kafkaesque'"):
        from firesteel.datastream.connectors import Kafkaesque  # noqa: F401
    assert not hasattr(firesteel.datastream.connectors, "Kafkaesque")


def test_what_is_missed_with_a_sentence_is_not_there():
    root = Path(firesteel.__file__).parent.parent
    places = {name: root.joinpath(*name.split(".")) for name in missing_modules.MODULES}
    there = [name for name, path in places.items() if path.exists() or path.with_suffix(".py").exists()]
    assert there == [], "its entry must go"


@pytest.mark.parametrize("name", sorted(missing_modules.MODULES))
def test_missing_modules_are_missed_with_a_sentence(name):
    with pytest.raises(MissingModuleError, match=re.escape(missing_modules.MODULES[name].reason)) as caught:
        importlib.import_module(name)
    assert caught.value.name == name
    assert isinstance(caught.value, ModuleNotFoundError), "so that programs can ask for it as for any module"


def test_modules_below_missing_ones_are_missed_with_the_same_sentence():
    with pytest.raises(MissingModuleError, match="Table API and SQL are not part of Firesteel yet"):
        importlib.import_module("firesteel.table.udf")


def test_modules_that_nobody_knows_are_missed_as_ever():
    with pytest.raises(ModuleNotFoundError, match=r"No module named 'firesteel\.nonsense'"):
        importlib.import_module("firesteel.nonsense")


@pytest.mark.parametrize(
    ("package", "name", "sentence"),
    [
        ("firesteel.datastream.connectors", "PulsarSource", "no connector for Pulsar yet"),
        ("firesteel.table", "StreamTableEnvironment", "the Table API and SQL are not part of Firesteel yet"),
    ],
)
def test_names_of_missing_modules_are_missed_with_their_sentence(package, name, sentence):
    with pytest.raises(MissingModuleError, match=sentence):
        getattr(importlib.import_module(package), name)


def test_other_packages_are_not_touched(alias):
    assert alias._finder.find_spec("json") is None


def test_installing_twice_is_installing_once(alias):
    alias.install()
    assert sys.meta_path.count(alias._finder) == 1
    assert alias.is_installed()


def test_uninstalled_alias_is_gone(alias):
    importlib.import_module("pyflink.common")
    alias.uninstall()
    assert not alias.is_installed()
    assert not [name for name in sys.modules if name.startswith("pyflink")]


def test_another_pyflink_that_was_imported_before_is_an_error(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyflink", object())
    with pytest.raises(ImportError, match="already been imported"):
        pyflink_alias.install()


def test_a_program_runs_as_main_with_its_arguments_and_directory(tmp_path):
    (tmp_path / "helper.py").write_text("VALUE = 42\n")
    job = tmp_path / "job.py"
    job.write_text(
        textwrap.dedent(
            """
            import sys
            import cloudpickle, pickle
            import helper
            from pyflink.datastream import MapFunction, StreamExecutionEnvironment

            class Add(MapFunction):
                def map(self, value):
                    return value + helper.VALUE

            def by_value(thing):
                return b"Add" in cloudpickle.dumps(thing) and thing.__class__.__module__ == "__main__"

            if __name__ == "__main__":
                env = StreamExecutionEnvironment.get_execution_environment()
                env.from_collection([1]).map(Add()).print()
                env.get_execution_plan()
                print(sys.argv[1:], by_value(Add()), sys.modules["__main__"].Add is Add)
            """
        )
    )
    result = run_python("-m", "firesteel.pyflink_alias", str(job), "--x", "1")
    assert result.stderr == ""
    assert result.stdout.strip() == "['--x', '1'] True True"


def test_a_missing_program_and_missing_arguments_are_explained():
    assert "there is no program" in run_python("-m", "firesteel.pyflink_alias", "/nowhere/job.py").stderr
    assert "usage:" in run_python("-m", "firesteel.pyflink_alias").stderr


def test_tasks_are_told_that_the_alias_is_installed(alias):
    env = firesteel.datastream.StreamExecutionEnvironment.get_execution_environment()
    assert env._job_configuration().get_string("firesteel.pyflink-alias", "") == "true"
    alias.uninstall()
    assert not env._job_configuration().contains_key("firesteel.pyflink-alias")
