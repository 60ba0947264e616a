/* Kernels that give, bit for bit, what a library's own loops give, over memory that the caller owns.

   Pillow hands out its pixels through the Arrow C data interface; `Pixels` shows that memory as a buffer. */
#include "pixels.h"

/* The Arrow C data interface, as its specification prints it. */
struct ArrowArray {
    int64_t length, null_count, offset, n_buffers, n_children;
    const void **buffers;
    struct ArrowArray **children;
    struct ArrowArray *dictionary;
    void (*release)(struct ArrowArray *);
    void *private_data;
};

typedef struct {
    PyObject_HEAD
    PyObject *capsule;
    void *memory;
    Py_ssize_t nbytes;
} Pixels;

static int pixels_getbuffer(PyObject *self, Py_buffer *view, int flags) {
    Pixels *pixels = (Pixels *)self;
    return PyBuffer_FillInfo(view, self, pixels->memory, pixels->nbytes, 0, flags);
}

static void pixels_dealloc(PyObject *self) {
    PyTypeObject *type = Py_TYPE(self);
    Py_XDECREF(((Pixels *)self)->capsule);
    type->tp_free(self);
    Py_DECREF(type);
}

/* The plain bytes of an exported array: its own, or those of its only child, if they are in one piece. */
static int find_memory(const struct ArrowArray *array, Py_ssize_t nbytes, int per_pixel, void **memory) {
    if (array->release == NULL || array->offset != 0 || array->null_count != 0) {
        return 0;
    }
    if (array->n_children == 1 && array->length * per_pixel == nbytes) {
        return find_memory(array->children[0], nbytes, 1, memory);
    }
    if (array->n_children || array->n_buffers != 2 || array->length != nbytes || array->buffers[0] != NULL) {
        return 0;
    }
    *memory = (void *)array->buffers[1];
    return *memory != NULL;
}

static PyObject *pixels_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    PyObject *capsule;
    Py_ssize_t nbytes;
    int per_pixel;
    void *memory = NULL;
    (void)kwargs;
    if (!PyArg_ParseTuple(args, "Oni", &capsule, &nbytes, &per_pixel)) {
        return NULL;
    }
    struct ArrowArray *array = PyCapsule_GetPointer(capsule, "arrow_array");
    if (array == NULL) {
        return NULL;
    }
    if (!find_memory(array, nbytes, per_pixel, &memory)) {
        PyErr_SetString(PyExc_ValueError, "the pixels are not in one piece of memory");
        return NULL;
    }
    Pixels *self = (Pixels *)type->tp_alloc(type, 0);
    if (self != NULL) {
        Py_INCREF(capsule);
        self->capsule = capsule;
        self->memory = memory;
        self->nbytes = nbytes;
    }
    return (PyObject *)self;
}

static PyType_Slot pixels_slots[] = {
    {Py_tp_doc, "Pixels(capsule, nbytes, bytes per pixel): the memory of an exported image as a buffer."},
    {Py_tp_new, pixels_new},
    {Py_tp_dealloc, pixels_dealloc},
    {Py_bf_getbuffer, pixels_getbuffer},
    {0, NULL},
};
static PyType_Spec pixels_spec = {"codedag.backends._pixels.Pixels", sizeof(Pixels), 0, Py_TPFLAGS_DEFAULT,
                                  pixels_slots};

/* A contiguous view of at least so many bytes, or an error. */
int pixels_view(PyObject *object, Py_buffer *view, int writable, Py_ssize_t least) {
    if (PyObject_GetBuffer(object, view, writable ? PyBUF_WRITABLE : PyBUF_SIMPLE) < 0) {
        return -1;
    }
    if (view->len < least) {
        PyErr_Format(PyExc_ValueError, "%zd bytes are given, %zd are needed", view->len, least);
        PyBuffer_Release(view);
        return -1;
    }
    return 0;
}

static PyMethodDef methods[] = {
    {"weights", pixels_weights, METH_VARARGS, "The table by which one axis is resampled."},
    {"resample", pixels_resample, METH_VARARGS, "Resamples an image with a table per axis."},
    {"turn", pixels_turn, METH_VARARGS, "Mirrors, rotates or transposes an image."},
    {"convert", pixels_convert, METH_VARARGS, "Brings pixels from one layout or mode into another."},
    {"luma_total", pixels_luma_total, METH_VARARGS, "The sum of the luma of all pixels."},
    {"affine", pixels_affine, METH_VARARGS, "Looks up an image at affine places, linear between pixels."},
    {"correlate", pixels_correlate, METH_VARARGS, "Weighted sums along one axis of an array."},
    {"grid", pixels_grid, METH_VARARGS, "Looks up an image on a grid of rows and columns between its pixels."},
    {"places", pixels_places, METH_VARARGS, "Looks up an image at places that a matrix gives."},
    {"hues", pixels_hues, METH_VARARGS, "RGB as HSV, or back."},
    {"scale", pixels_scale, METH_VARARGS, "Bytes less a mean times a factor per channel."},
    {"divide", pixels_divide, METH_VARARGS, "Bytes divided by a number."},
    {"blur", pixels_blur, METH_VARARGS, "Box blurs across and down."},
    {"modest", pixels_modest, METH_VARARGS, "Whether a text of JSON has no long numbers and no deep lists."},
    {"reduce", pixels_reduce, METH_VARARGS, "The means of blocks of pixels."},
    {"blend", pixels_blend, METH_VARARGS, "One image laid over another by a constant share."},
    {"counts", pixels_counts, METH_VARARGS, "How often each byte occurs."},
    {"sums", pixels_sums, METH_VARARGS, "The sum of the bytes of each channel."},
    {"lookup", pixels_lookup, METH_VARARGS, "The entry of a table for each byte."},
    {"distances", pixels_distances, METH_VARARGS, "The distance of each pixel to the nearest zero."},
    {"shrink", pixels_shrink, METH_VARARGS, "Blurs an image and looks it up on a grid."},
    {"slope", pixels_slope, METH_VARARGS, "Differences along one axis, smoothed along the other."},
    {"finite", pixels_finite, METH_VARARGS, "Whether floats are neither NaN nor infinite."},
    {"extent", pixels_extent, METH_VARARGS, "The least and the greatest of floats."},
    {"glass", pixels_glass, METH_VARARGS, "Exchanges pixels one after the other."},
    {"clusters", pixels_clusters, METH_VARARGS, "Clusters of pixels that are near in colour and place."},
    {"round", pixels_round, METH_VARARGS, "Floats times a number as bytes."},
    {"convolve", pixels_convolve, METH_VARARGS, "Convolves an image with a window."},
    {"ranks", pixels_ranks, METH_VARARGS, "The element of a rank in a window around each place."},
    {"bank", pixels_bank, METH_VARARGS, "A bank of filters over a spectrogram, summed up in parts."},
    {"bank_bounds", pixels_bank_bounds, METH_VARARGS, "Where the weights of filters begin and end."},
    {NULL, NULL, 0, NULL},
};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "codedag.backends._pixels",
                                    "Bit-exact kernels over pixels.", -1, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__pixels(void) {
    PyObject *made = PyModule_Create(&module);
    PyObject *type = made == NULL ? NULL : PyType_FromSpec(&pixels_spec);
    if (type == NULL || PyModule_AddObject(made, "Pixels", type) < 0) {
        Py_XDECREF(type);
        Py_XDECREF(made);
        return NULL;
    }
    return made;
}
