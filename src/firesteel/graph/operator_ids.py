"""Stable identity of an operator across runs and versions of a program; state is found by it.

An operator with a uid is identified by the uid alone. One without is identified by how it hangs in
the graph: what kind of operator it is and which operators it reads from. Names, functions,
parallelism and distributions may change without its state getting lost, and so may everything that
is not upstream of it. Operators that are alike in all this are told apart by their order.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping

from firesteel.graph.stream_graph import Node, StreamGraph

OPERATOR_ID_DIGITS = 32


def operator_ids(graph: StreamGraph) -> dict[int, str]:
    """For each node id the operator's id: 32 hexadecimal digits."""
    ids: dict[int, str] = {}
    alike: Counter[str] = Counter()
    for node in graph:
        structure = _structure(node, ids)
        ids[node.id] = _given_id(node) or _digest(f"{structure}#{alike[structure]}")
        # Counted for nodes with a uid too: giving one of two twins a uid leaves the other's id alone.
        alike[structure] += 1
    return ids


def id_of_uid(uid: str) -> str:
    """The operator id that a uid stands for."""
    return _digest(f"uid:{uid}")


def _given_id(node: Node) -> str | None:
    if node.uid_hash is not None:
        return node.uid_hash
    return None if node.uid is None else id_of_uid(node.uid)


def _structure(node: Node, ids: Mapping[int, str]) -> str:
    inputs = [f"{edge.input_index}:{ids[edge.source]}:{edge.side_output or ''}" for edge in node.inputs]
    return f"{type(node.spec).__name__}({','.join(inputs)})"


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=OPERATOR_ID_DIGITS // 2).hexdigest()
