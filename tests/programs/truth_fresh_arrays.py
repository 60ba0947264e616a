"""numpy, scipy, cv2 and PIL as pipelines use them: the same tables as truth_fresh.py."""

import io

import cv2
import numpy as np
from PIL import Image, ImageDraw, ImageEnhance, ImageFilter, ImageOps
from scipy import fft, ndimage, signal

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


# ---- numpy -----------------------------------------------------------------------------------------------------------


@flows("sqrt>ravel", "ravel>reshape", "reshape>transpose", "transpose>exp")
def chain_of_views(a):
    return np.exp(np.sqrt(a).ravel().reshape(4, 64).transpose())


@flows("sqrt>getitem", "argsort>getitem", "getitem>exp", nbytes={"getitem>exp": 1024})
def fancy_index(a):
    b = np.sqrt(a)
    order = np.argsort(a.sum(axis=1))
    return np.exp(b[order])


@flows("sqrt>getitem", "getitem>iadd", "sqrt>exp", absent=["iadd>exp"])
def fancy_index_is_a_copy(a):
    b = np.sqrt(a)
    c = b[[0, 1]]
    c += 1
    return np.exp(b)


@flows("sqrt>getitem", "getitem>imul", "imul>exp", absent=["sqrt>exp"])
def in_place_on_a_slice(a):
    b = np.sqrt(a)
    c = b[2:4]
    c *= 2
    return np.exp(b)


@flows("sqrt>getitem", "getitem>iadd", "iadd>setitem", "setitem>exp")
def augmented_subscript(a):
    # b[0] += 1 reads b[0], adds in place and stores it back: three operations.
    b = np.sqrt(a)
    b[0] += 1
    return np.exp(b)


@flows("sqrt>setitem", "zeros>setitem", "setitem>exp")
def slice_assignment(a):
    out = np.zeros((16, 32), np.float32)
    out[:, :16] = np.sqrt(a)
    return np.exp(out)


@flows("sqrt>setitem", "gt>setitem", "sqrt>gt", "setitem>exp")
def masked_assignment(a):
    b = np.sqrt(a)
    b[b > 0.5] = 0
    return np.exp(b)


@flows("zeros>setitem", "setitem>setitem", "sqrt>setitem", "setitem>mean")
def filled_row_by_row(a):
    out = np.zeros((3, 16, 16))
    for i in range(3):
        out[i] = np.sqrt(a + i)
    return out.mean()


@flows("empty>add", "sqrt>add", "add>exp", "gt>add")
def out_and_where(a):
    b = np.sqrt(a)
    out = np.empty((16, 16), np.float32)
    np.add(b, 1, out=out, where=a > 0.5)
    return np.exp(out)


@flows("empty>sum", "sum>exp", "sqrt>sum")
def out_of_a_method(a):
    out = np.empty(16, np.float32)
    np.sqrt(a).sum(axis=0, out=out)
    return np.exp(out)


@flows("zeros>divmod", "ones>divmod", "divmod>exp", "divmod>cos")
def two_outputs(a):
    q, r = np.zeros((16, 16)), np.ones((16, 16))
    np.divmod(a, 0.3, out=(q, r))
    return np.exp(q), np.cos(r)


@flows(
    "empty_like>multiply", "empty_like>add", "multiply>add", "add>multiply", "add>add", "multiply>multiply", "add>exp"
)
def ping_pong(a):
    # What is overwritten counts as an input, as with every out=.
    x, y = np.empty_like(a), np.empty_like(a)
    np.multiply(a, 1, out=x)
    for _ in range(2):
        np.add(x, 1, out=y)
        np.multiply(y, 2, out=x)
    return np.exp(y)


@flows("sqrt>add", "arange>getitem", "getitem>add", "add>exp")
def broadcast(a):
    return np.exp(np.sqrt(a) + np.arange(16)[:, None])


@flows("sqrt>broadcast_to", "broadcast_to>sum")
def broadcast_view(a):
    return np.broadcast_to(np.sqrt(a), (3, 16, 16)).sum()


@flows("zeros>copyto", "sqrt>copyto", "copyto>exp", absent=["zeros>exp"])
def copied_to(a):
    out = np.zeros((16, 16), np.float32)
    np.copyto(out, np.sqrt(a))
    return np.exp(out)


@flows("sqrt>put", "put>place", "place>putmask", "putmask>fill_diagonal", "fill_diagonal>exp")
def writers_of_their_first_argument(a):
    b = np.sqrt(a)
    np.put(b, [0, 1], 3)
    np.place(b, a > 0.9, [1])
    np.putmask(b, a > 0.8, 2)
    np.fill_diagonal(b, 0)
    return np.exp(b)


@flows("sqrt>put_along_axis", "put_along_axis>exp", "argmax>put_along_axis")
def put_along(a):
    b = np.sqrt(a)
    np.put_along_axis(b, np.argmax(a, axis=1, keepdims=True), 9, axis=1)
    return np.exp(b)


@flows("sqrt>partition", "partition>sort", "sort>fill", "fill>exp")
def methods_in_place(a):
    b = np.sqrt(a)
    b.partition(3)
    b.sort()
    b.fill(1)
    return np.exp(b)


@flows("sqrt>at", "at>exp")
def ufunc_at(a):
    b = np.sqrt(a)
    np.add.at(b, [0, 0], 1)
    return np.exp(b)


@flows("sqrt>reduce", "reduce>outer", "outer>exp")
def methods_of_a_ufunc(a):
    return np.exp(np.multiply.outer(np.add.reduce(np.sqrt(a)), np.arange(3)))


@flows("sqrt>setflags", "sqrt>exp", absent=["setflags>exp"])
def flags_are_no_data(a):
    # Debatable whether setflags reads b at all; it writes no value.
    b = np.sqrt(a)
    b.setflags(write=False)
    return np.exp(b)


@flows("sqrt>einsum", "sin>einsum", "einsum>matmul", "matmul>trace")
def linear_algebra(a):
    return np.trace(np.einsum("ij,jk->ik", np.sqrt(a), np.sin(a)) @ a)


@flows("sqrt>pad", "pad>roll", "roll>flip", "flip>take", "take>exp")
def rearranged(a):
    return np.exp(np.take(np.flip(np.roll(np.pad(np.sqrt(a), 1), 2), 0), [1, 2], axis=0))


@flows("sqrt>meshgrid", "meshgrid>hypot", "hypot>exp")
def meshed(a):
    x, y = np.meshgrid(np.sqrt(a[0]), np.sqrt(a[1]))
    return np.exp(np.hypot(x, y))


@flows("sqrt>unique", "unique>exp", "unique>sum")
def unique_with_counts(a):
    values, counts = np.unique(np.sqrt(a), return_counts=True)
    return np.exp(values), counts.sum()


@flows("sqrt>histogram", "histogram>cumsum", "cumsum>exp")
def histogram(a):
    counts, _ = np.histogram(np.sqrt(a), bins=8)
    return np.exp(np.cumsum(counts))


@flows("zeros>getitem", "getitem>setitem", "setitem>getitem", "getitem>sum", "sqrt>setitem")
def structured_field(a):
    table = np.zeros(16, [("x", "f4"), ("y", "i4")])
    table["x"][:] = np.sqrt(a.mean(axis=0))
    return table["x"].sum()


@flows("masked_less>filled", "filled>exp", "sqrt>masked_less")
def masked_array(a):
    return np.exp(np.ma.masked_less(np.sqrt(a), 0.5).filled(0))


@flows("sqrt>setitem", "setitem>getitem", "getitem>exp", "sin>cos")
def array_of_objects(a):
    box = np.empty(2, object)
    box[0] = np.sqrt(a)
    other = [np.sin(a)]
    return np.exp(box[0]), np.cos(other[0])


@flows("sqrt>mul", "mul>add", "add>mul", "add>exp")
def exponential_average(a):
    mean = np.sqrt(a)
    for _ in range(3):
        mean = np.add(0.9 * mean, 0.1 * a)
    return np.exp(mean)


@flows("sqrt>isub", "mean>isub", "isub>itruediv", "std>itruediv", "sqrt>mean", "isub>std", "itruediv>exp")
def standardised_in_place(a):
    b = np.sqrt(a)
    b -= b.mean()
    b /= b.std()
    return np.exp(b)


@flows("sqrt>sin", "sin>exp", absent=["sqrt>exp"])
def memory_is_used_again(a):
    out = None
    for _ in range(30):
        b = np.sqrt(a)
        c = np.sin(b)
        del b
        out = np.exp(c)
    return out


@flows("zeros>iadd", "iadd>iadd", "sqrt>iadd", "iadd>truediv")
def accumulated_over_a_loop(a):
    total, count = np.zeros((16, 16)), 0
    for i in range(4):
        total += np.sqrt(a + i)
        count += 1
    return total / count


@flows("sqrt>exp", absent=["zeros>exp"])
def double_buffer(a):
    current, following = np.sqrt(a), np.zeros(3)
    for _ in range(2):
        out = np.exp(current)
        following = np.sqrt(a)
        current = following
    return out


@flows("sqrt>apply_along_axis", "apply_along_axis>exp")
def applied_along_an_axis(a):
    return np.exp(np.apply_along_axis(np.sort, 0, np.sqrt(a)))


@flows("sqrt>sort", "sort>exp", "sqrt>cos", absent=["sort>cos"])
def sort_function_copies(a):
    b = np.sqrt(a)
    c = np.sort(b)
    return np.exp(c), np.cos(b)


@flows("sqrt>asarray", "asarray>iadd", "iadd>exp")
def asarray_is_the_same(a):
    b = np.sqrt(a)
    c = np.asarray(b)
    c += 1
    return np.exp(b)


@flows("sqrt>ascontiguousarray", "ascontiguousarray>exp")
def contiguous(a):
    return np.exp(np.ascontiguousarray(np.sqrt(a).T))


@flows("sqrt>astype", "astype>view", "view>exp", nbytes={"astype>view": 512})
def reinterpreted(a):
    return np.exp(np.sqrt(a).astype(np.float16).view(np.int16))


@flows("sqrt>squeeze", "squeeze>expand_dims", "expand_dims>exp")
def axes(a):
    return np.exp(np.expand_dims(np.squeeze(np.sqrt(a)), 0))


@flows("sqrt>exp")
def real_part_attribute(a):
    return np.exp(np.sqrt(a).real)


@flows("fft2>exp", "sqrt>fft2")
def complex_transform(a):
    return np.exp(np.fft.fft2(np.sqrt(a)).imag)


# ---- scipy -----------------------------------------------------------------------------------------------------------


@flows("gaussian_filter>median_filter", "median_filter>zoom", "zoom>exp")
def scipy_images(a):
    return np.exp(ndimage.zoom(ndimage.median_filter(ndimage.gaussian_filter(a, 1.0), 3), 2))


@flows("empty_like>gaussian_filter", "gaussian_filter>exp")
def scipy_output(a):
    out = np.empty_like(a)
    ndimage.gaussian_filter(a, 1.0, output=out)
    return np.exp(out)


@flows("gt>label", "label>ravel", "ravel>bincount")
def scipy_label(a):
    labels, _ = ndimage.label(a > 0.5)
    return np.bincount(labels.ravel())


@flows("butter>lfilter", "lfilter>resample", "resample>exp")
def scipy_signals(a):
    b, c = signal.butter(2, 0.3)
    return np.exp(signal.resample(signal.lfilter(b, c, a), 8))


@flows("rfft>mul", "mul>irfft", "irfft>exp")
def scipy_fft(a):
    return np.exp(fft.irfft(fft.rfft(a) * 0.5))


# ---- cv2 -------------------------------------------------------------------------------------------------------------


def picture(a):
    return (np.dstack([a, a, a]) * 255).astype(np.uint8)


@flows("astype>resize", "resize>cvtColor", "cvtColor>warpAffine", "getRotationMatrix2D>warpAffine", "warpAffine>truediv")
def cv2_geometry(a):
    x = cv2.cvtColor(cv2.resize(picture(a), (8, 8)), cv2.COLOR_BGR2GRAY)
    return cv2.warpAffine(x, cv2.getRotationMatrix2D((4, 4), 30, 1), (8, 8)) / 255.0


@flows("astype>line", "line>circle", "circle>putText", "putText>mean")
def cv2_draws(a):
    image = picture(a)
    cv2.line(image, (0, 0), (3, 3), (255, 0, 0))
    cv2.circle(image, (8, 8), 3, (0, 255, 0))
    cv2.putText(image, "x", (1, 9), cv2.FONT_HERSHEY_PLAIN, 1, (0, 0, 255))
    return image.mean()


@flows("astype>GaussianBlur", "GaussianBlur>mean", "GaussianBlur>std")
def cv2_dst_is_its_source(a):
    image = picture(a)
    cv2.GaussianBlur(image, (3, 3), 0, dst=image)
    return image.mean(), image.std()


@flows("zeros>add", "astype>add", "add>mean")
def cv2_dst_by_position(a):
    image, out = picture(a), np.zeros((16, 16, 3), np.uint8)
    cv2.add(image, image, out)
    return out.mean()


@flows("astype>split", "split>equalizeHist", "equalizeHist>merge", "split>merge", "merge>mean")
def cv2_channels(a):
    blue, green, red = cv2.split(picture(a))
    return cv2.merge([cv2.equalizeHist(blue), green, red]).mean()


@flows("astype>imencode", "imencode>imdecode", "imdecode>mean")
def cv2_coded(a):
    _, coded = cv2.imencode(".png", picture(a))
    return cv2.imdecode(coded, cv2.IMREAD_COLOR).mean()


@flows("cvtColor>threshold", "threshold>findContours", "findContours>boundingRect")
def cv2_contours(a):
    _, mask = cv2.threshold(cv2.cvtColor(picture(a), cv2.COLOR_BGR2GRAY), 100, 255, 0)
    contours, _ = cv2.findContours(mask, cv2.RETR_LIST, cv2.CHAIN_APPROX_NONE)
    return [cv2.boundingRect(c) for c in contours]


# ---- PIL -------------------------------------------------------------------------------------------------------------


@flows("fromarray>convert", "convert>resize", "resize>rotate", "rotate>asarray", "asarray>mean")
def pil_chain(a):
    image = Image.fromarray(picture(a)).convert("L").resize((8, 8)).rotate(90)
    return np.asarray(image).mean()


@flows("open>convert", "convert>asarray", "asarray>mean", "fromarray>save", "save>open")
def pil_file(a):
    file = io.BytesIO()
    Image.fromarray(picture(a)).save(file, format="PNG")
    file.seek(0)
    return np.asarray(Image.open(file).convert("RGB")).mean()


@flows("fromarray>mirror", "mirror>autocontrast", "autocontrast>enhance", "enhance>array", "array>mean")
def pil_operations(a):
    # Debatable: Brightness(image) also averages its image; what it keeps is read by enhance, which makes the new one.
    image = ImageOps.autocontrast(ImageOps.mirror(Image.fromarray(picture(a))))
    return np.array(ImageEnhance.Brightness(image).enhance(1.5)).mean()


@flows("fromarray>filter", "filter>crop", "crop>array", "array>mean")
def pil_filter(a):
    image = Image.fromarray(picture(a)).filter(ImageFilter.BLUR).crop((0, 0, 8, 8))
    return np.array(image).mean()


@flows("fromarray>paste", "new>paste", "paste>asarray", "asarray>mean", absent=["new>asarray"])
def pil_paste(a):
    canvas = Image.new("RGB", (32, 32))
    canvas.paste(Image.fromarray(picture(a)), (4, 4))
    return np.asarray(canvas).mean()


@flows("fromarray>rectangle", "rectangle>line", "line>asarray", absent=["fromarray>asarray"])
def pil_draws(a):
    image = Image.fromarray(picture(a))
    draw = ImageDraw.Draw(image)
    draw.rectangle((1, 1, 4, 4), fill=(255, 0, 0))
    draw.line((0, 0, 9, 9))
    return np.asarray(image)


@flows("fromarray>split", "split>merge", "merge>asarray")
def pil_channels(a):
    r, g, b = Image.fromarray(picture(a)).split()
    return np.asarray(Image.merge("RGB", (b, g, r)))
