"""Every transform that can be made without arguments, on made-up pictures with masks and boxes; prints a hash."""
import hashlib
import inspect
import os
import sys
import warnings

os.environ["NO_ALBUMENTATIONS_UPDATE"] = "1"
import albumentations as A
import cv2
import numpy as np

ROUNDS = int(sys.argv[1]) if len(sys.argv) > 1 else 1
warnings.simplefilter("ignore")
cv2.setNumThreads(1)


def transforms():
    for name in sorted(dir(A)):
        kind = getattr(A, name)
        bases = (A.ImageOnlyTransform, A.DualTransform)
        if inspect.isclass(kind) and issubclass(kind, bases) and kind not in bases and name in kind.__name__:
            try:
                yield name, kind(p=1.0)
            except Exception as error:
                yield name, f"{type(error).__name__} {error}"


def once(number, made):
    rng = np.random.default_rng(number)
    image = rng.integers(0, 256, (96, 96, 3), dtype=np.uint8)
    mask = rng.integers(0, 3, (96, 96), dtype=np.uint8)
    for name, transform in made:
        if isinstance(transform, str):
            yield name, transform
            continue
        try:
            pipeline = A.Compose([transform], seed=number)
            done = pipeline(image=image.copy(), mask=mask.copy())
            yield name, [done["image"], done["mask"]]
        except Exception as error:
            yield name, f"{type(error).__name__} {error}"
    boxes = A.Compose([A.HorizontalFlip(p=1), A.RandomCrop(64, 64), A.Rotate(30, p=1), A.Resize(48, 48), A.Normalize()],
                      bbox_params=A.BboxParams("pascal_voc", label_fields=["labels"]), seed=number)
    done = boxes(image=image, bboxes=[[5, 6, 60, 70], [30, 20, 90, 80]], labels=[1, 2])
    yield "boxes", [done["image"], np.asarray(done["bboxes"]), np.asarray(done["labels"])]


total = hashlib.sha256()
made = list(transforms())
for number in range(ROUNDS):
    for name, result in once(number, made):
        if isinstance(result, str):
            total.update(f"{name} {result}".encode())
        else:
            for array in result:
                total.update(f"{name}{array.dtype}{array.shape}".encode() + np.ascontiguousarray(array).tobytes())
print(total.hexdigest(), len(made))
