/* Looking up an image between its pixels as scipy.ndimage does it: products with a weight per axis, rows first, added
   up from the first neighbour to the last, in double precision. */
#include "pixels.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MOST_TAPS 4
#define NEAR 1e-15 /* scipy's reflect takes what lies less before the first pixel for this much */

typedef struct {
    const char *from;
    char *into;
    int width, height, channels, out_width, out_height, taps;
    const int32_t *rows, *columns; /* per output and neighbour: where it lies; the first is -1 beyond the image */
    const double *row_weights, *column_weights;
    double constant;
    char code;
} Grid;

static inline Py_ssize_t size_of(char code) { return code == 'd' ? 8 : code == 'f' ? 4 : code == 'B' ? 1 : 0; }

static inline double element(const char *from, Py_ssize_t at, char code) {
    return code == 'd' ? ((const double *)from)[at] : code == 'f' ? ((const float *)from)[at] : ((const uint8_t *)from)[at];
}

static inline void put(char *into, Py_ssize_t at, double value, char code) {
    if (code == 'd') {
        ((double *)into)[at] = value;
    } else if (code == 'f') {
        ((float *)into)[at] = (float)value;
    } else {
        value = value > 0 ? value + 0.5 : 0;
        ((uint8_t *)into)[at] = (uint8_t)(value > 255 ? 255 : value);
    }
}

/* The rows of neighbours, each multiplied with its weight: these products are the same for all columns. */
static inline void weigh_rows(const Grid *t, int row, double *lines, const char code) {
    Py_ssize_t length = (Py_ssize_t)t->width * t->channels;
    for (int tap = 0; tap < t->taps; tap++) {
        Py_ssize_t base = t->rows[row * t->taps + tap] * length;
        double weight = t->row_weights[row * t->taps + tap];
        for (Py_ssize_t i = 0; i < length; i++) {
            lines[tap * length + i] = element(t->from, base + i, code) * weight;
        }
    }
}

static inline double total(const Grid *t, const double *lines, int column, int channel, const int taps) {
    const int32_t *places = t->columns + (Py_ssize_t)column * taps;
    const double *weights = t->column_weights + (Py_ssize_t)column * taps;
    Py_ssize_t length = (Py_ssize_t)t->width * t->channels;
    double sum = 0.0;
    for (int row = 0; row < taps; row++) {
        for (int tap = 0; tap < taps; tap++) {
            sum += lines[row * length + (Py_ssize_t)places[tap] * t->channels + channel] * weights[tap];
        }
    }
    return sum;
}

/* The same without rows that were multiplied before, for results that use few of their pixels. */
static inline double single(const Grid *t, int row, int column, int channel, const char code, const int taps) {
    const int32_t *rows = t->rows + (Py_ssize_t)row * taps, *places = t->columns + (Py_ssize_t)column * taps;
    const double *up = t->row_weights + (Py_ssize_t)row * taps, *side = t->column_weights + (Py_ssize_t)column * taps;
    double sum = 0.0;
    for (int i = 0; i < taps; i++) {
        for (int j = 0; j < taps; j++) {
            Py_ssize_t at = ((Py_ssize_t)rows[i] * t->width + places[j]) * t->channels + channel;
            sum += element(t->from, at, code) * up[i] * side[j];
        }
    }
    return sum;
}

static inline void few_columns(const Grid *t, int row, const char code, const int taps) {
    for (int column = 0; column < t->out_width; column++) {
        Py_ssize_t at = ((Py_ssize_t)row * t->out_width + column) * t->channels;
        int inside = t->columns[(Py_ssize_t)column * taps] >= 0;
        for (int channel = 0; channel < t->channels; channel++) {
            put(t->into, at + channel, inside ? single(t, row, column, channel, code, taps) : t->constant, code);
        }
    }
}

static inline void one_row(const Grid *t, int row, const double *lines, const char code, const int taps) {
    for (int column = 0; column < t->out_width; column++) {
        Py_ssize_t at = ((Py_ssize_t)row * t->out_width + column) * t->channels;
        int inside = t->columns[(Py_ssize_t)column * taps] >= 0;
        for (int channel = 0; channel < t->channels; channel++) {
            put(t->into, at + channel, inside ? total(t, lines, column, channel, taps) : t->constant, code);
        }
    }
}

static inline void grid_of(const Grid *t, double *lines, const char code, const int taps) {
    for (int row = 0; row < t->out_height; row++) {
        if (t->rows[row * taps] < 0) {
            Py_ssize_t at = (Py_ssize_t)row * t->out_width * t->channels;
            for (Py_ssize_t i = 0; i < (Py_ssize_t)t->out_width * t->channels; i++) {
                put(t->into, at + i, t->constant, code);
            }
        } else if (t->out_width < t->width / 2) {
            few_columns(t, row, code, taps);
        } else {
            weigh_rows(t, row, lines, code);
            one_row(t, row, lines, code, taps);
        }
    }
}

/* The loops are made for each dtype and number of neighbours. */
#define FOR_CODE(code)                                                                                                 \
    if (t->taps == 1) {                                                                                                \
        grid_of(t, lines, code, 1);                                                                                    \
    } else if (t->taps == 2) {                                                                                         \
        grid_of(t, lines, code, 2);                                                                                    \
    } else {                                                                                                           \
        grid_of(t, lines, code, 4);                                                                                    \
    }

WIDE static void grid_doubles(const Grid *t, double *lines) { FOR_CODE('d') }

WIDE static void grid_floats(const Grid *t, double *lines) { FOR_CODE('f') }

WIDE static void grid_bytes(const Grid *t, double *lines) { FOR_CODE('B') }

static int in_range(const int32_t *places, int outputs, int taps, int size) {
    for (int at = 0; at < outputs; at++) {
        int known = places[at * taps] >= 0;
        for (int tap = 0; tap < taps && known; tap++) {
            if (places[at * taps + tap] < 0 || places[at * taps + tap] >= size) {
                return 0;
            }
        }
    }
    return 1;
}

static int legal(const Grid *t, Py_buffer views[6]) {
    Py_ssize_t size = size_of(t->code);
    int sizes = t->width > 0 && t->height > 0 && t->channels > 0 && t->out_width > 0 && t->out_height > 0;
    sizes = sizes && (t->taps == 1 || t->taps == 2 || t->taps == 4) && size;
    sizes = sizes && views[0].len == size * t->width * t->height * t->channels;
    sizes = sizes && views[1].len == size * t->out_width * t->out_height * t->channels;
    sizes = sizes && views[2].len == (Py_ssize_t)4 * t->out_height * t->taps && views[4].len == 2 * views[2].len;
    sizes = sizes && views[3].len == (Py_ssize_t)4 * t->out_width * t->taps && views[5].len == 2 * views[3].len;
    return sizes && in_range(t->rows, t->out_height, t->taps, t->height) &&
           in_range(t->columns, t->out_width, t->taps, t->width);
}

static void run_grid(const Grid *t, double *lines) {
    (t->code == 'd' ? grid_doubles : t->code == 'f' ? grid_floats : grid_bytes)(t, lines);
}

/* grid(source, target, rows, columns, row weights, column weights, code, height, width, channels, out height,
        out width, taps, constant) */
PyObject *pixels_grid(PyObject *module, PyObject *args) {
    PyObject *objects[6];
    Grid t;
    Py_buffer views[6];
    int code, held = 0;
    (void)module;
    if (!PyArg_ParseTuple(args, "OOOOOOCiiiiiid", &objects[0], &objects[1], &objects[2], &objects[3], &objects[4],
                          &objects[5], &code, &t.height, &t.width, &t.channels, &t.out_height, &t.out_width, &t.taps,
                          &t.constant)) {
        return NULL;
    }
    while (held < 6 && pixels_view(objects[held], &views[held], held == 1, 0) == 0) {
        held++;
    }
    double *lines = NULL;
    if (held == 6) {
        t.from = views[0].buf;
        t.into = views[1].buf;
        t.rows = views[2].buf;
        t.columns = views[3].buf;
        t.row_weights = views[4].buf;
        t.column_weights = views[5].buf;
        t.code = (char)code;
        if (!legal(&t, views)) {
            PyErr_SetString(PyExc_ValueError, "the arrays do not fit together");
        } else if ((lines = malloc(sizeof(double) * t.taps * t.width * t.channels)) == NULL) {
            PyErr_NoMemory();
        } else {
            Py_BEGIN_ALLOW_THREADS run_grid(&t, lines);
            Py_END_ALLOW_THREADS
        }
    }
    free(lines);
    while (held > 0) {
        PyBuffer_Release(&views[--held]);
    }
    return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
}

/* Places by a matrix, linear or nearest; borders constant, nearest, mirror or reflect. */

enum { CONSTANT, NEAREST, MIRROR, REFLECT };

typedef struct {
    const char *from;
    char *into;
    int width, height, out_width, out_height, order, mode;
    double m[4], shift[2], constant;
    char code, out_code;
} Affine;

static inline double mirrored(double in, int size) {
    double round = 2.0 * size - 2.0;
    if (size <= 1) {
        return 0.0;
    }
    if (in < 0) {
        in = round * (double)(int64_t)(-in / round) + in;
        return in <= 1 - size ? in + round : -in;
    }
    in -= round * (double)(int64_t)(in / round);
    return in >= size ? round - in : in;
}

static inline double reflected(double in, int size) {
    double round = 2.0 * size;
    if (size <= 1) {
        return 0.0;
    }
    if (in < 0) {
        in = in < -round ? round * (double)(int64_t)(-in / round) + in : in;
        return in < -size ? in + round : (in > -NEAR ? NEAR : -in) - 1;
    }
    in -= round * (double)(int64_t)(in / round);
    return in >= size ? round - in - 1 : in;
}

/* Where a place lies within the image by the border's rule; -1 for a place that has the constant. */
static inline double mapped(double in, int size, int mode) {
    if (in >= 0 && in <= size - 1) {
        return in;
    }
    if (mode == CONSTANT) {
        return -1.0;
    }
    return mode == MIRROR ? mirrored(in, size) : reflected(in, size);
}

/* A neighbour beyond the image; scipy mirrors them where the border is constant. */
static inline int neighbour(int at, int size, int mode) {
    if (at >= 0 && at < size) {
        return at;
    }
    if (mode == NEAREST) {
        return at < 0 ? 0 : size - 1;
    }
    return (int)mapped(at, size, mode == CONSTANT ? MIRROR : mode);
}

/* The weights of the neighbours of a place, as scipy computes them for splines of order 1 and 3. */
static inline void spline(double part, double *w, const int order) {
    double rest = 1.0 - part;
    if (order == 1) {
        w[0] = rest;
        w[1] = 1.0 - rest; /* scipy makes the weights add up to 1 */
    } else {
        w[1] = (part * part * (part - 2.0) * 3.0 + 4.0) / 6.0;
        w[2] = (rest * rest * (rest - 2.0) * 3.0 + 4.0) / 6.0;
        w[0] = rest * rest * rest / 6.0;
        w[3] = 1.0 - w[0] - w[1] - w[2];
    }
}

static inline double at_place(const Affine *t, double y, double x, const char code, const int order) {
    if (order == 0) {
        int row = neighbour((int)floor(y + 0.5), t->height, t->mode);
        int column = neighbour((int)floor(x + 0.5), t->width, t->mode);
        return 0.0 + element(t->from, (Py_ssize_t)row * t->width + column, code);
    }
    double top = floor(y), left = floor(x), wy[4], wx[4], sum = 0.0;
    int first_row = (int)top - order / 2, first_column = (int)left - order / 2;
    Py_ssize_t rows[4], columns[4];
    spline(y - top, wy, order);
    spline(x - left, wx, order);
    for (int i = 0; i <= order; i++) {
        rows[i] = (Py_ssize_t)neighbour(first_row + i, t->height, t->mode) * t->width;
        columns[i] = neighbour(first_column + i, t->width, t->mode);
    }
    for (int i = 0; i <= order; i++) {
        for (int j = 0; j <= order; j++) {
            sum += element(t->from, rows[i] + columns[j], code) * wy[i] * wx[j];
        }
    }
    return sum;
}

static inline void affine_of(const Affine *t, const char code, const int order) {
    for (int row = 0; row < t->out_height; row++) {
        for (int column = 0; column < t->out_width; column++) {
            double y = t->shift[0], x = t->shift[1];
            y += row * t->m[0];
            y += column * t->m[1];
            x += row * t->m[2];
            x += column * t->m[3];
            if (t->mode != NEAREST) { /* scipy clamps only the neighbours then */
                y = mapped(y, t->height, t->mode);
                x = mapped(x, t->width, t->mode);
            }
            int inside = t->mode == NEAREST || (y > -1.0 && x > -1.0);
            double value = inside ? at_place(t, y, x, code, order) : t->constant;
            put(t->into, (Py_ssize_t)row * t->out_width + column, value, t->out_code);
        }
    }
}

#define EITHER(code)                                                                                                   \
    if (t->order) {                                                                                                    \
        affine_of(t, code, 1);                                                                                         \
    } else {                                                                                                           \
        affine_of(t, code, 0);                                                                                         \
    }

WIDE static void run_affine(const Affine *t) {
    if (t->order == 3) {
        affine_of(t, 'd', 3);
    } else if (t->code == 'd') {
        EITHER('d')
    } else if (t->code == 'f') {
        EITHER('f')
    } else {
        EITHER('B')
    }
}

/* places(source, target, code, code of the target, height, width, out height, out width, order, mode, (a, b, c, d), (y, x), constant) */
PyObject *pixels_places(PyObject *module, PyObject *args) {
    PyObject *source, *target;
    Affine t;
    Py_buffer in, out;
    int code, out_code;
    (void)module;
    if (!PyArg_ParseTuple(args, "OOCCiiiiii(dddd)(dd)d", &source, &target, &code, &out_code, &t.height, &t.width,
                          &t.out_height, &t.out_width, &t.order, &t.mode, t.m, t.m + 1, t.m + 2, t.m + 3, t.shift, t.shift + 1,
                          &t.constant)) {
        return NULL;
    }
    t.code = (char)code;
    t.out_code = (char)out_code;
    Py_ssize_t size = size_of(t.code);
    int sizes = t.width > 0 && t.height > 0 && t.out_width > 0 && t.out_height > 0 && size && size_of(t.out_code);
    sizes = sizes && (t.order == 0 || t.order == 1 || (t.order == 3 && t.code == 'd'));
    if (!sizes || t.mode < CONSTANT || t.mode > REFLECT) {
        PyErr_SetString(PyExc_ValueError, "not an image that can be looked up");
        return NULL;
    }
    if (pixels_view(source, &in, 0, size * t.width * t.height) < 0) {
        return NULL;
    }
    if (pixels_view(target, &out, 1, size_of(t.out_code) * t.out_width * t.out_height) < 0) {
        PyBuffer_Release(&in);
        return NULL;
    }
    t.from = in.buf;
    t.into = out.buf;
    Py_BEGIN_ALLOW_THREADS run_affine(&t);
    Py_END_ALLOW_THREADS
    PyBuffer_Release(&in);
    PyBuffer_Release(&out);
    Py_RETURN_NONE;
}
