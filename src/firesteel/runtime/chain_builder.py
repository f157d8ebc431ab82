"""Makes the live chain of a subtask out of its plan: operators with their state, their contexts, and who hears them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from firesteel.common.typeinfo import TypeInformation, immutable_type
from firesteel.metrics._scopes import ScopeKind, SystemScope
from firesteel.plan.job_plan import JobPlan, OperatorPlan, VertexPlan
from firesteel.plan.metric_variables import operator_variables, subtask_variables, this_process
from firesteel.runtime.blame import RAISED_BY_USERS, Blame
from firesteel.runtime.key_reader import KeyReader
from firesteel.runtime.latency import Latencies
from firesteel.runtime.operator import Receiver
from firesteel.runtime.operator_chain import Branch, ChainLink, ChainOutput, OperatorSubtask
from firesteel.runtime.operator_factory import create_operator
from firesteel.runtime.operators.source import SourceOperator
from firesteel.runtime.router import Router
from firesteel.runtime.runtime_context import TaskRuntimeContext
from firesteel.runtime.services import TaskServices
from firesteel.runtime.settings import TaskSettings
from firesteel.runtime.state_figures import StateFigures
from firesteel.state.backends import create_backend
from firesteel.state.hashmap_backend import HashMapBackend
from firesteel.state.keyed_backend import KeyedBackend
from firesteel.state.operator_state import OperatorStateBackend

__all__ = ["ChainBuilder", "close_backends"]


class ChainBuilder:
    """Builds one chain, once; ``routers`` are those of the edges behind it, by edge."""

    def __init__(
        self,
        plan: JobPlan,
        vertex: VertexPlan,
        subtask: int,
        routers: Mapping[int, Router],
        services: TaskServices,
        settings: TaskSettings,
    ) -> None:
        self._plan = plan
        self._vertex = vertex
        self._subtask = subtask
        self._routers = routers
        self._services = services
        self._settings = settings
        self._backends: list[KeyedBackend] = []

    def build(self) -> list[OperatorSubtask]:
        """The operators in the order of the plan, with the head first."""
        operators = self._vertex.operators
        built: dict[int, OperatorSubtask] = {}
        try:
            for index in reversed(range(len(operators))):  # an output needs its consumers
                built[index] = self._build(operators[index], self._consumers(index, built))
        except BaseException as error:
            for failure in close_backends(self._backends):  # nobody else knows them yet
                error.add_note(f"closing state failed, too: {type(failure).__name__}: {failure}")
            raise
        return [built[index] for index in range(len(operators))]

    def _consumers(
        self, index: int, built: Mapping[int, OperatorSubtask]
    ) -> dict[str | None, list[Receiver]]:
        """Who hears an operator: by side output, with None for the main one."""
        consumers: dict[str | None, list[Receiver]] = {}
        for child, operator in enumerate(self._vertex.operators):
            if operator.parent == index:
                consumers.setdefault(operator.parent_tag, []).append(built[child].link)
        for edge in self._plan.edges_from(self._vertex.id):
            if edge.source_operator == index:
                consumers.setdefault(edge.side_output, []).append(self._routers[edge.id])
        return consumers

    def _build(
        self, operator: OperatorPlan, consumers: Mapping[str | None, list[Receiver]]
    ) -> OperatorSubtask:
        keyed_state = self._create_backend(operator)
        self._backends.append(keyed_state)
        operator_state = OperatorStateBackend(operator=operator.name)
        user_code = operator.spec.user_code
        description = "" if user_code is None else user_code.description
        blame = Blame(operator.name, self._subtask, self._vertex.parallelism, description)
        try:
            protects = not self._settings.object_reuse
            keys = [
                None if selector is None else KeyReader(selector, protects)
                for selector in operator.key_selectors
            ]
            key_functions = tuple(None if key is None else key.key_of for key in keys)
            live = create_operator(operator, key_functions, keyed_state, operator_state)
        except RAISED_BY_USERS as error:
            raise blame.error(error) from error
        output = self._create_output(operator, consumers, blame)
        link = ChainLink(operator.id, live, output, blame, keyed_state, keys, self._services.pace)
        context = self._create_context(operator, link, keyed_state)
        figures = StateFigures(keyed_state, context.system_metrics) if any(operator.key_selectors) else None
        return OperatorSubtask(operator, link, context, keyed_state, operator_state, figures)

    def _create_output(
        self, operator: OperatorPlan, consumers: Mapping[str | None, list[Receiver]], blame: Blame
    ) -> ChainOutput:
        def branch(type_info: TypeInformation | None, receivers: list[Receiver]) -> Branch:
            return Branch(
                None if type_info is None else type_info.batch_converter(),
                receivers,
                blame,
                protects=not self._settings.object_reuse,
                gives_immutable=immutable_type(type_info),
            )

        sides = {
            tag: branch(operator.side_types.get(tag), receivers)
            for tag, receivers in consumers.items()
            if tag is not None
        }
        return ChainOutput(branch(operator.output_type, consumers.get(None, [])), sides)

    def _create_context(
        self, operator: OperatorPlan, link: ChainLink, keyed_state: KeyedBackend
    ) -> TaskRuntimeContext:
        context = TaskRuntimeContext(
            operator.name,
            self._vertex,
            self._subtask,
            self._services,
            self._plan.job_parameters,
            keyed_state if any(operator.key_selectors) else None,
            self._scope_of(operator),
        )
        if not isinstance(link.operator, SourceOperator):
            context.metrics.gauge("currentInputWatermark", lambda: link.current_watermark)
        context.metrics.gauge("currentOutputWatermark", lambda: link.output.current_watermark)
        settings = self._settings
        if settings.latency_interval_seconds > 0:
            link.latencies = Latencies(
                context.system_metrics,
                settings.latency_granularity,
                settings.latency_history,
                self._services.now,
            )
        return context

    def _scope_of(self, operator: OperatorPlan) -> SystemScope:
        """Where the metrics of an operator belong."""
        place = subtask_variables(
            self._services.job_id, self._plan.name, self._vertex, self._subtask, self._services.attempt
        )
        variables = {**this_process(), **place, **operator_variables(operator)}
        return self._settings.scope_formats.scope(ScopeKind.OPERATOR, variables)

    def _create_backend(self, operator: OperatorPlan) -> KeyedBackend:
        if not any(operator.key_selectors):
            return HashMapBackend(self._services.now)
        return create_backend(
            self._settings.configuration,
            self._services.now,
            operator.name,
            self._subtask,
            self._plan.state_backend,
        )


def close_backends(backends: Iterable[KeyedBackend]) -> list[Exception]:
    """Close them all; returns what went wrong in that."""
    errors: list[Exception] = []
    for backend in backends:
        try:
            backend.close()
        except Exception as error:  # noqa: BLE001 - a store of the user's own may raise, too
            errors.append(error)
    return errors
