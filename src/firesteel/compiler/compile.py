"""Graph -> plan: the passes of the compiler, in order."""

from __future__ import annotations

from firesteel.common.configuration import Configuration
from firesteel.compiler.chaining import build_chains
from firesteel.compiler.linearize import edge_plans, lay_out_stages, stages_of, vertex_plans
from firesteel.compiler.settings import read_settings
from firesteel.compiler.steps import NOTHING_FIXED, Fixed, resolve_steps
from firesteel.compiler.validate import check_graph, check_selections, check_steps, choose_mode
from firesteel.graph.stream_graph import StreamGraph
from firesteel.plan.job_plan import JobPlan


def compile_job(
    graph: StreamGraph, configuration: Configuration, job_name: str, fixed: Fixed = NOTHING_FIXED
) -> JobPlan:
    """The plan that runs ``graph``; raises `ProgramError` when it cannot run.

    The same graph and configuration always give the same plan. ``fixed``: what was decided before; see `program_plans`.
    """
    settings = read_settings(configuration)
    # 1. Reject what means nothing.
    check_graph(graph, settings)
    mode = choose_mode(graph, settings)
    check_selections(graph, mode, configuration)
    # 2. Decide what the program left open, and reject what does not fit together.
    steps = resolve_steps(graph, settings, fixed)
    check_steps(steps)
    # 3. Neighbours that share a task become chains.
    chains = build_chains(steps, settings, fixed.heads)
    # 4. Chains are laid out in a line of stages.
    stages = stages_of(chains)
    stage_plans, first_tasks = lay_out_stages(chains, stages)
    return JobPlan(
        name=job_name,
        mode=mode,
        stages=stage_plans,
        vertices=vertex_plans(chains, stages, first_tasks),
        edges=edge_plans(chains),
        options=configuration.to_dict(),
        job_parameters=settings.job_parameters,
    )
