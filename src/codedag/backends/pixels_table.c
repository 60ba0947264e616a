/* Bytes as floats: less a mean, times a factor or divided by a number, each operation rounded as numpy does it. */
#include "pixels.h"

#define BLOCK 24 /* a multiple of 1, 2, 3 and 4 channels, and of eight floats */

typedef struct {
    float mean[BLOCK], factor[BLOCK];
} Pattern;

WIDE static void scaled(const uint8_t *restrict from, float *restrict into, const Pattern *p, Py_ssize_t count) {
    Py_ssize_t first = 0;
    for (; first + BLOCK <= count; first += BLOCK) {
        for (int i = 0; i < BLOCK; i++) {
            into[first + i] = ((float)from[first + i] - p->mean[i]) * p->factor[i];
        }
    }
    for (int i = 0; first + i < count; i++) {
        into[first + i] = ((float)from[first + i] - p->mean[i]) * p->factor[i];
    }
}

WIDE static void divided(const uint8_t *restrict from, float *restrict into, float by, Py_ssize_t count) {
    for (Py_ssize_t i = 0; i < count; i++) {
        into[i] = (float)from[i] / by;
    }
}

/* Both views, or none and an error. */
static int two_views(PyObject *source, PyObject *target, Py_ssize_t count, Py_buffer *in, Py_buffer *out) {
    if (count < 0 || pixels_view(source, in, 0, count) < 0) {
        return -1;
    }
    if (pixels_view(target, out, 1, count * 4) < 0) {
        PyBuffer_Release(in);
        return -1;
    }
    return 0;
}

/* scale(source, target, elements, means, factors): as many float32 means and factors as there are channels */
PyObject *pixels_scale(PyObject *module, PyObject *args) {
    PyObject *source, *target;
    Py_ssize_t count;
    Py_buffer in, out, means, factors;
    Pattern p;
    (void)module;
    if (!PyArg_ParseTuple(args, "OOny*y*", &source, &target, &count, &means, &factors)) {
        return NULL;
    }
    Py_ssize_t channels = means.len / 4;
    int fits = channels >= 1 && channels <= 4 && factors.len == means.len;
    for (int i = 0; fits && i < BLOCK; i++) {
        p.mean[i] = ((const float *)means.buf)[i % channels];
        p.factor[i] = ((const float *)factors.buf)[i % channels];
    }
    PyBuffer_Release(&means);
    PyBuffer_Release(&factors);
    if (!fits) {
        return PyErr_Format(PyExc_ValueError, "not a mean and a factor for each of 1 to 4 channels");
    }
    if (two_views(source, target, count, &in, &out) < 0) {
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS scaled(in.buf, out.buf, &p, count);
    Py_END_ALLOW_THREADS
    PyBuffer_Release(&in);
    PyBuffer_Release(&out);
    Py_RETURN_NONE;
}

/* divide(source, target, elements, by) */
PyObject *pixels_divide(PyObject *module, PyObject *args) {
    PyObject *source, *target;
    Py_ssize_t count;
    float by;
    Py_buffer in, out;
    (void)module;
    if (!PyArg_ParseTuple(args, "OOnf", &source, &target, &count, &by) ||
        two_views(source, target, count, &in, &out) < 0) {
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS divided(in.buf, out.buf, by, count);
    Py_END_ALLOW_THREADS
    PyBuffer_Release(&in);
    PyBuffer_Release(&out);
    Py_RETURN_NONE;
}
