/* Tensors without asking them.  Part of gather_values.c. */

/* The fields of a tensor are no interface: they are found by what torch says of some samples, and read only if all agree
 * and the tensor is of the plain kind (its first word says so).  Reading them runs no code, so that nothing is added to
 * what torch is tracing, compiling or transforming meanwhile. */
static enum { UNKNOWN, FOUND, HIDDEN } tensors = UNKNOWN;
static struct { size_t impl, storage, offset, sizes, dtype, data; uintptr_t plain; } at;

#define IMPL_NBYTES 192     /* a tensor of torch 2 has more */
#define STORAGE_NBYTES 64
#define INLINE_EXTENTS 5    /* more of them are kept elsewhere */
#define WORD(address, offset) (*(const uintptr_t *)((uintptr_t)(address) + (offset)))
enum { S_TENSOR, S_IMPL, S_STORAGE, S_DATA, S_OFFSET, S_SHAPE, S_DTYPE, S_ALL };

static PyObject *part_of(PyObject *samples, Py_ssize_t i, int which) { return PyTuple_GET_ITEM(PyList_GET_ITEM(samples, i), which); }
static uintptr_t number_of(PyObject *samples, Py_ssize_t i, int which) { return (uintptr_t)PyLong_AsVoidPtr(part_of(samples, i, which)); }

/* The place of a word, from what each sample's address is to what it should hold. */
static int find_word(PyObject *samples, int from, int what, size_t first, size_t end, size_t *place) {
    for (size_t k = first; k + 8 <= end; k += 8) {
        int good = 1;
        for (Py_ssize_t i = 0; good && i < PyList_GET_SIZE(samples); i++) {
            uintptr_t base = from == S_TENSOR ? (uintptr_t)part_of(samples, i, S_TENSOR) : number_of(samples, i, from);
            good = WORD(base, k) == number_of(samples, i, what);
        }
        if (good) { *place = k; return 1; }
    }
    return 0;
}

static const int64_t *extents_of(uintptr_t impl, size_t ndim) {
    return ndim > INLINE_EXTENTS ? (const int64_t *)WORD(impl, at.sizes + 8) : (const int64_t *)(impl + at.sizes + 8);
}

static int find_sizes(PyObject *samples) {
    for (at.sizes = 16; at.sizes + 8 * (INLINE_EXTENTS + 1) <= IMPL_NBYTES; at.sizes += 8) {
        int good = 1;
        for (Py_ssize_t i = 0; good && i < PyList_GET_SIZE(samples); i++) {
            uintptr_t impl = number_of(samples, i, S_IMPL);
            PyObject *shape = part_of(samples, i, S_SHAPE);
            good = WORD(impl, at.sizes) == (uintptr_t)PyTuple_GET_SIZE(shape);
            for (Py_ssize_t d = 0; good && d < PyTuple_GET_SIZE(shape); d++) /* six extents are looked up where the word leads */
                good = extents_of(impl, (size_t)PyTuple_GET_SIZE(shape))[d] == PyLong_AsLongLong(PyTuple_GET_ITEM(shape, d));
        }
        if (good) return 1;
    }
    return 0;
}

static uint16_t dtype_number(uintptr_t impl) { return *(const uint16_t *)(impl + at.dtype); }

static int find_dtype(PyObject *samples) { /* equal for tensors of one type, different for those of two */
    for (at.dtype = 16; at.dtype + 2 <= IMPL_NBYTES; at.dtype += 2) {
        int good = 1;
        for (Py_ssize_t i = 0; good && i < PyList_GET_SIZE(samples); i++)
            for (Py_ssize_t j = 0; good && j < i; j++)
                good = (part_of(samples, i, S_DTYPE) == part_of(samples, j, S_DTYPE)) ==
                       (dtype_number(number_of(samples, i, S_IMPL)) == dtype_number(number_of(samples, j, S_IMPL)));
        if (good) return 1;
    }
    return 0;
}

static int is_told(PyObject *samples) {
    if (!PyList_Check(samples)) return 0;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(samples); i++) {
        PyObject *each = PyList_GET_ITEM(samples, i);
        if (!PyTuple_Check(each) || PyTuple_GET_SIZE(each) != S_ALL || !PyTuple_Check(PyTuple_GET_ITEM(each, S_SHAPE))) return 0;
    }
    return 1;
}

static int find_fields(PyObject *samples) {
    size_t end = (size_t)Py_TYPE(part_of(samples, 0, S_TENSOR))->tp_basicsize;
    if (!find_word(samples, S_TENSOR, S_IMPL, sizeof(PyObject), end < 64 ? end : 64, &at.impl) ||
        !find_word(samples, S_IMPL, S_STORAGE, 8, IMPL_NBYTES, &at.storage) ||
        !find_word(samples, S_IMPL, S_OFFSET, 8, IMPL_NBYTES, &at.offset) ||
        !find_word(samples, S_STORAGE, S_DATA, 8, STORAGE_NBYTES, &at.data) || !find_sizes(samples) || !find_dtype(samples)) return 0;
    at.plain = WORD(number_of(samples, 0, S_IMPL), 0);
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(samples); i++)
        if (WORD(number_of(samples, i, S_IMPL), 0) != at.plain) return 0;
    return 1;
}

static int check_tensors(Gatherer *g) {
    PyObject *samples = PyObject_CallNoArgs(g->tensor_samples);
    if (!samples && refused() < 0) return -1;
    if (!samples || !is_told(samples)) tensors = HIDDEN;
    else if (PyList_GET_SIZE(samples)) tensors = find_fields(samples) ? FOUND : HIDDEN; /* none: not now */
    Py_XDECREF(samples);
    if (PyErr_Occurred()) { tensors = HIDDEN; PyErr_Clear(); }
    return 0;
}

static uintptr_t plain_tensor(PyObject *value) { /* where its fields are; 0 if it must be asked */
    uintptr_t impl = tensors == FOUND ? WORD(value, at.impl) : 0;
    return impl && WORD(impl, 0) == at.plain && WORD(impl, at.storage) ? impl : 0;
}

static int field_element(Gatherer *g, PyObject *value, uintptr_t impl, Element *out) {
    uint16_t number = dtype_number(impl);
    if (number < 64 && g->tensor_numbers[number].itemsize) { *out = g->tensor_numbers[number]; return 0; }
    PyObject *dtype = PyObject_GetAttr(value, s_dtype);
    int done = dtype ? ask_element(g, dtype, out) : -1;
    Py_XDECREF(dtype);
    if (done == 0 && number < 64) g->tensor_numbers[number] = *out;
    return done;
}

static int read_fields(Gatherer *g, PyObject *value, uintptr_t impl, Layout *out) {
    Element element = {0, 0};
    if (field_element(g, value, impl, &element) < 0) return -1;
    size_t ndim = WORD(impl, at.sizes);
    const int64_t *extents = extents_of(impl, ndim);
    *out = (Layout){element.word, (int32_t)ndim, 0, element.itemsize, 0, 0, 0};
    for (size_t i = 0; i < ndim; i++) layout_extent(out, extents[i]);
    uintptr_t storage = WORD(WORD(impl, at.storage), at.data);
    if (out->nbytes && storage) { /* without elements a tensor has no address */
        out->storage = storage;
        out->data = storage + WORD(impl, at.offset) * (uintptr_t)element.itemsize;
    }
    return 0;
}

PyObject *tensor_text(Gatherer *g, const Leaf *leaf) {
    uintptr_t impl = plain_tensor(leaf->value);
    if (!impl || leaf->layout.ndim < 0) return NULL;
    PyObject *text = PyUnicode_FromFormat("%U[", g->words[leaf->layout.word]);
    const int64_t *extents = extents_of(impl, WORD(impl, at.sizes));
    for (size_t i = 0; text && i < WORD(impl, at.sizes); i++)
        Py_SETREF(text, PyUnicode_FromFormat(i ? "%U,%lld" : "%U%lld", text, (long long)extents[i]));
    if (text) Py_SETREF(text, PyUnicode_FromFormat("%U]", text));
    return text;
}
