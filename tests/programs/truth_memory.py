"""Programs about memory and about rare kinds of data: FLOW as in truth.py, SIGNATURES = what went into an operation."""

import tempfile

import numpy as np
import torch
from numpy.lib.stride_tricks import as_strided, sliding_window_view
from PIL import Image

FLOW = {}
SIGNATURES = {}


def flows(*pairs, **signatures):
    def keep(function):
        FLOW[function.__name__] = {tuple(pair.split(">")) for pair in pairs}
        SIGNATURES[function.__name__] = signatures
        return function

    return keep


@flows("from_numpy>relu", "relu>numpy", "numpy>iadd", "iadd>sum")
def numpy_of_a_tensor_is_its_memory(a):
    t = torch.relu(torch.from_numpy(a))
    n = t.numpy()
    n += 1
    return t.sum()


@flows("ones>sum", "zeros>sum", sum="float32[2,3]")
def data_of_a_tensor_is_replaced(a):
    t = torch.ones(4)
    out = [t.sum()]
    other = torch.zeros(2, 3)
    t.data = other
    out.append(t.sum())
    return out


@flows("ones>unsqueeze_", "unsqueeze_>sum", sum="float32[1,3]")
def shape_changes_in_place(a):
    t = torch.ones(3)
    t.unsqueeze_(0)
    return t.sum()


def deeper(x, depth):
    return np.exp(np.sqrt(x)) if depth == 0 else still_deeper(x, depth - 1)


def still_deeper(x, depth):
    return deeper(x, depth)


@flows("sqrt>exp", "exp>tanh")
def deep_recursion(a):
    return np.tanh(deeper(a, 40))


@flows("sqrt>as_strided", "as_strided>imul", "imul>exp")
def strided_view_is_written(a):
    b = np.sqrt(a)
    v = as_strided(b, (2, 2), b.strides)
    v *= 0
    return np.exp(b)


@flows("sqrt>sliding_window_view", "sliding_window_view>exp")
def window_view(a):
    return np.exp(sliding_window_view(np.sqrt(a), 3, 0))


@flows("frombuffer>sqrt", "asarray>exp")
def bytes_as_arrays(a):
    raw = bytearray(32)
    return np.sqrt(np.frombuffer(raw, np.uint8)), np.exp(np.asarray(memoryview(a)))


@flows("memmap>setitem", "setitem>sqrt", sqrt="float32[4]")
def mapped_file(a):
    with tempfile.NamedTemporaryFile() as file:
        file.write(bytes(16))
        file.flush()
        m = np.memmap(file.name, np.float32, "r+")
        m[:] = 4
        return np.sqrt(m)


@flows("masked_greater>mean", mean="float32[16,16]")
def masked(a):
    return np.ma.masked_greater(a, 0.5).mean()


@flows("asmatrix>mul", mul="float32[16,16]")
def matrix(a):
    return np.asmatrix(a) * 2


@flows("gt>invert", "invert>any", any="bool[16,16]")
def booleans(a):
    return np.any(~(a > 0.5))


@flows("mul>absolute", absolute="complex64[16,16]")
def complex_numbers(a):
    return np.absolute(a * 1j)


@flows("array>getitem", "getitem>exp", getitem="[('f0', '<i4'), ('f1', '<f8')][2]")
def records(a):
    return np.exp(np.array([(1, 2.0), (3, 4.0)], "i4,f8")["f1"])


@flows("array>sum", sum="object[2]")
def objects(a):
    return np.sum(np.array([1, 2.5], object))


@flows("astype>sqrt", sqrt=">f4[16,16]")
def swapped_bytes(a):
    return np.sqrt(a.astype(">f4"))


@flows("array>sqrt", "sqrt>exp", sqrt="float64[]", exp="float64")
def without_dimensions(a):
    return np.exp(np.sqrt(np.array(2.0)))


@flows("mean>mul", "mul>exp", exp="float32")
def numpy_scalars(a):
    return np.exp(a.mean() * np.float32(2))


@flows("fromarray>resize", "resize>asarray", "asarray>sum", resize="Image", sum="uint8[4,8]")
def pictures(a):
    image = Image.fromarray((a * 200).astype(np.uint8)).resize((8, 4))
    return np.asarray(image).sum()


@flows("ones>mul", "mul>sum", "sum>backward", mul="float32[3]")
def gradients(a):
    t = torch.ones(3, requires_grad=True)
    (t * 2).sum().backward()
    return t.grad


@flows("eye>to_sparse", "to_sparse>matmul", "ones>matmul", matmul="float32[3,3],float32[3,2]")
def sparse(a):
    return torch.eye(3).to_sparse() @ torch.ones(3, 2)


@flows("ones>add_", "zeros>exp", add_="float32[3]")
def meta(a):
    t = torch.ones(3, device="meta")
    u = torch.zeros(3, device="meta")
    t.add_(1)
    return torch.exp(u)


@flows("sqrt>iadd", "iadd>cos", "sqrt>sin")
def read_before_written(a):
    b = np.sqrt(a)
    np.sin(b)
    b += 1
    return np.cos(b)


@flows("ones>sort", "sqrt>exp")
def raised_and_went_on(a):
    b = np.sqrt(a)
    for axis in (7, 8):
        try:
            np.sort(np.ones(3), axis=axis)
        except Exception:
            pass
    return np.exp(b)
