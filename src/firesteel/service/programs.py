"""What somebody wants to be run, read from a request and put into the folder of a submission."""

from __future__ import annotations

import json
import shlex
import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from firesteel.common.configuration import Configuration
from firesteel.common.errors import InvalidOptionError
from firesteel.common.job_id import JobID
from firesteel.common.options import (
    JOB_ID,
    PARALLELISM_DEFAULT,
    PYTHON_ARCHIVES,
    PYTHON_FILES,
    PYTHON_REQUIREMENTS,
    SAVEPOINT_CLAIM_MODE,
    SAVEPOINT_IGNORE_UNCLAIMED,
    SAVEPOINT_PATH,
)
from firesteel.common.time import to_millis
from firesteel.rest.endpoints import Call, UploadedFile
from firesteel.rest.errors import Conflict, Malformed
from firesteel.service.artifacts import Artifact, checked_name, save
from firesteel.service.dispatcher import Dispatcher, Managed
from firesteel.service.folder import JobFolder
from firesteel.service.records import SubmittedProgram

__all__ = ["artifact_request", "submit_artifact", "submit_form"]

#: Fields of the request that comes with a form of files.
_FORM_FIELDS = {
    "script": str,
    "module": str,
    "arguments": list,
    "options": dict,
    "pythonFiles": list,
    "requirements": str,
    "requirementsCache": str,
    "archives": list,
    "pyflink": bool,
}
#: These name files, which travel with the program; on the service's machine other paths may mean anything.
_FILE_OPTIONS = (PYTHON_FILES.key, PYTHON_REQUIREMENTS.key, PYTHON_ARCHIVES.key)


# An artifact --------------------------------------------------------------------------------------------


def artifact_request(call: Call) -> dict[str, Any]:
    """What a request about an artifact says, in its body or, as Flink's older clients have it, in its query."""
    query, body = call.query, call.body
    arguments = body.get("programArgsList")
    if arguments is None:
        arguments = query.get("programArg") or _words(
            body.get("programArgs") or query.get("program-args") or ""
        )
    return {
        "entry": body.get("entryClass") or query.get("entry-class") or "",
        "arguments": tuple(arguments),
        "options": _options(
            {
                **body.get("flinkConfiguration", {}),
                PARALLELISM_DEFAULT.key: _parallelism(body.get("parallelism", query.get("parallelism"))),
                SAVEPOINT_PATH.key: body.get("savepointPath") or query.get("savepointPath"),
                SAVEPOINT_IGNORE_UNCLAIMED.key: body.get("allowNonRestoredState")
                or query.get("allowNonRestoredState") == "true"
                or None,
                SAVEPOINT_CLAIM_MODE.key: body.get("claimMode") or body.get("restoreMode"),
                JOB_ID.key: body.get("jobId"),
            }
        ),
    }


def _words(line: str) -> list[str]:
    try:
        return shlex.split(line)
    except ValueError as error:
        raise Malformed(f"the arguments of the program cannot be read: {error}") from None


def _parallelism(value: int | None) -> str | None:
    if value is None or value == -1:  # Flink's way to say: the default
        return None
    if value < 1:
        raise Malformed(f"parallelism: expected at least 1, got {value}")
    return str(value)


def _options(given: Mapping[str, Any]) -> dict[str, str]:
    options = {key: str(value) for key, value in given.items() if value is not None}
    try:
        configuration = Configuration.from_dict(options)
        configuration.get(PARALLELISM_DEFAULT)
        configuration.get(SAVEPOINT_IGNORE_UNCLAIMED)
    except InvalidOptionError as error:
        raise Malformed(str(error)) from None
    return options


def submit_artifact(dispatcher: Dispatcher, artifact: Artifact, request: Mapping[str, Any]) -> Managed:
    """Run an artifact, of which the submission gets a copy."""
    submission_id = _submission_id(request["options"])
    with _new_folder(dispatcher, submission_id) as folder:
        shutil.copyfile(artifact.path, folder.files / artifact.name)
        return dispatcher.submit(folder, submission_of(artifact, request, submission_id))


def submission_of(artifact: Artifact, request: Mapping[str, Any], submission_id: str) -> SubmittedProgram:
    """What is run when an artifact is."""
    entry = request["entry"]
    script: str | None = artifact.name
    module: str | None = None
    files: tuple[str, ...] = ()
    if artifact.path.suffix == ".py":
        if entry not in ("", Path(artifact.name).stem):
            raise Malformed(
                f"{artifact.name} is one module, {Path(artifact.name).stem!r}, and entry names {entry!r}"
            )
    else:
        files = (artifact.name,)
        if entry not in ("", "__main__"):
            script, module = None, entry
        elif not artifact.entries:
            raise Malformed(
                f"{artifact.name} has no __main__.py, so the module that is to be run has to be named: entryClass"
            )
    name = Path(artifact.name).stem if module is None else module
    return SubmittedProgram(
        submission_id,
        to_millis(time.time()),
        name,
        script,
        module,
        request["arguments"],
        request["options"],
        files,
    )


# A form with files --------------------------------------------------------------------------------------


def submit_form(dispatcher: Dispatcher, call: Call) -> Managed:
    """Run a program that comes with everything that belongs to it: a part ``request``, and files that it names."""
    request = _form_request(call)
    names = [checked_name(each.name) for each in call.files]
    if len(set(names)) != len(names):
        raise Malformed("two files of the form have the same name")
    options = _options(request.get("options", {}))
    submission_id = _submission_id(options)
    submission = SubmittedProgram(
        submission_id,
        to_millis(time.time()),
        request.get("module") or Path(request.get("script", "")).stem,
        _there(request.get("script"), names),
        request.get("module"),
        tuple(map(str, request.get("arguments", ()))),
        options,
        tuple(_there(name, names) for name in request.get("pythonFiles", ())),
        _there(request.get("requirements"), names),
        _there(request.get("requirementsCache"), names),
        tuple(_archive(name, names) for name in request.get("archives", ())),
        request.get("pyflink", False),
    )
    if (submission.script is None) == (submission.module is None):
        raise Malformed("the request names either a 'script', which is one of the files, or a 'module'")
    with _new_folder(dispatcher, submission_id) as folder:
        _save_all(call.files, folder)
        return dispatcher.submit(folder, submission)


def _form_request(call: Call) -> dict[str, Any]:
    try:
        request = json.loads(call.body.get("request", ""))
    except ValueError as error:
        raise Malformed(f"the form's field 'request' is not JSON: {error}") from None
    if not isinstance(request, dict):
        raise Malformed(f"the form's field 'request' is no object: expected {', '.join(_FORM_FIELDS)}")
    request = {name: value for name, value in request.items() if value is not None}
    for name, value in request.items():
        if name not in _FORM_FIELDS:
            raise Malformed(f"the request has a field {name[:100]!r}; expected {', '.join(_FORM_FIELDS)}")
        if not isinstance(value, _FORM_FIELDS[name]):
            raise Malformed(
                f"the request's field {name!r}: expected {_FORM_FIELDS[name].__name__}, got {value!r:.100}"
            )
    for key in _FILE_OPTIONS:
        if key in request.get("options", {}):
            raise Malformed(f"option '{key}': files travel with the program, as parts of the form")
    return request


def _there(name: str | None, names: list[str]) -> Any:
    if name is not None and name not in names:
        raise Malformed(f"the request names a file {str(name)[:100]!r}, which is not in the form")
    return name


def _archive(text: Any, names: list[str]) -> str:
    """``name#directory``: where it is unpacked."""
    _there(str(text).partition("#")[0], names)
    return str(text)


def _save_all(files: tuple[UploadedFile, ...], folder: JobFolder) -> None:
    for each in files:
        save(each.content, folder.files / checked_name(each.name))


# Both ---------------------------------------------------------------------------------------------------


def _submission_id(options: Mapping[str, str]) -> str:
    given = options.get(JOB_ID.key)
    if given is None:
        return Dispatcher.new_id()
    try:
        return str(JobID(given))
    except ValueError as error:
        raise Malformed(f"jobId: {error}") from None


def _new_folder(dispatcher: Dispatcher, submission_id: str) -> Any:
    old = dispatcher.folder.job(submission_id)
    if old.path.exists():
        if old.end() is None:
            raise Conflict(f"a job {submission_id} was submitted before, and is not over")
        # As often as somebody wants: the newest run is the one that is shown.
        shutil.rmtree(old.path)
        dispatcher.archive.forget(submission_id)
    return dispatcher.folder.new_job(submission_id)
