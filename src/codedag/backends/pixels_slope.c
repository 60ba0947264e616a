/* Gradients of images as scipy.ndimage computes them: the difference of two neighbours, cut to the dtype of the image, then
   smoothed by 1, middle, 1 along the other axis in double precision.

   The difference of two floats is the same whether it is rounded once or, by way of a double, twice. */
#include "pixels.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define LARGEST 1e30

typedef struct {
    const char *from;
    char *into;
    Py_ssize_t rows, columns;
    int axis;
    const int32_t *up, *side; /* for -1 .. n: the row or column that stands there, or -1 for the constant */
    double middle, constant;
    char code;
} Slope;

typedef uint32_t __attribute__((may_alias)) Bits32;
typedef uint64_t __attribute__((may_alias)) Bits64;
#define HUGE_FLOAT 0x7149F2CAu /* the bits of 1e30; those of NaNs and infinities are greater */
#define HUGE_DOUBLE 0x46293E5939A08CEAu

/* Zero times the element itself is what gives scipy's result its negative zeros. */
#define DIFFERENCES(type, Bits, huge, name)                                                                            \
    static inline __attribute__((always_inline)) int name(const type *before, const type *after, const type *self,     \
                                                          double *restrict into, Py_ssize_t count) {                   \
        Bits most = 0;                                                                                                 \
        for (Py_ssize_t i = 0; i < count; i++) {                                                                       \
            Bits magnitude = ((const Bits *)self)[i] & ((Bits)-1 >> 1);                                                \
            most = magnitude > most ? magnitude : most;                                                                \
        }                                                                                                              \
        for (Py_ssize_t i = 0; i < count; i++) {                                                                       \
            into[i] = (double)(type)(self[i] * (type)0 + (before[i] - after[i]) * (type)-1);                           \
        }                                                                                                              \
        return most >= huge;                                                                                           \
    }

DIFFERENCES(float, Bits32, HUGE_FLOAT, differ_floats)
DIFFERENCES(double, Bits64, HUGE_DOUBLE, differ_doubles)

static inline __attribute__((always_inline)) void smooth(const double *before, const double *self, const double *after, double middle,
                                                         char *into, Py_ssize_t count, const char code) {
    if (code == 'f') {
        float *restrict target = (float *)into;
        for (Py_ssize_t i = 0; i < count; i++) {
            target[i] = (float)(self[i] * middle + (before[i] + after[i]));
        }
    } else {
        double *restrict target = (double *)into;
        for (Py_ssize_t i = 0; i < count; i++) {
            target[i] = self[i] * middle + (before[i] + after[i]);
        }
    }
}

static inline __attribute__((always_inline)) int differ(const char *before, const char *after, const char *self, double *into,
                                                        Py_ssize_t count, const char code) {
    return code == 'f' ? differ_floats((const float *)before, (const float *)after, (const float *)self, into, count)
                       : differ_doubles((const double *)before, (const double *)after, (const double *)self, into, count);
}

static inline __attribute__((always_inline)) double at(const char *row, Py_ssize_t place, double constant, const char code) {
    return place < 0 ? constant : code == 'f' ? (double)((const float *)row)[place] : ((const double *)row)[place];
}

/* The differences along one row; those at its two ends are made apart. */
static inline __attribute__((always_inline)) int along(const Slope *t, Py_ssize_t row, double *into, const char code) {
    Py_ssize_t size = code == 'f' ? 4 : 8, n = t->columns;
    const char *line = t->from + row * n * size;
    int odd = differ(line, line + 2 * size, line + size, into + 1, n - 2, code);
    for (Py_ssize_t end = 0; end < n; end += n - 1) {
        double self = at(line, end, 0, code), before = at(line, t->side[end], t->constant, code);
        double value = self * 0.0 + (before - at(line, t->side[end + 2], t->constant, code)) * -1.0;
        into[end] = code == 'f' ? (double)(float)value : value;
        odd |= !(fabs(self) < LARGEST);
    }
    return odd;
}

/* Differences along the rows, smoothed down the columns: three rows of differences are kept. */
static inline __attribute__((always_inline)) int slope_along(const Slope *t, double *room, const char code) {
    Py_ssize_t size = code == 'f' ? 4 : 8, n = t->columns, kept[3] = {-1, -1, -1};
    double *constant = room + 3 * n;
    int odd = 0;
    for (Py_ssize_t i = 0; i < n; i++) {
        constant[i] = t->constant;
    }
    for (Py_ssize_t row = 0; row < t->rows; row++) {
        const double *lines[3];
        for (int tap = 0; tap < 3; tap++) {
            Py_ssize_t wanted = tap == 1 ? row : t->up[row + tap];
            lines[tap] = wanted < 0 ? constant : room + (wanted % 3) * n;
            if (wanted >= 0 && kept[wanted % 3] != wanted) {
                odd |= along(t, wanted, room + (wanted % 3) * n, code);
                kept[wanted % 3] = wanted;
            }
        }
        smooth(lines[0], lines[1], lines[2], t->middle, t->into + row * n * size, n, code);
    }
    return odd;
}

/* Differences down the columns, smoothed along the row. */
static inline __attribute__((always_inline)) int slope_down(const Slope *t, double *room, const char code) {
    Py_ssize_t size = code == 'f' ? 4 : 8, n = t->columns;
    double *line = room + 1;
    char *constant = (char *)(room + 3 * n); /* a row of them, behind the line */
    int odd = 0;
    for (Py_ssize_t i = 0; i < n; i++) {
        if (code == 'f') {
            ((float *)constant)[i] = (float)t->constant;
        } else {
            ((double *)constant)[i] = t->constant;
        }
    }
    for (Py_ssize_t row = 0; row < t->rows; row++) {
        const char *self = t->from + row * n * size;
        const char *before = t->up[row] < 0 ? constant : t->from + t->up[row] * n * size;
        const char *after = t->up[row + 2] < 0 ? constant : t->from + t->up[row + 2] * n * size;
        odd |= differ(before, after, self, line, n, code);
        line[-1] = t->side[0] < 0 ? t->constant : line[t->side[0]];
        line[n] = t->side[n + 1] < 0 ? t->constant : line[t->side[n + 1]];
        smooth(line - 1, line, line + 1, t->middle, t->into + row * n * size, n, code);
    }
    return odd;
}

WIDE static int slope(const Slope *t, double *room) {
    if (t->code == 'f') {
        return t->axis ? slope_along(t, room, 'f') : slope_down(t, room, 'f');
    }
    return t->axis ? slope_along(t, room, 'd') : slope_down(t, room, 'd');
}

static int places_fit(const int32_t *places, Py_ssize_t size) {
    for (Py_ssize_t i = 0; i < size + 2; i++) {
        if (places[i] < -1 || places[i] >= size || (i > 0 && i <= size && places[i] != i - 1)) {
            return 0;
        }
    }
    return 1;
}

static int legal(const Slope *t, const Py_buffer v[4]) {
    Py_ssize_t nbytes = t->rows * t->columns * (t->code == 'f' ? 4 : 8);
    int fits = t->rows >= 3 && t->columns >= 3 && (t->code == 'f' || t->code == 'd') && (t->axis == 0 || t->axis == 1);
    fits = fits && v[0].len == nbytes && v[1].len == nbytes;
    fits = fits && v[2].len == 4 * (t->rows + 2) && v[3].len == 4 * (t->columns + 2);
    /* the row beyond an end is one of the two at it: three kept rows are enough */
    fits = fits && places_fit(t->up, t->rows) && places_fit(t->side, t->columns);
    return fits && t->up[0] <= 1 && (t->up[t->rows + 1] < 0 || t->up[t->rows + 1] >= t->rows - 2);
}

/* slope(source, target, code, rows, columns, axis, middle, places up, places aside, constant): whether all elements are
   finite and not huge; if not, the target is not to be used */
PyObject *pixels_slope(PyObject *module, PyObject *args) {
    PyObject *objects[4];
    Slope t;
    Py_buffer views[4];
    int code, held = 0, odd = 0;
    (void)module;
    if (!PyArg_ParseTuple(args, "OOCnnidOOd", &objects[0], &objects[1], &code, &t.rows, &t.columns, &t.axis, &t.middle,
                          &objects[2], &objects[3], &t.constant)) {
        return NULL;
    }
    while (held < 4 && pixels_view(objects[held], &views[held], held == 1, 0) == 0) {
        held++;
    }
    if (held == 4) {
        t.from = views[0].buf;
        t.into = views[1].buf;
        t.up = views[2].buf;
        t.side = views[3].buf;
        t.code = (char)code;
        double *room = legal(&t, views) ? malloc((size_t)(4 * t.columns + 2) * sizeof(double)) : NULL;
        if (room == NULL) {
            PyErr_SetString(PyExc_ValueError, "the arrays do not fit together, or there is no memory");
        } else {
            Py_BEGIN_ALLOW_THREADS odd = slope(&t, room);
            Py_END_ALLOW_THREADS
            free(room);
        }
    }
    while (held > 0) {
        PyBuffer_Release(&views[--held]);
    }
    return PyErr_Occurred() ? NULL : PyBool_FromLong(!odd);
}
