"""Items in several threads: the same results and draws as one after the other, or taken back without a trace."""

import random
import sys
import textwrap

import numpy as np
import pytest

from codedag.autopilot.cover import Cover
from codedag.autopilot.ordered import Batch, Habit
from codedag.backends.same import same
from codedag.instrument.program import Program
from codedag.migrate import stands

HEAD = """
import math, os, random, threading, time
import numpy as np
"""
PLAIN = """
class Data:
    def __init__(self): self.images = [np.full((40, 30, 3), i, np.uint8) for i in range(64)]
    def __getitem__(self, i):
        image = self.images[i].astype(np.float32)
        if random.random() < 0.5:
            image = image[:, ::-1]
        image = image * np.random.uniform(0.8, 1.2) + i
        return image, i
"""


class Ran:
    """A program whose data set `Data` is fetched from in one thread, then in several."""

    def __init__(self, tmp_path, source):
        self.program = Program([tmp_path])
        path = tmp_path / "program.py"
        path.write_text(HEAD + textwrap.dedent(source))
        self.path = str(path)
        self.space = {"__name__": "program", "__file__": self.path}
        exec(self.program.load(self.path, path.read_bytes()), self.space)
        self.cover = Cover(self.program)
        self.data = self.space["Data"]()
        self.habit = Habit()
        self.why = self.cover.prepare({(self.path, "Data.__getitem__")})

    def ahead(self, indices, threads=3):
        """A batch that was run ahead, preparing what it asks for."""
        for _ in range(20):
            batch = Batch(self.data.__getitem__, indices, self.habit)
            if batch.run(threads) or not self.cover.wanted:
                return batch
            batch.take_back()
            self.why = self.why or self.cover.prepare(set(self.cover.wanted))
            self.cover.wanted.clear()
        raise AssertionError("it never had all it asked for")


def states():
    _, key, *rest = np.random.get_state()
    return random.getstate(), key.tolist(), rest


@pytest.fixture
def ran(tmp_path):
    made = []

    def make(source):
        made.append(Ran(tmp_path, source))
        return made[-1]

    random.seed(5)
    np.random.seed(5)
    yield make
    for each in made:
        each.program.restore()


def compare(ran, batches=6, threads=3):
    """Runs batches ahead and in order from the same states; the results and the states afterwards are the same."""
    assert not ran.why
    for number in range(batches):
        indices = [(7 * k + number) % 64 for k in range(16)]
        batch = ran.ahead(indices, threads)
        assert not batch.reason, batch.reason
        after = states()
        batch.take_back()
        plain = [ran.data[i] for i in indices]
        assert same(plain, batch.results)
        assert states() == after


def test_results_and_draws_are_those_of_the_order(ran):
    compare(ran(PLAIN))


def test_many_batches_with_the_turn_passed_on_early(ran):
    made = ran(PLAIN)
    compare(made, batches=20)
    assert any(made.habit.is_last(check) for check in made.habit.last)


def test_a_patch_of_ours_does_what_the_function_behind_it_does(ran):
    made = ran("""
    from math import sqrt
    class Data:
        def __getitem__(self, i): return sqrt(i) + random.random()
    """)
    compare(made)
    made.space["sqrt"] = stands.make(made.space["sqrt"])  # as while calls inside a library are counted
    compare(made)


def test_a_draw_once_in_a_hundred_items(ran):
    compare(
        ran("""
        class Data:
            def __getitem__(self, i):
                x = np.arange(100) * i
                y = x.sum() + random.random()
                if i % 37 == 5:
                    y += np.random.rand()
                return y
        """),
        batches=40,
    )


def test_a_draw_after_the_usual_last_one_is_taken_back(ran):
    made = ran("""
    class Data:
        rare = False
        def __getitem__(self, i):
            x = np.arange(1000) * random.random()
            if self.rare and i == 9:
                x = x + random.random()
            return x
    """)
    compare(made, batches=10)
    type(made.data).rare = True
    before = states()
    batch = made.ahead([1, 9, 3, 4])
    if batch.reason:
        assert "always the last draw" in batch.reason
        batch.take_back()
        assert states() == before
    compare(made, batches=10)  # it has learned


def test_own_generators_and_generators_per_item(ran):
    compare(
        ran("""
        class Data:
            def __init__(self): self.rng, self.py = np.random.default_rng(3), random.Random(4)
            def __getitem__(self, i):
                own = np.random.default_rng(i)
                return own.normal(size=4), self.rng.integers(0, 9, 3), self.py.uniform(0, 1), random.choice([1, 2, 3])
        """)
    )


def test_helpers_closures_and_classes_of_the_program(ran):
    compare(
        ran("""
        def scale(image, by): return image * by
        class Flip:
            def __init__(self, p): self.p = p
            def __call__(self, image): return image[::-1] if random.random() < self.p else image
        class Box:
            def __init__(self, x): self.x = x
            @property
            def area(self): return self.x * 2
            def __len__(self): return 3
        class Data:
            def __init__(self): self.steps = [Flip(0.5), lambda image: scale(image, 2)]
            def __getitem__(self, i):
                image = np.arange(12).reshape(4, 3) + i
                for step in self.steps:
                    image = step(image)
                box = Box(i)
                return image, box.area, [int(v) for v in image.ravel() if v > 3]
        """)
    )


def test_in_place_work_on_what_the_item_alone_holds(ran):
    compare(
        ran("""
        class Data:
            def __getitem__(self, i):
                image = np.ones((8, 8)) * i
                image -= 1
                image /= 2
                image[2:4] = 7
                found = []
                for k in range(3):
                    found.append(k * i)
                total = 0
                for place, one in enumerate(found):
                    total += one - place
                found.append(total)
                found += [a * b for a, b in zip(found, range(3))]
                counts = {}
                counts["a"] = len(found)
                return image, found, counts
        """)
    )


def test_parts_of_an_array_that_only_the_item_has_can_be_changed(ran):
    compare(
        ran("""
        class Data:
            def __init__(self):
                self.boxes = [np.arange(12.0).reshape(3, 4) + i for i in range(99)]
            def __getitem__(self, i):
                boxes = self.boxes[i].copy()
                boxes *= random.uniform(0.5, 2)
                boxes[:, [0, 2]] += i
                boxes[:, 1] -= 3
                boxes[i % 3] *= 2
                boxes[1:, i % 2 :] /= 4
                boxes[:, [0, 2]] = 320 - boxes[:, [2, 0]]
                boxes[0, 0] += random.random()
                table = {"a": 1, "b": 2.0}
                table["a"] += i
                return boxes, table
        """)
    )


def test_an_array_whose_part_somebody_has_is_not_changed(ran):
    made = ran("""
    class Data:
        def __init__(self):
            self.parts = []
        def __getitem__(self, i):
            noise = random.random()
            image = np.zeros(4)
            part = image[1:]
            image[2:] += noise
            return image, part
    """)
    batch = made.ahead(list(range(8)))
    batch.take_back()
    assert "others may hold" in batch.reason


@pytest.mark.parametrize(
    ("body", "word"),
    [
        ("self.seen = i", "self.seen"),
        ("self.count += 1", "self.count"),
        ("global total; total = i", "total"),
        ("\n            try: x = i\n            except: x = 0", "catches"),
        ("\n            try: x = i\n            finally: return 3", "finally"),
        ("import json", "imports"),
        ("del self.images[0]", "deletes"),
        ("x = f'{random.random()}'", "random.random"),
        ("assert random.random() > -1", "random.random"),
        ("\n            with self.lock: x = 1", "self.lock"),
    ],
)
def test_what_escapes_every_site_is_found_in_the_source(ran, body, word):
    made = ran(f"""
    class Data:
        def __getitem__(self, i):
            {body}
            return i
    """)
    assert word in made.why


@pytest.mark.parametrize(
    ("setup", "body", "word"),
    [
        ("self.cache = {}", "self.cache[i] = i", "others may hold"),
        ("self.cache = []", "self.cache.append(i)", "others may hold"),
        ("self.image = np.zeros(4)", "image = self.image; image += 1", "others may hold"),
        ("self.image = np.zeros(4)", "image = self.image[1:]; image += 1", "others may hold"),
        ("self.image = np.zeros(4)", "self.image[1:] += 1", "others may hold"),
        ("self.image = np.zeros(4)", "self.image[[0, 1]] += 1", "others may hold"),
        ("self.image = np.zeros(4)", "image = self.image; image[1:] += 1", "others may hold"),
        ("self.image = np.zeros(4)", "image = self.image; image[[0, i % 2]] += 1", "others may hold"),
        ("self.image = np.zeros(4)", "image = self.image[:3]; image[1:] += 1", "others may hold"),
        ("self.rows = [np.zeros(4)]", "self.rows[0] += 1", "others may hold"),
        ("self.rows = [np.zeros(4)]", "rows = list(self.rows); rows[0] += 1", "others may hold"),
        ("self.rows = [[1]]", "rows = list(self.rows); rows[0] += [i]", "others may hold"),
        ("self.rows = [np.zeros(4)]", "rows = list(self.rows); rows[0][1:] += 1", "others may hold"),
        ("self.it = iter(range(99))", "x = next(self.it)", ""),
        ("self.x = 1", "print(i)", "print"),
        ("self.lock = threading.Lock()", "self.lock.acquire()", ""),
        ("self.x = 1", "time.sleep(0)", ""),
        ("self.x = 1", "x = sorted([3, 1], key=lambda v: -v)", ""),
    ],
)
def test_what_others_could_notice_is_given_up_before_it_happens(ran, setup, body, word):
    made = ran(f"""
    class Data:
        def __init__(self):
            {setup}
        def __getitem__(self, i):
            noise = random.random()
            {body}
            return i, noise
    """)
    before = states()
    kept = repr({name: value for name, value in vars(made.data).items() if name != "it"})
    batch = made.ahead(list(range(8)))
    batch.take_back()
    assert batch.reason
    assert word in batch.reason
    assert states() == before
    assert repr({name: value for name, value in vars(made.data).items() if name != "it"}) == kept


@pytest.mark.parametrize("kind", ["KeyError", "SystemExit", "KeyboardInterrupt", "GeneratorExit", "BaseException"])
@pytest.mark.parametrize("place", [0, 2, 3])
def test_an_item_that_raises_is_taken_back_and_raises_in_order(ran, kind, place):
    made = ran(f"""
    class Data:
        def __getitem__(self, i):
            x = random.random()
            if i == 5: raise {kind}(i)
            return x
    """)
    before, indices = states(), [1, 2, 3, 4]
    indices[place] = 5
    batch = made.ahead(indices)
    assert kind in batch.reason
    batch.take_back()
    assert states() == before
    with pytest.raises(BaseException, match="5") as raised:
        [made.data[i] for i in indices]
    assert type(raised.value).__name__ == kind


def test_files_and_pictures_that_an_item_opens(ran, tmp_path):
    from PIL import Image

    for i in range(64):
        Image.fromarray(np.full((6, 5, 3), i, np.uint8)).save(tmp_path / f"{i}.png")
    made = ran(f"""
    from PIL import Image
    class Data:
        def __getitem__(self, i):
            path = os.path.join({str(tmp_path)!r}, str(i) + ".png")
            with open(path, "rb") as file:
                head = file.read(8)
            image = Image.open(path).convert("RGB")
            other = Image.open(path)
            other = other.resize((3, 3))
            return head, np.array(image), np.asarray(other), np.random.rand()
    """)
    compare(made)


def test_nothing_is_left_behind(ran):
    made = ran(PLAIN)
    code = type(made.data).__getitem__.__code__
    compare(made, 2)
    made.program.restore()
    assert type(made.data).__getitem__.__code__ is not code
    assert all(site.variant is None for site in made.program.files[made.path].sites)
    assert "codedag-items" not in {thread.name for thread in sys.modules["threading"].enumerate()}
