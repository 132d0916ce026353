"""Lists the functions of PyTorch with which a use of it begins; loads with PyTorch, so it imports nothing.

A script may bind a function of a module under a name of its own before the first use, as with
`from torch.distributed import all_reduce`. So every function of a module that the adapter wraps is in the
list, and its wrapper goes on to the adapter's. Methods are found through their class: the list has those that
can come first.
"""

COLLECTIVES = (
    "all_gather",
    "all_gather_coalesced",
    "all_gather_into_tensor",
    "all_gather_object",
    "all_gather_single",
    "all_reduce",
    "all_reduce_coalesced",
    "all_to_all",
    "all_to_all_single",
    "barrier",
    "broadcast",
    "broadcast_object_list",
    "gather",
    "gather_object",
    "monitored_barrier",
    "recv",
    "reduce",
    "reduce_scatter",
    "reduce_scatter_single",
    "reduce_scatter_tensor",
    "scatter",
    "scatter_object_list",
    "send",
)
"""Collectives of `torch.distributed`."""
_CLIPPING = ("clip_grad_norm_", "clip_grad_value_", "clip_grads_with_norm_")
_DISTRIBUTED = ("torch.distributed", "torch.distributed.distributed_c10d")
USES = (
    ("torch.nn.modules.module", "Module", "__init__"),
    ("torch.nn.modules.module", "Module", "__setstate__"),
    ("torch.optim.optimizer", "Optimizer", "__init__"),
    ("torch.utils.data.dataloader", "DataLoader", "__init__"),
    ("torch.utils.data._utils.fetch", "_BaseDatasetFetcher", "__init__"),
    ("torch.profiler.profiler", "_KinetoProfile", "__init__"),
    ("torch.amp.autocast_mode", "autocast", "__init__"),
    ("torch", "Tensor", "to"),
    ("torch", "Tensor", "cuda"),
    ("torch", "", "compile"),
    ("torch", "", "load"),
    ("torch", "", "save"),
    ("torch.autograd", "", "backward"),
    ("torch.utils.data._utils.worker", "", "_worker_loop"),
    *((module, "", name) for module in ("torch.nn.utils", "torch.nn.utils.clip_grad") for name in _CLIPPING),
    *((module, "", name) for name in ("init_process_group", *COLLECTIVES) for module in _DISTRIBUTED),
)
"""Module, class (empty for a function of the module) and name of each function."""
MODULES = (
    "torch.distributed.checkpoint",
    "torch.distributed.fsdp",
    "torch.distributed._functional_collectives",
    "torch._dynamo.callback",
    "torch.export._trace",
    "safetensors.torch",
    "lightning.fabric.plugins.io.torch_io",
    "lightning_fabric.plugins.io.torch_io",
)
"""Modules beside those of `import torch` for which the adapter waits: their import is a use."""
