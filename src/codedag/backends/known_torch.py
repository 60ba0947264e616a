"""What torch's functions and tensor methods do, on the CPU and where no gradient is recorded."""

from __future__ import annotations

from typing import Any

from codedag.backends.known_table import Effect, Table

#: Bit-equal whatever the number of threads: each element by itself, with + - * / sqrt and comparisons only.
_EACH = (
    "abs absolute add bitwise_and bitwise_not bitwise_or bitwise_xor ceil clamp clip clamp_min clamp_max copysign "
    "div divide eq floor floor_divide fmax fmin fmod frac ge gt greater greater_equal heaviside isclose isfinite isinf "
    "isnan le less less_equal logical_and logical_not logical_or logical_xor lt masked_fill maximum minimum mul "
    "multiply ne neg negative not_equal reciprocal remainder rot90 round rsub sgn sign signbit sqrt square "
    "sub subtract true_divide trunc where lerp addcdiv addcmul nan_to_num"
)
_SHAPED = (
    "allclose all amax amin any argmax argmin argsort bincount block_diag bucketize cat clone combinations concat "
    "concatenate count_nonzero cummax cummin diag diag_embed diagflat diff dstack equal flip fliplr flipud gather "
    "hstack index_add index_copy index_fill index_select is_floating_point is_nonzero is_tensor isin kthvalue "
    "masked_select "
    "max median min mode nonzero numel one_hot quantile repeat_interleave roll scatter searchsorted sort stack take "
    "take_along_dim tile topk tril tril_indices triu triu_indices unique unique_consecutive vstack row_stack "
    "column_stack bernoulli_p histc"
)
_MAKES = (
    "arange eye full full_like linspace logspace ones ones_like scalar_tensor tensor zeros zeros_like hann_window "
    "hamming_window blackman_window bartlett_window kaiser_window cartesian_prod meshgrid complex"
)
#: The last bits may follow the number of threads: sums, and functions computed in blocks.
_SUMS = (
    "sum mean std var std_mean var_mean prod cumsum cumprod norm logsumexp softmax log_softmax matmul mm bmm mv dot "
    "addmm baddbmm tensordot outer inner trace det inverse dist cdist cross exp exp2 expm1 log log10 log1p log2 "
    "sin cos tan sinh cosh tanh asin acos atan atan2 sigmoid erf erfc erfinv rsqrt pow float_power relu logit "
    "nansum nanmean nanmedian cov corrcoef trapz trapezoid cumulative_trapezoid stft istft hypot angle deg2rad "
    "rad2deg logaddexp"
)
_VIEWS = (
    "positive "
    "as_tensor asarray from_numpy atleast_1d atleast_2d atleast_3d broadcast_tensors broadcast_to chunk detach "
    "diagonal "
    "expand_copy flatten movedim moveaxis narrow permute ravel real imag reshape select split squeeze swapaxes "
    "swapdims "
    "t tensor_split transpose unbind unflatten unsqueeze view_as_complex view_as_real hsplit vsplit dsplit meshgrid "
    "frombuffer "
    "cartesian_prod adjoint is_complex finfo iinfo"
)
_VIEW_METHODS = (
    "view view_as expand expand_as contiguous float double half int long short bool byte char bfloat16 to type "
    "type_as cpu "
    "numpy data_ptr unfold as_strided __array__ reshape_as is_contiguous stride storage_offset "
    "__getitem__ t T pin_memory resolve_conj resolve_neg positive"
)
_METHODS_ONLY = (
    "item tolist size dim nelement new_zeros new_ones new_full new_tensor repeat ndimension element_size __len__"
)
_INTO = (
    "abs_ add_ addcdiv_ addcmul_ bitwise_and_ bitwise_not_ bitwise_or_ bitwise_xor_ ceil_ clamp_ clip_ copy_ div_ "
    "divide_ eq_ exp_ expm1_ fill_ fill_diagonal_ floor_ floor_divide_ fmod_ frac_ ge_ gt_ index_add_ index_copy_ "
    "index_fill_ index_put_ le_ lerp_ log_ log10_ log1p_ log2_ logical_and_ logical_not_ logical_or_ lt_ "
    "masked_fill_ masked_scatter_ mul_ multiply_ nan_to_num_ ne_ neg_ pow_ reciprocal_ relu_ remainder_ round_ rsqrt_ "
    "scatter_ scatter_add_ sigmoid_ sign_ sin_ cos_ sqrt_ square_ sub_ subtract_ tanh_ tril_ triu_ true_divide_ trunc_ "
    "zero_ squeeze_ unsqueeze_ transpose_ t_ swapaxes_ __setitem__ put_"
)
_DRAWS = "rand randn randint randperm bernoulli normal multinomial poisson rand_like randn_like randint_like"
_DRAWS_INTO = "random_ uniform_ normal_ bernoulli_ exponential_ cauchy_ geometric_ log_normal_"
_FUNCTIONAL = (
    "interpolate pad one_hot normalize grid_sample affine_grid pixel_shuffle pixel_unshuffle unfold fold "
    "avg_pool1d avg_pool2d avg_pool3d adaptive_avg_pool1d adaptive_avg_pool2d max_pool1d max_pool2d max_pool3d "
    "adaptive_max_pool2d conv1d conv2d conv3d linear softmax log_softmax mse_loss l1_loss smooth_l1_loss "
    "cross_entropy nll_loss binary_cross_entropy binary_cross_entropy_with_logits cosine_similarity "
    "pairwise_distance layer_norm"
)
#: Their second positional argument may be `inplace`.
_ACTIVATIONS = "relu relu6 leaky_relu elu gelu silu sigmoid tanh softplus hardtanh hardswish"


def learn(table: Table, torch: Any) -> None:
    """Adds torch and torch.Tensor."""
    table.add_atoms((torch.dtype, torch.device, torch.layout, torch.memory_format, torch.Size))
    table.hold(torch.Tensor, _usual(torch))
    _functions(table, torch)
    _methods(table, torch.Tensor)
    _generators(table, torch)


def _usual(torch: Any) -> Any:
    """A check: a dense tensor on the CPU without gradient, while nobody stands between torch and its functions."""
    modes = getattr(torch._C, "_len_torch_function_stack", lambda: 0)

    def check(value: Any) -> bool:
        usual = not value.requires_grad and value.is_cpu and value.layout is torch.strided
        return bool(usual and not modes())

    return check


def _functions(table: Table, torch: Any) -> None:
    for names, sums in ((_EACH, False), (_SHAPED, False), (_MAKES, False), (_SUMS, True)):
        table.functions_of(torch, names, outs=("out",), by_threads=sums, declines=_device)
    table.functions_of(torch, _VIEWS, outs=(), fresh=False, declines=_device)
    table.functions_of(torch, "einsum", outs=(), fresh=False, by_threads=True)
    table.functions_of(torch, "empty empty_like", outs=("out",), deterministic=False, declines=_device)
    table.functions_of(torch, "Size device", outs=())


def _device(args: tuple[Any, ...], keywords: dict[str, Any]) -> str:
    given = keywords.get("device")
    return "" if given is None or str(given) == "cpu" else "it is for another device"


def _methods(table: Table, kind: type) -> None:
    for names, sums in ((_EACH, False), (_SHAPED, False), (_METHODS_ONLY, False), (_SUMS, True)):
        table.methods_of(kind, names, outs=(), by_threads=sums, declines=_device)
    table.methods_of(kind, f"{_VIEWS} {_VIEW_METHODS}", outs=(), fresh=False, declines=_other_device)
    table.methods_of(kind, "new_empty", outs=(), deterministic=False)
    table.methods_of(kind, _INTO, outs=(), into_self=True, fresh=False)


def _other_device(args: tuple[Any, ...], keywords: dict[str, Any]) -> str:
    """`to` and `type` may name a device, by a text or by a tensor that lies there."""
    given = (*args[1:], *keywords.values())
    return "it may go to another device" if any(type(each) is str and each != "cpu" for each in given) else ""


def _generators(table: Table, torch: Any) -> None:
    table.held[torch.Generator] = lambda value: type(value) is torch.Generator
    draws: dict[str, Any] = {"effect": Effect.DRAWS, "stream": _stream(torch), "declines": _device}
    table.functions_of(torch, _DRAWS, outs=("out",), **draws)
    table.methods_of(torch.Tensor, _DRAWS_INTO, outs=(), into_self=True, fresh=False, **draws)
    table.methods_of(torch.Tensor, "bernoulli multinomial", outs=(), **draws)


def _stream(torch: Any) -> Any:
    """A rule: the generator that is given by name, else torch's own."""

    def stream(owner: Any, keywords: dict[str, Any]) -> Any:
        given = keywords.get("generator")
        return torch.default_generator if given is None else given

    return stream


def learn_functional(table: Table, module: Any) -> None:
    """Adds torch.nn.functional without what draws (dropout) or keeps (batch_norm)."""
    facts: dict[str, Any] = {"outs": ("out",), "by_threads": True, "declines": _in_place, "fresh": False}
    table.functions_of(module, _FUNCTIONAL, **facts)
    table.functions_of(module, _ACTIVATIONS, most=1, **facts)


def _in_place(args: tuple[Any, ...], keywords: dict[str, Any]) -> str:
    return "it changes its input in place" if keywords.get("inplace") else ""


def learn_data(table: Table, module: Any) -> None:
    """Adds the functions that make batches of items."""
    table.functions_of(module, "default_collate", outs=(), fresh=_stacks)
    table.functions_of(module, "default_convert", outs=(), fresh=False)


def _stacks(args: tuple[Any, ...], keywords: dict[str, Any]) -> bool:
    """Texts are given back in the list in which they came."""
    return bool(args) and type(args[0]) is list and bool(args[0]) and type(args[0][0]) not in (str, bytes)
