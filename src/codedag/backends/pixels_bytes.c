/* Arrays of bytes: how often each value occurs, their sums, and tables of 256 entries. */
#include "pixels.h"

#include <string.h>

/* Four tables side by side, so that equal neighbours do not wait for each other. */
static void count(const uint8_t *from, Py_ssize_t number, int64_t *into) {
    uint32_t tables[4][256];
    Py_ssize_t i = 0;
    memset(tables, 0, sizeof tables);
    for (; i + 8 <= number; i += 8) {
        uint64_t eight;
        memcpy(&eight, from + i, 8);
        for (int k = 0; k < 8; k++) {
            tables[k & 3][(eight >> (8 * k)) & 255]++;
        }
    }
    for (; i < number; i++) {
        tables[0][from[i]]++;
    }
    for (int value = 0; value < 256; value++) {
        into[value] = (int64_t)tables[0][value] + tables[1][value] + tables[2][value] + tables[3][value];
    }
}

/* Sums of each channel; a block of 64 thousand bytes cannot overflow 32 bits. */
WIDE static void add_up(const uint8_t *from, Py_ssize_t pixels, int channels, uint64_t *sums) {
    for (Py_ssize_t first = 0; first < pixels; first += 16384) {
        Py_ssize_t last = first + 16384 < pixels ? first + 16384 : pixels;
        uint32_t part[4] = {0};
        if (channels == 1) {
            for (Py_ssize_t i = first; i < last; i++) {
                part[0] += from[i];
            }
        } else {
            for (Py_ssize_t i = first; i < last; i++) {
                for (int channel = 0; channel < channels; channel++) {
                    part[channel] += from[i * channels + channel];
                }
            }
        }
        for (int channel = 0; channel < channels; channel++) {
            sums[channel] += part[channel];
        }
    }
}

#define LOOK_UP(type)                                                                                                  \
    for (Py_ssize_t i = 0; i < number; i++) {                                                                          \
        ((type *)into)[i] = ((const type *)table)[from[i]];                                                            \
    }

static void look_up(const uint8_t *from, void *into, const void *table, Py_ssize_t number, int size) {
    switch (size) {
    case 1: LOOK_UP(uint8_t) break;
    case 2: LOOK_UP(uint16_t) break;
    case 4: LOOK_UP(uint32_t) break;
    default: LOOK_UP(uint64_t) break;
    }
}

/* counts(bytes, target of 256 int64) */
PyObject *pixels_counts(PyObject *module, PyObject *args) {
    Py_buffer in, out;
    PyObject *target;
    (void)module;
    if (!PyArg_ParseTuple(args, "y*O", &in, &target)) {
        return NULL;
    }
    int fits = in.len < ((Py_ssize_t)1 << 33);
    if (!fits) {
        PyErr_SetString(PyExc_ValueError, "too many bytes to count");
    } else if (pixels_view(target, &out, 1, 2048) == 0) {
        Py_BEGIN_ALLOW_THREADS count(in.buf, in.len, out.buf);
        Py_END_ALLOW_THREADS
        PyBuffer_Release(&out);
    }
    PyBuffer_Release(&in);
    return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
}

/* sums(bytes, channels): one number for each of 1 to 4 channels */
PyObject *pixels_sums(PyObject *module, PyObject *args) {
    Py_buffer in;
    int channels;
    uint64_t sums[4] = {0};
    (void)module;
    if (!PyArg_ParseTuple(args, "y*i", &in, &channels)) {
        return NULL;
    }
    if (channels < 1 || channels > 4 || in.len % channels) {
        PyBuffer_Release(&in);
        return PyErr_Format(PyExc_ValueError, "not bytes of 1 to 4 channels");
    }
    Py_BEGIN_ALLOW_THREADS add_up(in.buf, in.len / channels, channels, sums);
    Py_END_ALLOW_THREADS
    PyBuffer_Release(&in);
    PyObject *result = PyTuple_New(channels);
    for (int channel = 0; result != NULL && channel < channels; channel++) {
        PyTuple_SET_ITEM(result, channel, PyLong_FromUnsignedLongLong(sums[channel]));
    }
    return result;
}

/* lookup(bytes, target, table, bytes per entry) */
PyObject *pixels_lookup(PyObject *module, PyObject *args) {
    Py_buffer in, out, table;
    PyObject *target;
    int size;
    (void)module;
    if (!PyArg_ParseTuple(args, "y*Oy*i", &in, &target, &table, &size)) {
        return NULL;
    }
    if ((size != 1 && size != 2 && size != 4 && size != 8) || table.len < 256 * (Py_ssize_t)size) {
        PyErr_SetString(PyExc_ValueError, "not a table of 256 entries of 1, 2, 4 or 8 bytes");
    } else if (pixels_view(target, &out, 1, in.len * size) == 0) {
        Py_BEGIN_ALLOW_THREADS look_up(in.buf, out.buf, table.buf, in.len, size);
        Py_END_ALLOW_THREADS
        PyBuffer_Release(&out);
    }
    PyBuffer_Release(&in);
    PyBuffer_Release(&table);
    return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
}
