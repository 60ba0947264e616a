/* Convolution of images as scipy.signal computes it: products added up row by row of the window and along each of them,
   in the precision of the image. Neighbouring results are made side by side; each keeps its own order of sums. */
#include "pixels.h"

#include <stdlib.h>
#include <string.h>

typedef struct {
    const char *from, *window;
    char *into;
    Py_ssize_t rows, columns, window_rows, window_columns, out_rows, out_columns;
    const int32_t *up, *side; /* for each place that a window can touch: the row or column, or -1 for the constant */
    double constant;
    char code;
} Convolution;

/* up[m + window_rows - 1 - j] is what the window's row j meets for the result's row m; side likewise. */
#define CONVOLVE(type, name)                                                                                           \
    WIDE static void name(const Convolution *t, type *room, type *restrict sums) {                                     \
        Py_ssize_t wide = t->out_columns + t->window_columns - 1;                                                      \
        Py_ssize_t high = t->window_rows;                                                                              \
        for (Py_ssize_t next = 0, row = 0; row < t->out_rows; row++) {                                                 \
            for (; next < row + high; next++) { /* rows with their borders, as many as the window has */               \
                type *line = room + (next % high) * wide;                                                              \
                const type *source = (const type *)t->from + (t->up[next] < 0 ? 0 : t->up[next]) * t->columns;         \
                for (Py_ssize_t i = 0; i < wide; i++) {                                                                \
                    line[i] = t->up[next] < 0 || t->side[i] < 0 ? (type)t->constant : source[t->side[i]];              \
                }                                                                                                      \
            }                                                                                                          \
            memset(sums, 0, (size_t)t->out_columns * sizeof(type));                                                    \
            for (Py_ssize_t j = 0; j < high; j++) {                                                                    \
                const type *line = room + ((row + high - 1 - j) % high) * wide;                                        \
                const type *w = (const type *)t->window + j * t->window_columns;                                       \
                const type *restrict at = line + t->window_columns - 1;                                                \
                Py_ssize_t k = 0;                                                                                      \
                for (; k + 4 <= t->window_columns; k += 4, at -= 4) { /* scipy adds four products up before the rest */ \
                    for (Py_ssize_t i = 0; i < t->out_columns; i++) {                                                  \
                        sums[i] += ((w[k] * at[i] + w[k + 1] * at[i - 1]) + w[k + 2] * at[i - 2]) + w[k + 3] * at[i - 3]; \
                    }                                                                                                  \
                }                                                                                                      \
                for (; k < t->window_columns; k++, at--) {                                                             \
                    for (Py_ssize_t i = 0; i < t->out_columns; i++) {                                                  \
                        sums[i] += w[k] * at[i];                                                                       \
                    }                                                                                                  \
                }                                                                                                      \
            }                                                                                                          \
            memcpy((type *)t->into + row * t->out_columns, sums, (size_t)t->out_columns * sizeof(type));               \
        }                                                                                                              \
    }

CONVOLVE(float, convolve_floats)
CONVOLVE(double, convolve_doubles)

static int places_fit(const int32_t *places, Py_ssize_t count, Py_ssize_t size) {
    for (Py_ssize_t i = 0; i < count; i++) {
        if (places[i] < -1 || places[i] >= size) {
            return 0;
        }
    }
    return 1;
}

static int legal(const Convolution *t, const Py_buffer v[5]) {
    Py_ssize_t size = t->code == 'f' ? 4 : t->code == 'd' ? 8 : 0;
    Py_ssize_t up = t->out_rows + t->window_rows - 1, side = t->out_columns + t->window_columns - 1;
    int fits = size && t->rows > 0 && t->columns > 0 && t->window_rows > 0 && t->window_columns > 0;
    fits = fits && t->out_rows > 0 && t->out_columns > 0 && v[0].len == size * t->rows * t->columns;
    fits = fits && v[1].len == size * t->out_rows * t->out_columns;
    fits = fits && v[2].len == size * t->window_rows * t->window_columns;
    fits = fits && v[3].len == 4 * up && v[4].len == 4 * side;
    return fits && places_fit(t->up, up, t->rows) && places_fit(t->side, side, t->columns);
}

static void run(Convolution *t, const Py_buffer v[5]) {
    t->from = v[0].buf;
    t->into = v[1].buf;
    t->window = v[2].buf;
    t->up = v[3].buf;
    t->side = v[4].buf;
    if (!legal(t, v)) {
        PyErr_SetString(PyExc_ValueError, "the arrays do not fit together");
        return;
    }
    Py_ssize_t wide = t->out_columns + t->window_columns - 1;
    double *room = malloc((size_t)(wide * t->window_rows + t->out_columns) * sizeof(double));
    if (room == NULL) {
        PyErr_NoMemory();
        return;
    }
    Py_BEGIN_ALLOW_THREADS
    if (t->code == 'f') {
        convolve_floats(t, (float *)room, (float *)room + wide * t->window_rows);
    } else {
        convolve_doubles(t, room, room + wide * t->window_rows);
    }
    Py_END_ALLOW_THREADS
    free(room);
}

/* convolve(source, target, window, places up, places aside, code, rows, columns, window's rows, window's columns, rows of the
            result, columns of the result, constant) */
PyObject *pixels_convolve(PyObject *module, PyObject *args) {
    PyObject *objects[5];
    Convolution t;
    Py_buffer views[5];
    int code, held = 0;
    (void)module;
    if (!PyArg_ParseTuple(args, "OOOOOCnnnnnnd", &objects[0], &objects[1], &objects[2], &objects[3], &objects[4], &code,
                          &t.rows, &t.columns, &t.window_rows, &t.window_columns, &t.out_rows, &t.out_columns, &t.constant)) {
        return NULL;
    }
    t.code = (char)code;
    while (held < 5 && pixels_view(objects[held], &views[held], held == 1, 0) == 0) {
        held++;
    }
    if (held == 5) {
        run(&t, views);
    }
    while (held > 0) {
        PyBuffer_Release(&views[--held]);
    }
    return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
}
