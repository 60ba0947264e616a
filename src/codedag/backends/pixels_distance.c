/* The distance of each pixel to the nearest zero: exact squares in whole numbers, one root each.

   After the algorithm of Meijster, Roerdink and Hesselink: distances along columns, then the lower envelope of
   parabolas along each row. */
#include "pixels.h"

#include <math.h>
#include <stdlib.h>

/* How far the nearest zero of the same column is; `far` if there is none. */
WIDE static void down_columns(const uint8_t *mask, int32_t *g, int rows, int columns, int32_t far) {
    for (int x = 0; x < columns; x++) {
        g[x] = mask[x] ? far : 0;
    }
    for (int y = 1; y < rows; y++) {
        int32_t *row = g + (size_t)y * columns, *above = row - columns;
        for (int x = 0; x < columns; x++) {
            int32_t next = above[x] + 1;
            row[x] = mask[(size_t)y * columns + x] ? (next < far ? next : far) : 0;
        }
    }
    for (int y = rows - 2; y >= 0; y--) {
        int32_t *row = g + (size_t)y * columns, *below = row + columns;
        for (int x = 0; x < columns; x++) {
            int32_t next = below[x] + 1;
            row[x] = next < row[x] ? next : row[x];
        }
    }
}

static inline int64_t square(int64_t x) { return x * x; }

static inline int64_t height_at(const int32_t *g, int x, int i) { return square(x - i) + square(g[i]); }

/* From where on the parabola of u is below that of i. */
static inline int64_t crossing(const int32_t *g, int i, int u) {
    int64_t top = square(u) - square(i) + square(g[u]) - square(g[i]), bottom = 2 * (int64_t)(u - i);
    return top >= 0 ? top / bottom : -((-top + bottom - 1) / bottom);
}

static void along_row(const int32_t *g, double *into, int columns, int *parabolas, int *starts) {
    int q = 0;
    parabolas[0] = 0;
    starts[0] = 0;
    for (int u = 1; u < columns; u++) {
        while (q >= 0 && height_at(g, starts[q], parabolas[q]) > height_at(g, starts[q], u)) {
            q--;
        }
        if (q < 0) {
            q = 0;
            parabolas[0] = u;
            starts[0] = 0;
        } else {
            int64_t from = 1 + crossing(g, parabolas[q], u);
            if (from < columns) {
                q++;
                parabolas[q] = u;
                starts[q] = (int)from;
            }
        }
    }
    for (int u = columns - 1; u >= 0; u--) {
        into[u] = (double)height_at(g, u, parabolas[q]);
        q -= u == starts[q];
    }
}

WIDE static void roots(double *values, Py_ssize_t count) {
    for (Py_ssize_t i = 0; i < count; i++) {
        values[i] = sqrt(values[i]);
    }
}

static int all_distances(const uint8_t *mask, double *into, int rows, int columns) {
    int32_t *g = malloc(sizeof(int32_t) * rows * columns);
    int *room = malloc(sizeof(int) * 2 * columns);
    if (g != NULL && room != NULL) {
        down_columns(mask, g, rows, columns, rows + columns);
        for (int y = 0; y < rows; y++) {
            along_row(g + (size_t)y * columns, into + (size_t)y * columns, columns, room, room + columns);
        }
        roots(into, (Py_ssize_t)rows * columns);
    }
    int lost = g == NULL || room == NULL;
    free(g);
    free(room);
    return lost ? -1 : 0;
}

/* distances(mask, target, rows, columns): the mask has a zero somewhere */
PyObject *pixels_distances(PyObject *module, PyObject *args) {
    PyObject *mask, *target;
    int rows, columns, lost;
    Py_buffer in, out;
    (void)module;
    if (!PyArg_ParseTuple(args, "OOii", &mask, &target, &rows, &columns)) {
        return NULL;
    }
    if (rows < 1 || columns < 1 || rows > 32767 || columns > 32767) {
        PyErr_SetString(PyExc_ValueError, "not an image");
        return NULL;
    }
    Py_ssize_t count = (Py_ssize_t)rows * columns;
    if (pixels_view(mask, &in, 0, count) < 0) {
        return NULL;
    }
    if (pixels_view(target, &out, 1, count * 8) < 0) {
        PyBuffer_Release(&in);
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS lost = all_distances(in.buf, out.buf, rows, columns);
    Py_END_ALLOW_THREADS
    PyBuffer_Release(&in);
    PyBuffer_Release(&out);
    return lost ? PyErr_NoMemory() : Py_NewRef(Py_None);
}
