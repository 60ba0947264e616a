"""Items copied to their places while others are made: the batch is what torch's collate function gives."""

import pytest

torch = pytest.importorskip("torch")

from torch.utils.data import default_collate  # noqa: E402

from codedag.autopilot.stacking import SMALLEST, Stacking  # noqa: E402
from codedag.migrate.guard import Failed, attempt  # noqa: E402

SIDE = 80  # 3 x 80 x 80 floats are more than SMALLEST bytes


def image(number, side=SIDE, dtype=torch.float32):
    return (torch.arange(3 * side * side).reshape(3, side, side) + number).to(dtype)


def facts(value):
    """All that can be seen of a tensor."""
    storage = value.untyped_storage()
    return (
        type(value), value.dtype, value.shape, value.stride(), value.storage_offset(), storage.nbytes(),
        storage.resizable(), value.is_shared(), value.is_pinned(), value.requires_grad, value._version, value._base,
        value.is_leaf, value.numpy().tobytes(),
    )  # fmt: skip


def seen(value):
    if isinstance(value, torch.Tensor):
        return facts(value)
    if isinstance(value, dict):
        return {key: seen(one) for key, one in value.items()}
    return [seen(one) for one in value] if isinstance(value, list | tuple) else value


def batch(stacking, items, collate=default_collate):
    stacking.begin(collate, len(items))
    for number in reversed(range(len(items))):
        stacking.put(number, items[number])
    return attempt(stacking.collated, collate, items)


@pytest.mark.parametrize(
    "make",
    [
        lambda i: image(i),
        lambda i: (image(i), i),
        lambda i: [image(i), image(i, dtype=torch.uint8, side=200), f"name {i}"],
        lambda i: {"image": image(i), "box": torch.ones(4) * i, "more": (i, 0.5)},
        lambda i: (image(i, dtype=torch.float64), image(i)),
        lambda i: (image(i).transpose(0, 2).contiguous().transpose(0, 2), i),
        lambda i: (image(i).transpose(1, 2), image(i, dtype=torch.uint8, side=200).permute(2, 0, 1)),
        lambda i: (image(i).numpy(), i),
        lambda i: {"array": image(i, dtype=torch.float64).numpy(), "tensor": image(i)},
        lambda i: (image(i).permute(1, 2, 0).numpy(), image(i)),
    ],
    ids=[
        "a tensor",
        "with a label",
        "two in a list",
        "a dict",
        "two",
        "channels last",
        "turned",
        "an array",
        "an array and a tensor",
        "a turned array",
    ],
)
def test_a_batch_is_what_torch_makes(make):
    stacking = Stacking()
    assert batch(stacking, [make(i) for i in range(4)]) is None  # nothing is known yet
    for size in (4, 4, 3, 2):
        items = [make(i) for i in range(size)]
        (made,) = batch(stacking, items)
        expected = default_collate(items)
        assert seen(made) == seen(expected)
        assert type(made) is type(expected)


def test_two_batches_share_nothing():
    stacking = Stacking()
    batch(stacking, [image(i) for i in range(2)])
    (first,), (second,) = (batch(stacking, [image(i) for i in range(2)]) for _ in range(2))
    assert first.data_ptr() != second.data_ptr()


@pytest.mark.parametrize(
    "strange",
    [
        image(0, side=90),
        image(0).double(),
        image(0).requires_grad_(),
        torch.nn.Parameter(image(0), requires_grad=False),
        image(0).transpose(1, 2),
        image(0).transpose(0, 2).contiguous().transpose(0, 2),
        None,
        7,
    ],
    ids=["size", "dtype", "grad", "class", "turned", "channels last", "none", "number"],
)
def test_one_item_that_is_not_as_the_others_is_left_to_torch(strange):
    stacking = Stacking()
    for _ in range(2):
        batch(stacking, [(image(i), i) for i in range(4)])
    items = [(image(i), i) for i in range(3)] + [(strange, 3)]
    assert batch(stacking, items) is None


def test_other_collate_functions_are_never_replaced(monkeypatch):
    stacking = Stacking()
    for _ in range(3):
        assert batch(stacking, [image(i) for i in range(4)], collate=lambda items: items) is None
    batch(stacking, [image(i) for i in range(4)])
    table = torch.utils.data._utils.collate.default_collate_fn_map
    monkeypatch.setitem(table, torch.Tensor, lambda items, *, collate_fn_map=None: items)
    assert batch(stacking, [image(i) for i in range(4)]) is None


@pytest.mark.parametrize("step", [2, -1])
def test_arrays_and_tensors_with_gaps_are_left_to_torch(step):
    stacking = Stacking()
    for _ in range(3):
        items = [image(i, side=160)[:, :, ::2] if step > 0 else image(i).numpy()[::-1].copy()[:, ::2] for i in range(4)]
        assert batch(stacking, items) is None


def test_an_array_that_cannot_be_written_is_left_to_torch():
    stacking = Stacking()
    for _ in range(3):
        items = [image(i).numpy() for i in range(4)]
        for item in items:
            item.flags.writeable = False
        assert batch(stacking, items) is None


def test_items_of_other_lengths_raise_in_torch_alone():
    stacking = Stacking()
    for _ in range(2):
        batch(stacking, [(image(i), i) for i in range(4)])
    items = [(image(0), 0), (image(1), 1), (image(2),), (image(3), 3)]
    assert isinstance(batch(stacking, items), Failed)  # and then its own function is called
    with pytest.raises(RuntimeError):
        default_collate(items)


def test_small_tensors_are_not_worth_it():
    stacking = Stacking()
    side = int((SMALLEST / 12) ** 0.5) - 1
    for _ in range(3):
        assert batch(stacking, [image(i, side=side) for i in range(4)]) is None
