/* The elements of small arrays, which are often unpacked.  Part of gather_values.c. */

static int is_plain_array(PyObject *array) { return is_eternal(Py_TYPE(array)) && !base_of(array); }

static int copy_elements(const char *data, Py_ssize_t n, Py_ssize_t stride, Py_ssize_t size, Small *out) {
    out->n = (int)n; out->size = (int)size;
    if (stride == size) { memcpy(out->bytes, data, (size_t)(n * size)); return 1; }
    for (Py_ssize_t i = 0; i < n; i++) memcpy(out->bytes + i * size, data + i * stride, (size_t)size);
    return 1;
}

static int ask_elements(const Leaf *leaf, Small *out) { /* where fields are not read */
    Py_buffer view;
    if (PyObject_GetBuffer(leaf->value, &view, PyBUF_STRIDES | PyBUF_FORMAT) < 0) { PyErr_Clear(); return 0; }
    int good = view.ndim == 1 && view.format && view.format[0] && strchr("efd", view.format[0]) && !view.format[1] &&
               view.shape[0] > 0 && view.shape[0] <= FEW_ELEMENTS;
    if (good) copy_elements(view.buf, view.shape[0], view.strides[0], view.itemsize, out);
    PyBuffer_Release(&view);
    return good;
}

int elements_of(const Leaf *leaf, Small *out) {
    if (leaf->layout.nbytes <= 0) return 0;
    PyObject *base = is_eternal(Py_TYPE(leaf->value)) ? base_of(leaf->value) : leaf->value;
    if (base && (base == leaf->value || base != leaf->root || base != leaf->memory || !is_plain_array(base))) return 0;
    if (arrays != TRUSTED) return ask_elements(leaf, out);
    const Array *a = (const Array *)leaf->value;
    int of = a->descr->type_num, size = of == 12 ? 8 : of == 11 ? 4 : of == 23 ? 2 : 0; /* numpy's numbers of them */
    if (!size || a->descr->byteorder != '=' || a->dimensions[0] > FEW_ELEMENTS) return 0;
    return copy_elements(a->data, a->dimensions[0], a->strides[0], size, out);
}
