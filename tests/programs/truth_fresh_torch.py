"""torch as pipelines use it: the same tables as truth_fresh.py."""

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset, IterableDataset, Sampler, Subset, TensorDataset

FLOW = {}
ABSENT = {}
NBYTES = {}


def flows(*pairs, absent=(), nbytes=None):
    def keep(function):
        FLOW[function.__name__] = {tuple(pair.split(">")) for pair in pairs}
        ABSENT[function.__name__] = {tuple(pair.split(">")) for pair in absent}
        NBYTES[function.__name__] = {tuple(pair.split(">")): size for pair, size in (nbytes or {}).items()}
        return function

    return keep


@flows("sqrt>from_numpy", "from_numpy>add_", "add_>exp", absent=["sqrt>exp"])
def shared_with_numpy(a):
    b = np.sqrt(a)
    torch.from_numpy(b).add_(1)
    return np.exp(b)


@flows("rand>numpy", "numpy>imul", "imul>exp", absent=["rand>exp"])
def numpy_writes_the_tensor(a):
    t = torch.rand(4)
    n = t.numpy()
    n *= 2
    return t.exp()


@flows("sqrt>tensor", "tensor>add_", "sqrt>exp", absent=["add_>exp"])
def tensor_copies(a):
    b = np.sqrt(a)
    t = torch.tensor(b)
    t.add_(1)
    return np.exp(b)


@flows("from_numpy>view", "view>permute", "permute>contiguous", "contiguous>sum")
def views(a):
    return torch.from_numpy(a).view(4, 4, 16).permute(2, 0, 1).contiguous().sum()


@flows("relu>getitem", "getitem>zero_", "zero_>exp", absent=["relu>exp"])
def slice_written(a):
    t = torch.relu(torch.from_numpy(a))
    t[0].zero_()
    return torch.exp(t)


@flows("relu>setitem", "setitem>exp", "ones>setitem")
def assigned(a):
    t = torch.relu(torch.from_numpy(a))
    t[1] = torch.ones(16)
    return torch.exp(t)


@flows("relu>clone", "clone>mul_", "relu>exp", absent=["mul_>exp"])
def clone_is_apart(a):
    t = torch.relu(torch.from_numpy(a))
    t.clone().mul_(3)
    return torch.exp(t)


@flows("relu>detach", "detach>mul_", "mul_>exp")
def detach_shares(a):
    t = torch.relu(torch.from_numpy(a))
    t.detach().mul_(3)
    return torch.exp(t)


@flows("empty>add", "ones>add", "add>exp")
def out_argument(a):
    out = torch.empty(4)
    torch.add(torch.ones(4), 1, out=out)
    return torch.exp(out)


# The second round overwrites what exp has read: exp>sqrt and sqrt>sqrt are carried.
@flows("empty>sqrt", "sqrt>exp", "exp>sum", "exp>sqrt", "sqrt>sqrt")
def out_used_in_a_loop(a):
    out, t = torch.empty(16, 16), torch.from_numpy(a)
    results = []
    for _ in range(3):
        torch.sqrt(t, out=out)
        results.append(torch.exp(out).sum())
    return results


@flows("relu>stack", "stack>cat", "cat>einsum", "einsum>mean")
def joined(a):
    t = torch.from_numpy(a)
    s = torch.stack([torch.relu(t) for _ in range(2)])
    return torch.einsum("bij->bj", torch.cat([s, s])).mean()


@flows("chunk>add", "add>exp", "relu>chunk")
def chunked(a):
    x, y = torch.relu(torch.from_numpy(a)).chunk(2)
    return (x + y).exp()


@flows("relu>max", "max>exp", "max>sum")
def values_and_indices(a):
    values, indices = torch.relu(torch.from_numpy(a)).max(dim=1)
    return values.exp(), indices.sum()


@flows("relu>max", "max>exp")
def named_results(a):
    r = torch.relu(torch.from_numpy(a)).max(dim=1)
    return torch.exp(r.values)


@flows("sum>item", "item>mul", "mul>exp")
def item(a):
    t = torch.from_numpy(a)
    return (t * t.sum().item()).exp()


@flows("relu>to", "to>cpu", "cpu>exp")
def device_and_dtype_stay(a):
    t = torch.relu(torch.from_numpy(a))
    t = t.to(torch.float32).cpu()
    return torch.exp(t)


@flows("relu>to", "to>exp", nbytes={"to>exp": 2048})
def converted(a):
    return torch.relu(torch.from_numpy(a)).to(torch.float64).exp()


@flows("softmax>log", "log>nll_loss", "tensor>nll_loss")
def functional(a):
    return F.nll_loss(torch.log(F.softmax(torch.from_numpy(a), dim=1)), torch.tensor([0] * 16))


@flows("from_numpy>getitem", "getitem>interpolate", "interpolate>pad", "pad>conv2d", "conv2d>mean")
def images(a):
    t = torch.from_numpy(a)[None, None]
    t = F.pad(F.interpolate(t, scale_factor=2), (1, 1, 1, 1))
    return F.conv2d(t, torch.ones(1, 1, 3, 3)).mean()


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(16, 8), nn.Linear(8, 2)

    def forward(self, x):
        return self.second(torch.relu(self.first(x)))


@flows("from_numpy>__call__", "__call__>relu", "relu>__call__", "__call__>softmax")
def network(a):
    return torch.softmax(Net()(torch.from_numpy(a)), dim=1)


@flows("from_numpy>__call__", "__call__>mean")
def sequential(a):
    model = nn.Sequential(nn.Linear(16, 8), nn.ReLU(), nn.Linear(8, 1))
    return model(torch.from_numpy(a)).mean()


@flows("mul>sum", "sum>backward", "ones>mul", "sum>item", absent=["backward>item", "backward>mul"])
def backward(a):
    w = torch.ones(3, requires_grad=True)
    loss = (w * 2).sum()
    loss.backward()
    return loss.item()


@flows("mul>sum", "sum>backward", "backward>exp")
def gradient_is_read(a):
    # backward writes .grad of the leaves; who reads it reads what backward made.
    w = torch.ones(3, requires_grad=True)
    (w * 2).sum().backward()
    return torch.exp(w.grad)


@flows("__call__>mse_loss", "mse_loss>backward", "mse_loss>item", absent=["backward>item", "step>item", "zero_grad>item"])
def training_step(a):
    model = nn.Linear(16, 1)
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for _ in range(3):
        optimiser.zero_grad()
        loss = F.mse_loss(model(torch.from_numpy(a)), torch.zeros(16, 1))
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    return losses


@flows("sum>grad", "grad>exp", "ones>grad")
def autograd_function(a):
    w = torch.ones(3, requires_grad=True)
    (g,) = torch.autograd.grad((w * 2).sum(), w)
    return torch.exp(g)


@flows("ones>mul_", "mul_>exp")
def no_grad_block(a):
    w = torch.ones(3, requires_grad=True)
    with torch.no_grad():
        w.mul_(2)
    return torch.exp(w)


@flows("relu>view", "view>exp", absent=["ones>exp"])
def storage_outlives_its_first_tensor(a):
    t = torch.relu(torch.from_numpy(a))
    v = t.view(-1)
    del t
    torch.ones(256)
    return torch.exp(v)


@flows("relu>view", "view>add_", "add_>exp", absent=["relu>exp"])
def two_views_and_no_base(a):
    t = torch.relu(torch.from_numpy(a))
    v, w = t.view(-1), t.view(256)
    del t
    v.add_(1)
    return torch.exp(w)


@flows("empty>normal_", "normal_>exp")
def initialised(a):
    w = torch.empty(3, 3)
    nn.init.normal_(w)
    return torch.exp(w)


@flows("zeros>index_add_", "index_add_>scatter_", "scatter_>exp")
def indexed_writes(a):
    t = torch.zeros(4)
    t.index_add_(0, torch.tensor([1]), torch.ones(1))
    t.scatter_(0, torch.tensor([2]), 5.0)
    return t.exp()


@flows("ones>copy_", "zeros>copy_", "copy_>exp")
def copied(a):
    t = torch.zeros(4)
    t.copy_(torch.ones(4))
    return torch.exp(t)


@flows("relu>getitem", "getitem>sort", "sort>getitem", "getitem>exp")
def sorted_and_indexed(a):
    t = torch.relu(torch.from_numpy(a))
    values, order = torch.sort(t[:, 0])
    return torch.exp(t[order])


# ---- loaders ---------------------------------------------------------------------------------------------------------


class Photos(Dataset):
    def __init__(self, a):
        self.items = [a + i for i in range(4)]

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        x = np.sqrt(self.items[i])
        return {"image": torch.from_numpy(x), "label": i}


@flows(
    "add>sqrt",
    "sqrt>from_numpy",
    "from_numpy>__next__",
    "__next__>mean",
    absent=["add>DataLoader", "DataLoader>mean", "add>__next__"],
)
def loader_of_dicts(a):
    return [batch["image"].mean() for batch in DataLoader(Photos(a), batch_size=2)]


def collate(items):
    return torch.stack([item["image"] for item in items])


@flows("sqrt>from_numpy", "from_numpy>stack", "stack>mean", absent=["from_numpy>mean"])
def loader_with_collate(a):
    return [batch.mean() for batch in DataLoader(Photos(a), batch_size=2, collate_fn=collate)]


class Stream(IterableDataset):
    def __init__(self, a):
        self.a = a

    def __iter__(self):
        for i in range(4):
            yield torch.from_numpy(np.sqrt(self.a + i))


@flows("add>sqrt", "sqrt>from_numpy", "from_numpy>__next__", "__next__>mean")
def loader_of_a_stream(a):
    return [batch.mean() for batch in DataLoader(Stream(a), batch_size=2)]


class Backwards(Sampler):
    def __init__(self, n):
        self.n = n

    def __iter__(self):
        return iter(range(self.n - 1, -1, -1))

    def __len__(self):
        return self.n


@flows("sqrt>from_numpy", "from_numpy>mean")
def loader_with_sampler(a):
    # Without batches the loader hands the very tensors on.
    photos = Photos(a)
    loader = DataLoader(Subset(photos, [0, 1, 2]), sampler=Backwards(3), batch_size=None)
    return [item["image"].mean() for item in loader]


@flows("relu>__next__", "__next__>mean", absent=["relu>TensorDataset", "TensorDataset>__next__"])
def loader_of_tensors(a):
    # The dataset only keeps its tensor; the loader takes rows of it.
    data = TensorDataset(torch.relu(torch.from_numpy(a)))
    return [batch.mean() for (batch,) in DataLoader(data, batch_size=4)]


@flows("__next__>__call__", "__next__>cross_entropy", "__call__>cross_entropy", "cross_entropy>backward", absent=["backward>__call__"])
def loader_and_training(a):
    data = TensorDataset(torch.from_numpy(a), torch.arange(16) % 2)
    model = nn.Linear(16, 2)
    optimiser = torch.optim.Adam(model.parameters())
    for x, y in DataLoader(data, batch_size=8, shuffle=True):
        loss = F.cross_entropy(model(x), y)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return loss


@flows("__next__>sub", "sub>truediv", "truediv>mean")
def batches_normalised(a):
    data = TensorDataset(torch.from_numpy(a))
    out = []
    for (x,) in DataLoader(data, batch_size=4):
        out.append(((x - 0.5) / 0.25).mean())
    return out
