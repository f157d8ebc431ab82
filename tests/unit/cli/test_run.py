"""``firesteel run`` from outside: output, exit codes, errors, Ctrl-C, the background."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from firesteel.cli.main import main

Programs = Callable[..., str]
COMMAND = [sys.executable, "-m", "firesteel.cli.main", "run"]
JOB_ID = r"[0-9a-f]{32}"
#: A line of a log, with time, level and logger.
LOGGED = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} (?P<level>[A-Z]+) (?P<logger>[\w.]+): (?P<text>.*)"


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["run", *arguments])


def test_job_prints_to_standard_output(program: Programs) -> None:
    result = run(program("import engine; engine.execute('hello')"))
    assert (result.exit_code, result.stdout, result.stderr) == (0, "hello\n" * result.stdout.count("\n"), "")
    assert "hello" in result.stdout


def test_jobs_left_running_are_awaited(program: Programs) -> None:
    result = run(program("import engine; engine.submit('fail')"))
    assert result.exit_code == 1
    assert "ValueError: boom" in result.stderr


def test_error_that_the_program_has_dealt_with_is_not_shown_again(program: Programs) -> None:
    text = """
        import engine
        try:
            engine.execute("fail")
        except Exception:
            print("never mind")
        """
    result = run(program(text))
    assert (result.exit_code, result.stdout, result.stderr) == (0, "never mind\n", "")


def test_failed_job_shows_one_traceback_of_the_users_lines(program: Programs) -> None:
    script = program(
        """
        import engine

        def build():
            engine.execute("fail")

        build()
        """
    )
    result = run(script)
    assert result.exit_code == 1
    assert result.stderr.count("Traceback") == 1
    assert f'File "{script}", line 7, in <module>' in result.stderr
    assert f'File "{script}", line 5, in build' in result.stderr
    assert result.stderr.rstrip().endswith("UserCodeError: ValueError: boom\n  operator: Map\nuser's lines")
    for noise in ("runpy", "job_client.py", "direct cause", "click"):
        assert noise not in result.stderr


def test_feature_that_is_not_there_shows_the_users_line_only(program: Programs) -> None:
    script = program(
        """
        from firesteel.common import Configuration
        from firesteel.datastream._not_yet import refuse_unsupported_options

        refuse_unsupported_options(Configuration.from_dict({"python.profile.enabled": "true"}))
        """
    )
    result = run(script)
    assert result.exit_code == 1
    assert f'File "{script}", line 5, in <module>' in result.stderr
    assert "not_yet.py" not in result.stderr
    assert "not part of this version of Firesteel yet" in result.stderr.splitlines()[-1]


def test_unfinished_method_of_the_program_is_shown_with_its_lines(program: Programs) -> None:
    result = run(program("def later():\n    raise NotImplementedError\nlater()\n"))
    assert "line 2, in later" in result.stderr


def test_full_traceback_on_demand(program: Programs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FIRESTEEL_FULL_TRACEBACK", "1")
    result = run(program("import engine; engine.execute('fail')"))
    assert "job_client.py" in result.stderr
    assert "direct cause" in result.stderr


def test_error_of_the_program_itself_shows_its_lines(program: Programs) -> None:
    result = run(program("def f():\n    return 1 / 0\nf()\n"))
    assert result.exit_code == 1
    assert "in f\n" in result.stderr
    assert "runpy" not in result.stderr
    assert result.stderr.endswith("ZeroDivisionError: division by zero\n")


def test_program_that_is_no_python_shows_where(program: Programs) -> None:
    result = run(program("x = ("))
    assert result.exit_code == 1
    assert "job.py" in result.stderr
    assert "SyntaxError" in result.stderr
    assert "Traceback" not in result.stderr


def test_missing_program_is_one_line(tmp_path: Path) -> None:
    result = run(str(tmp_path / "none.py"))
    assert result.exit_code == 2
    assert "none.py" in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("code", [0, 3])
def test_exit_code_of_the_program_is_kept(program: Programs, code: int) -> None:
    assert run(program(f"raise SystemExit({code})")).exit_code == code


def test_states_are_shown_when_asked_for(program: Programs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FIRESTEEL_PROGRESS", "1")
    result = run(program("import engine; engine.execute('hello')"))
    assert re.fullmatch(
        rf"job hello \({JOB_ID}\) switched to RUNNING\njob hello \({JOB_ID}\) switched to FINISHED\n"
        r"  after .*\n",
        result.stderr,
    )


def test_no_progress_wins(program: Programs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FIRESTEEL_PROGRESS", "1")
    assert run("--no-progress", program("import engine; engine.execute('hello')")).stderr == ""


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
@pytest.mark.parametrize("how", ["engine.execute('wait')", "engine.submit('wait')"])
def test_interrupted_job_is_cancelled(program: Programs, number: int, code: int, how: str) -> None:
    command = [*COMMAND, "-p", "1", program(f"import engine; {how}")]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "waiting\n"
    process.send_signal(number)
    _, errors = process.communicate(timeout=600)
    assert re.fullmatch(rf"job wait \({JOB_ID}\) was cancelled\n", errors)
    assert process.returncode == code


@pytest.mark.parametrize(
    "how", ["engine.execute('deaf')", "engine.submit('deaf')", "engine.execute('deaf, not deployed')"]
)
def test_second_interrupt_does_not_wait(program: Programs, how: str) -> None:
    options = ["-D", "firesteel.cancel.grace=1 h", "-p", "1"]
    command = [*COMMAND, *options, program(f"import engine; {how}")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in ("waiting\n", "told to end\n"):
            assert process.stdout.readline() == line
            process.send_signal(signal.SIGINT)
        try:
            assert process.communicate(timeout=600)[1] == "interrupted\n"
        finally:
            process.kill()
    assert process.returncode == 130


def test_reader_that_goes_away_ends_the_job_quietly(program: Programs) -> None:
    command = [*COMMAND, "-p", "1", program("import engine; engine.execute('hello')")]
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, text=True, timeout=600, check=False)
    os.close(write)
    assert (done.returncode, done.stderr) == (1, "")


def test_log_file_takes_all_output(program: Programs, tmp_path: Path) -> None:
    log = tmp_path / "logs" / "out.log"
    text = "import engine, os; os.write(2, b'from below\\n'); engine.execute('hello')"
    done = subprocess.run(
        [*COMMAND, "-p", "1", "--log-file", str(log), program(text)],
        capture_output=True,
        timeout=600,
        check=True,
    )
    assert done.stdout + done.stderr == b""
    printed = [line for line in log.read_text().splitlines() if not re.match(LOGGED, line)]
    assert printed == ["from below", "hello", printed[-1]]
    assert printed[-1].startswith("  after "), "the summary, below the line of the last state"


# Mistakes.


def test_pyflink_program_without_the_option_gets_one_sentence(program: Programs) -> None:
    for statement in ("import pyflink", "from pyflink.datastream import StreamExecutionEnvironment"):
        result = run(program(f"import os\n{statement}\n"))
        assert (result.exit_code, result.stdout) == (1, "")
        assert result.stderr == (
            "job.py:2 imports pyflink, which is not installed: 'firesteel run --pyflink job.py' runs PyFlink programs "
            "with Firesteel in its place; or import firesteel instead\n"
        )


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (
            "env.fromElements(1)",
            "a StreamExecutionEnvironment has no 'fromElements': did you mean from_elements()?",
        ),
        (
            "env.from_collection([1]).withColumn('a')",
            "a DataStream has no 'withColumn': records are whole values",
        ),
        (
            "StreamExecutionEnvironment.getExecutionEnvironment()",
            "Did you mean: 'get_execution_environment'?",
        ),
        ("from firesteel.datastream import MapFuntion", "Did you mean: 'MapFunction'?"),
        ("enw.execute()", "NameError: name 'enw' is not defined. Did you mean: 'env'?"),
    ],
)
def test_names_that_do_not_exist_lead_to_those_that_do(program: Programs, line: str, said: str) -> None:
    text = "from firesteel.datastream import StreamExecutionEnvironment\n"
    text += "env = StreamExecutionEnvironment.get_execution_environment()\n"
    result = run(program(text + line))
    assert result.exit_code == 1
    assert said in result.stderr
    assert result.stderr.lower().count("did you mean") <= 1
    assert line in result.stderr  # the line of the program


# In the background.


def test_detached_job_is_announced_and_runs_on(program: Programs, tmp_path: Path) -> None:
    result = run(
        "-d", "-p", "1", program("import engine, sys; print(sys.argv[1:]); engine.execute('wait')"), "-d"
    )
    found = re.fullmatch(
        rf"Job has been submitted with JobID ({JOB_ID})\nProcess (\d+) runs it, with output to (.*)\.\n"
        rf"'firesteel cancel \1' cancels it\.\n",
        result.stdout,
    )
    assert found, result.output
    log = Path(found[3])
    assert log.parent == tmp_path / "home" / "logs"
    pid = int(found[2])
    os.kill(pid, signal.SIGTERM)
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 143
    lines = log.read_text().splitlines()
    assert lines[0] == "['-d']"
    assert "waiting" in lines, "what is printed stays as it is"
    messages = [each for line in lines if (each := re.fullmatch(LOGGED, line))]
    assert {(each["level"], each["text"]) for each in messages} >= {
        ("INFO", f"job wait ({found[1]}) switched to RUNNING"),
        ("INFO", f"job wait ({found[1]}) switched to CANCELED"),
        ("WARNING", f"job wait ({found[1]}) was cancelled"),
    }


def test_a_program_that_configures_logging_decides_itself(program: Programs, tmp_path: Path) -> None:
    log = tmp_path / "out.log"
    text = """
        import logging, warnings
        logging.getLogger("mine").warning("first")
        warnings.warn("old", DeprecationWarning, stacklevel=1)
        logging.basicConfig(format="MY %(message)s")
        logging.getLogger("mine").warning("second")
        """
    subprocess.run([*COMMAND, "--log-file", str(log), program(text)], timeout=600, check=True)
    lines = log.read_text().splitlines()
    first = re.fullmatch(LOGGED, lines[0])
    assert first is not None
    assert (first["level"], first["logger"], first["text"]) == ("WARNING", "mine", "first")
    assert lines[-1] == "MY second"
    assert any("DeprecationWarning: old" in line and re.match(LOGGED, line) for line in lines)


def test_logs_of_detached_programs_go_where_the_options_say(program: Programs, tmp_path: Path) -> None:
    result = run(
        "-d", "-D", f"env.log.dir={tmp_path / 'logs'}", program("print('nothing to do')", "quiet.py")
    )
    assert result.exit_code == 0
    (log,) = (tmp_path / "logs").glob("quiet-*.log")
    assert log.read_text() == "nothing to do\n"


def test_with_a_directory_for_logs_messages_are_in_its_files_and_warnings_in_both(
    program: Programs, tmp_path: Path
) -> None:
    log, logs = tmp_path / "out.log", tmp_path / "logs"
    text = """
        import engine, logging
        engine.execute('hello')
        logging.getLogger('mine').warning('look')
        """
    directory = f"env.log.dir={logs}"
    command = [*COMMAND, "-p", "1", "-D", directory, "--log-file", str(log), program(text)]
    subprocess.run(command, timeout=600, check=True)
    printed, warned = log.read_text().splitlines()
    assert printed == "hello"
    assert warned.endswith(" WARNING mine: look")
    (driver,) = logs.glob("firesteel-*-driver.log")
    lines = driver.read_text().splitlines()
    assert any("INFO firesteel.run: job" in line and "switched to FINISHED" in line for line in lines)
    assert lines[-1].endswith(" WARNING mine: look")
    (out,) = logs.glob("firesteel-*-executor-*.out")
    assert out.read_text() == "hello\n"


def test_detached_job_that_fails_shows_why(program: Programs) -> None:
    result = run("-d", "-p", "1", program("import engine; engine.execute('broken' + 1)"))
    assert result.exit_code == 1
    assert "TypeError" in result.stderr
    assert "the whole log: " in result.stderr


def test_detached_program_without_a_job_says_so(program: Programs, tmp_path: Path) -> None:
    log = tmp_path / "x.log"
    result = run("-d", "--log-file", str(log), program("print('nothing to do')"))
    assert result.exit_code == 0
    assert "ended without running a job" in result.stderr
    assert log.read_text() == "nothing to do\n"


def test_command_line_does_not_load_spark() -> None:
    program = "import sys, firesteel.cli.main; print([m for m in sys.modules if m.startswith(('pyspark', 'pyarrow'))])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
