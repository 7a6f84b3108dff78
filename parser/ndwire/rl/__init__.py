"""For people who train with what inference servers return: routed experts, log-probabilities, batches.

Nothing here talks to a server; ``examples/vllm`` shows a client that does.
"""

from ndwire.rl._collate import collate
from ndwire.rl._cpus import usable_cpus
from ndwire.rl._experts import EXPERT_DTYPES, canonical_experts, pack_routed_experts, smallest_experts
from ndwire.rl._logprobs import LOGPROB_FLOOR, LogprobColumns, logprob_columns
from ndwire.rl._trace import RoutedExpertTrace, TracedExperts

__all__ = [
    "EXPERT_DTYPES",
    "LOGPROB_FLOOR",
    "LogprobColumns",
    "RoutedExpertTrace",
    "TracedExperts",
    "canonical_experts",
    "collate",
    "logprob_columns",
    "pack_routed_experts",
    "smallest_experts",
    "usable_cpus",
]
