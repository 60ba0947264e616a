/* Weighted sums along one axis in double precision, in the order in which scipy.ndimage adds them up.

   An array is looked at as (outer, n, inner): the axis in the middle. Elements are float32, float64 or bytes; each
   result is cut to the dtype of the array, as scipy does after each axis. */
#include "pixels.h"

#include <stdlib.h>
#include <string.h>

#define LANES 16
typedef double Four __attribute__((vector_size(4 * sizeof(double))));

typedef struct {
    const char *from;
    char *into;
    Py_ssize_t outer, n, inner;
    const double *weights; /* all of them; the one in the middle belongs to the element itself */
    Py_ssize_t before, after; /* how many weights lie before and after that one */
    int symmetric; /* 1, -1 for odd symmetry, or 0 */
    const int32_t *places; /* for -before .. n + after: the element that stands there, or -1 for the constant */
    double constant;
    char code; /* of the elements: f, d or B */
} Lines;

static inline Py_ssize_t width_of(char code) { return code == 'd' ? 8 : code == 'f' ? 4 : 1; }

static inline __attribute__((always_inline)) void widen(const char *from, Py_ssize_t at, Py_ssize_t count, double *into, char code) {
    if (code == 'd') {
        memcpy(into, (const double *)from + at, (size_t)count * sizeof(double));
    } else if (code == 'f') {
        const float *source = (const float *)from + at;
        for (Py_ssize_t i = 0; i < count; i++) {
            into[i] = source[i];
        }
    } else {
        const uint8_t *source = (const uint8_t *)from + at;
        for (Py_ssize_t i = 0; i < count; i++) {
            into[i] = source[i];
        }
    }
}

static inline __attribute__((always_inline)) void narrow(const double *from, char *into, Py_ssize_t at, Py_ssize_t count, char code) {
    if (code == 'd') {
        memcpy((double *)into + at, from, (size_t)count * sizeof(double));
    } else if (code == 'f') {
        float *target = (float *)into + at;
        for (Py_ssize_t i = 0; i < count; i++) {
            target[i] = (float)from[i];
        }
    } else {
        uint8_t *target = (uint8_t *)into + at;
        for (Py_ssize_t i = 0; i < count; i++) {
            target[i] = (uint8_t)(int)from[i];
        }
    }
}

/* Sums for `count` elements in a row (a multiple of LANES is read and written); `at` is the first element, the
   neighbours of each lie `step` apart. `sign` is a constant where this is inlined. */
static inline __attribute__((always_inline)) void sums_by(const Lines *t, const double *at, Py_ssize_t step,
                                                          Py_ssize_t count, double *into, const int sign) {
    const double *w = t->weights + t->before;
    const Py_ssize_t end = sign ? 0 : t->after, start = sign ? 0 : t->after * step;
    for (Py_ssize_t first = 0; first < count; first += LANES) {
        const double *here = at + first;
        Four total[LANES / 4], one, other;
        for (int i = 0; i < LANES / 4; i++) {
            memcpy(&one, here + start + 4 * i, sizeof one);
            total[i] = one * w[end];
        }
        for (Py_ssize_t j = -t->before; j < end; j++) {
            for (int i = 0; i < LANES / 4; i++) {
                memcpy(&one, here + j * step + 4 * i, sizeof one);
                memcpy(&other, here - j * step + 4 * i, sizeof other);
                total[i] += (sign > 0 ? one + other : sign < 0 ? one - other : one) * w[j];
            }
        }
        memcpy(into + first, total, sizeof total);
    }
}

static inline __attribute__((always_inline)) void sum_row(const Lines *t, const double *at, Py_ssize_t step,
                                                          Py_ssize_t count, double *into) {
    if (t->symmetric > 0) {
        sums_by(t, at, step, count, into, 1);
    } else if (t->symmetric < 0) {
        sums_by(t, at, step, count, into, -1);
    } else {
        sums_by(t, at, step, count, into, 0);
    }
}

static inline void fill(double *into, double value, Py_ssize_t count) {
    for (Py_ssize_t i = 0; i < count; i++) {
        into[i] = value;
    }
}

/* Whole lines at once where neighbours along the axis are near each other in memory. */
static inline __attribute__((always_inline)) void whole_lines(const Lines *t, double *line, double *sums) {
    Py_ssize_t length = t->n * t->inner;
    for (Py_ssize_t outer = 0; outer < t->outer; outer++) {
        Py_ssize_t base = outer * length;
        widen(t->from, base, length, line + t->before * t->inner, t->code);
        for (Py_ssize_t beyond = 0; beyond < t->before + t->after; beyond++) {
            Py_ssize_t place = beyond < t->before ? beyond : beyond + t->n;
            int32_t source = t->places[place];
            double *target = line + place * t->inner;
            if (source < 0) {
                fill(target, t->constant, t->inner);
            } else {
                memcpy(target, line + (t->before + source) * t->inner, (size_t)t->inner * sizeof(double));
            }
        }
        sum_row(t, line + t->before * t->inner, t->inner, length, sums);
        narrow(sums, t->into, base, length, t->code);
    }
}

/* Strips of STRIP columns where neighbours along the axis are far from each other. */
#define STRIP 64
static inline __attribute__((always_inline)) void strips(const Lines *t, double *strip, double *sums) {
    Py_ssize_t rows = t->before + t->n + t->after;
    for (Py_ssize_t outer = 0; outer < t->outer; outer++) {
        for (Py_ssize_t first = 0; first < t->inner; first += STRIP) {
            Py_ssize_t count = t->inner - first < STRIP ? t->inner - first : STRIP;
            for (Py_ssize_t row = 0; row < rows; row++) {
                int32_t source = t->places[row];
                if (source < 0) {
                    fill(strip + row * STRIP, t->constant, count);
                } else {
                    widen(t->from, (outer * t->n + source) * t->inner + first, count, strip + row * STRIP, t->code);
                }
            }
            for (Py_ssize_t row = 0; row < t->n; row++) {
                sum_row(t, strip + (row + t->before) * STRIP, STRIP, count, sums);
                narrow(sums, t->into, (outer * t->n + row) * t->inner + first, count, t->code);
            }
        }
    }
}

WIDE static void all_lines(const Lines *t, double *room) {
    Py_ssize_t rows = t->before + t->n + t->after;
    if (t->inner <= 8) {
        whole_lines(t, room, room + rows * t->inner + LANES);
    } else {
        strips(t, room, room + rows * STRIP + LANES);
    }
}

static double *room_for(const Lines *t) {
    size_t step = (size_t)(t->inner <= 8 ? t->inner : STRIP), rows = (size_t)(t->before + t->n + t->after);
    return calloc(rows * step * 2 + 4 * LANES + STRIP, sizeof(double));
}

static int legal(const Lines *t, Py_buffer views[4]) {
    Py_ssize_t taps = t->before + t->after + 1, places = t->before + t->n + t->after;
    int sizes = t->outer > 0 && t->n > 0 && t->inner > 0 && t->before >= 0 && t->after >= 0;
    sizes = sizes && views[2].len == taps * 8 && views[3].len == places * 4 && strchr("fdB", t->code) != NULL;
    sizes = sizes && t->symmetric * t->symmetric <= 1 && (t->symmetric == 0 || t->before == t->after);
    Py_ssize_t nbytes = t->outer * t->n * t->inner * width_of(t->code);
    sizes = sizes && views[0].len == nbytes && views[1].len == nbytes;
    for (Py_ssize_t i = 0; sizes && i < places; i++) {
        sizes = t->places[i] < t->n;
    }
    return sizes;
}

/* correlate(source, target, code, (outer, n, inner), weights, before, symmetric, places, constant) */
PyObject *pixels_correlate(PyObject *module, PyObject *args) {
    PyObject *objects[4];
    Lines t;
    Py_buffer views[4];
    int code, held = 0;
    (void)module;
    if (!PyArg_ParseTuple(args, "OOC(nnn)OniOd", &objects[0], &objects[1], &code, &t.outer, &t.n, &t.inner, &objects[2],
                          &t.before, &t.symmetric, &objects[3], &t.constant)) {
        return NULL;
    }
    while (held < 4 && pixels_view(objects[held], &views[held], held == 1, 0) == 0) {
        held++;
    }
    double *room = NULL;
    if (held == 4) {
        t.from = views[0].buf;
        t.into = views[1].buf;
        t.weights = views[2].buf;
        t.places = views[3].buf;
        t.after = views[2].len / 8 - t.before - 1;
        t.code = (char)code;
        if (!legal(&t, views)) {
            PyErr_SetString(PyExc_ValueError, "the arrays do not fit together");
        } else if ((room = room_for(&t)) == NULL) {
            PyErr_NoMemory();
        } else {
            Py_BEGIN_ALLOW_THREADS all_lines(&t, room);
            Py_END_ALLOW_THREADS
        }
    }
    free(room);
    while (held > 0) {
        PyBuffer_Release(&views[--held]);
    }
    return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
}
