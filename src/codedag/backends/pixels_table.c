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

typedef uint32_t __attribute__((may_alias)) Bits32;

#define PART 1024

typedef union {
    float number;
    int32_t bits;
} Single;

/* Floats times a number, to the nearest byte, halves to the even one; whether all were finite and not huge. */
WIDE static int rounded(const float *restrict from, uint8_t *restrict into, float by, Py_ssize_t count) {
    int32_t whole[PART], most = 0;
    for (Py_ssize_t first = 0; first < count; first += PART) {
        int length = count - first < PART ? (int)(count - first) : PART;
        for (int i = 0; i < length; i++) {
            int32_t magnitude = (int32_t)(((const Bits32 *)from)[first + i] & 0x7FFFFFFFu);
            most = magnitude > most ? magnitude : most;
        }
        for (int i = 0; i < length; i++) { /* floats that are not negative have the order of their bits */
            Single value = {.number = from[first + i] * by};
            value.bits = value.bits < 0 ? 0 : value.bits;
            value.bits = value.bits > 0x437F0000 ? 0x437F0000 : value.bits; /* 255 */
            whole[i] = (int32_t)((value.number + 8388608.0f) - 8388608.0f); /* beside 2 ** 23 only whole numbers have a place */
        }
        for (int i = 0; i < length; i++) {
            into[first + i] = (uint8_t)whole[i];
        }
    }
    return most < 0x7149F2CA; /* 1e30 */
}

/* Both views, or none and an error. */
static int two_views(PyObject *source, PyObject *target, Py_ssize_t in_bytes, Py_ssize_t out_bytes, Py_buffer *in,
                     Py_buffer *out) {
    if (in_bytes < 0 || pixels_view(source, in, 0, in_bytes) < 0) {
        return -1;
    }
    if (pixels_view(target, out, 1, out_bytes) < 0) {
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
    if (two_views(source, target, count, 4 * count, &in, &out) < 0) {
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
        two_views(source, target, count, 4 * count, &in, &out) < 0) {
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS divided(in.buf, out.buf, by, count);
    Py_END_ALLOW_THREADS
    PyBuffer_Release(&in);
    PyBuffer_Release(&out);
    Py_RETURN_NONE;
}

/* round(source, target, elements, by): floats as bytes; whether all floats were finite and not huge, else the target is
   not to be used */
PyObject *pixels_round(PyObject *module, PyObject *args) {
    PyObject *source, *target;
    Py_ssize_t count;
    float by;
    int plain;
    Py_buffer in, out;
    (void)module;
    if (!PyArg_ParseTuple(args, "OOnf", &source, &target, &count, &by) ||
        two_views(source, target, 4 * count, count, &in, &out) < 0) {
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS plain = rounded(in.buf, out.buf, by, count);
    Py_END_ALLOW_THREADS
    PyBuffer_Release(&in);
    PyBuffer_Release(&out);
    return PyBool_FromLong(plain);
}
