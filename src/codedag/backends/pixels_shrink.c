/* An image blurred along rows and columns and looked up on a grid, as scipy.ndimage does both, row by row: what is made
   of a few rows stays in the processor's cache, and rows that no result needs are not made.

   Sums are in double precision in scipy's order; after each axis they are cut to the dtype of the image, as scipy's are. */
#include "pixels.h"

#include <stdlib.h>
#include <string.h>

#define LANES 16
typedef double Four __attribute__((vector_size(4 * sizeof(double))));

typedef struct {
    const double *weights; /* the upper half of symmetric ones and the one in the middle; none: no blur */
    int reach; /* how many lie before the middle */
    const int32_t *places; /* for -reach .. n + reach: which element stands there */
} Blur;

typedef struct {
    const char *from;
    char *into;
    int height, width, channels, out_height, out_width;
    const int32_t *rows, *columns; /* two neighbours for each place of the result */
    const double *row_weights, *column_weights;
    const double *table; /* what each byte stands for */
    Blur down, across;
    double factor; /* where the table holds multiples of its second entry: that; else 0 */
    char code; /* of the image: f, d or B; bytes are looked up in the table */
} Shrink;

typedef struct {
    double *ring, *line, *sums; /* rows of the image; one row with its borders; sums along an axis */
    double *near[2], *far[2]; /* of two blurred rows: the first and the second neighbour of each column */
    int32_t *held, kept[2]; /* which row of the image is in each place of the ring, and which two are blurred */
    int slots;
} Room;

WIDE static void widen(const Shrink *t, int row, double *restrict into) {
    Py_ssize_t count = (Py_ssize_t)t->width * t->channels, at = row * count;
    if (t->code == 'd') {
        memcpy(into, (const double *)t->from + at, (size_t)count * sizeof(double));
    } else if (t->code == 'f') {
        const float *from = (const float *)t->from + at;
        for (Py_ssize_t i = 0; i < count; i++) {
            into[i] = from[i];
        }
    } else {
        const uint8_t *from = (const uint8_t *)t->from + at;
        const double factor = t->factor;
        for (Py_ssize_t i = 0; factor != 0 && i < count; i++) {
            into[i] = (double)from[i] * factor;
        }
        for (Py_ssize_t i = 0; factor == 0 && i < count; i++) {
            into[i] = t->table[from[i]];
        }
    }
}

static inline const double *row_of(const Shrink *t, Room *room, int row) {
    Py_ssize_t length = (Py_ssize_t)t->width * t->channels;
    int slot = row % room->slots;
    if (room->held[slot] != row) {
        widen(t, row, room->ring + slot * length);
        room->held[slot] = row;
    }
    return room->ring + slot * length;
}

/* The sums of `count` elements with their neighbours, which lie at the same places before[j] and after[j]; LANES more than
   there are may be read and written. Sums are cut to the dtype of the image before anything else is made of them. */
static inline __attribute__((always_inline)) void sums_of(const double *self, const double *const *before,
                                                          const double *const *after, const double *w, Py_ssize_t count,
                                                          double *restrict into, const int cut, const int reach) {
    for (Py_ssize_t first = 0; first < count; first += LANES) {
        Four total[LANES / 4], one, other;
        for (int i = 0; i < LANES / 4; i++) {
            memcpy(&one, self + first + 4 * i, sizeof one);
            total[i] = one * w[reach];
        }
        for (int j = 0; j < reach; j++) {
            for (int i = 0; i < LANES / 4; i++) {
                memcpy(&one, before[j] + first + 4 * i, sizeof one);
                memcpy(&other, after[j] + first + 4 * i, sizeof other);
                total[i] += (one + other) * w[j];
            }
        }
        double values[LANES];
        memcpy(values, total, sizeof values);
        for (int i = 0; i < LANES; i++) {
            into[first + i] = cut ? (double)(float)values[i] : values[i];
        }
    }
}

/* Loops over few weights are made for their number. */
#define SUMS(cut)                                                                                                      \
    switch (reach) {                                                                                                   \
    case 2: sums_of(self, before, after, w, count, into, cut, 2); break;                                               \
    case 4: sums_of(self, before, after, w, count, into, cut, 4); break;                                               \
    default: sums_of(self, before, after, w, count, into, cut, reach); break;                                          \
    }

WIDE static void sums_cut(const double *self, const double *const *before, const double *const *after, const double *w,
                          Py_ssize_t count, double *restrict into, int reach) {
    SUMS(1)
}

WIDE static void sums_whole(const double *self, const double *const *before, const double *const *after, const double *w,
                            Py_ssize_t count, double *restrict into, int reach) {
    SUMS(0)
}

/* The sums of a row of the image with the rows around it, in `into`. */
static void blur_down(const Shrink *t, Room *room, int row, double *into) {
    int reach = t->down.reach;
    const double *self = row_of(t, room, row), *before[reach + 1], *after[reach + 1];
    for (int j = 0; j < reach; j++) {
        before[j] = row_of(t, room, t->down.places[row + j]);
        after[j] = row_of(t, room, t->down.places[row + 2 * reach - j]);
    }
    Py_ssize_t count = (Py_ssize_t)t->width * t->channels;
    (t->code == 'f' ? sums_cut : sums_whole)(self, before, after, t->down.weights, count, into, reach);
}

/* The sums along the row in room->line, which gets its borders here. */
static void blur_across(const Shrink *t, Room *room) {
    const int32_t *places = t->across.places;
    int reach = t->across.reach;
    Py_ssize_t step = t->channels;
    double *line = room->line + reach * step;
    const double *before[reach + 1], *after[reach + 1];
    for (int beyond = 0; beyond < reach; beyond++) {
        int last = reach + t->width + beyond;
        memcpy(room->line + beyond * step, line + places[beyond] * step, (size_t)step * sizeof(double));
        memcpy(room->line + last * step, line + places[last] * step, (size_t)step * sizeof(double));
        before[beyond] = line - (reach - beyond) * step;
        after[beyond] = line + (reach - beyond) * step;
    }
    (t->code == 'f' ? sums_cut : sums_whole)(line, before, after, t->across.weights, t->width * step, room->sums, reach);
}

/* Elements of a row at the places of the result's columns; three channels are copied as four, of which one is lost. */
static inline __attribute__((always_inline)) void pick(const double *restrict from, const int32_t *restrict places,
                                                       double *restrict into, int count, const int channels) {
    for (int column = 0; column < count; column++) {
        const double *one = from + (Py_ssize_t)places[2 * column] * channels;
        memcpy(into + (Py_ssize_t)column * channels, one, (channels == 3 ? 4 : channels) * sizeof(double));
    }
}

/* The same straight from the image. */
static inline __attribute__((always_inline)) void pick_raw(const Shrink *t, int row, const int32_t *restrict places,
                                                           double *restrict into, const char code, const int channels) {
    Py_ssize_t base = (Py_ssize_t)row * t->width * channels;
    for (int column = 0; column < t->out_width; column++) {
        Py_ssize_t at = base + (Py_ssize_t)places[2 * column] * channels;
        for (int channel = 0; channel < channels; channel++) {
            into[(Py_ssize_t)column * channels + channel] = code == 'd'   ? ((const double *)t->from)[at + channel]
                                                            : code == 'f' ? ((const float *)t->from)[at + channel]
                                                                          : t->table[((const uint8_t *)t->from)[at + channel]];
        }
    }
}

#define PICK(code)                                                                                                     \
    if (t->channels == 1) {                                                                                            \
        pick_raw(t, row, places, into, code, 1);                                                                       \
    } else if (t->channels == 3) {                                                                                     \
        pick_raw(t, row, places, into, code, 3);                                                                       \
    } else {                                                                                                           \
        pick_raw(t, row, places, into, code, t->channels);                                                             \
    }

static void pick_any(const Shrink *t, const double *made, int row, const int32_t *places, double *into) {
    if (made != NULL && t->channels == 1) {
        pick(made, places, into, t->out_width, 1);
    } else if (made != NULL && t->channels == 3) {
        pick(made, places, into, t->out_width, 3);
    } else if (made != NULL) {
        pick(made, places, into, t->out_width, t->channels);
    } else if (t->code == 'd') {
        PICK('d')
    } else if (t->code == 'f') {
        PICK('f')
    } else {
        PICK('B')
    }
}

/* A blurred row, of which the neighbours of the result's columns are kept in place `which`. */
static void keep_row(const Shrink *t, Room *room, int row, int which) {
    double *line = room->line + t->across.reach * t->channels;
    const double *made = t->down.weights == NULL && t->across.weights == NULL ? NULL : line;
    if (t->down.weights != NULL) {
        blur_down(t, room, row, line);
    } else if (made != NULL) {
        memcpy(line, row_of(t, room, row), (size_t)t->width * t->channels * sizeof(double));
    }
    if (t->across.weights != NULL) {
        blur_across(t, room);
        made = room->sums;
    }
    pick_any(t, made, row, t->columns, room->near[which]);
    pick_any(t, made, row, t->columns + 1, room->far[which]);
    room->kept[which] = row;
}

WIDE static void one_row(const Shrink *t, const Room *room, int row, const int places[2], double *restrict into) {
    Py_ssize_t length = (Py_ssize_t)t->out_width * t->channels;
    const double up = t->row_weights[2 * row], low = t->row_weights[2 * row + 1];
    const double *restrict a = room->near[places[0]], *restrict b = room->far[places[0]];
    const double *restrict c = room->near[places[1]], *restrict d = room->far[places[1]];
    const double *restrict left = t->column_weights, *restrict right = t->column_weights + length;
    for (Py_ssize_t i = 0; i < length; i++) {
        into[i] = (((0.0 + a[i] * up * left[i]) + b[i] * up * right[i]) + c[i] * low * left[i]) + d[i] * low * right[i];
    }
}

WIDE static void narrow(const double *restrict from, float *restrict into, Py_ssize_t count) {
    for (Py_ssize_t i = 0; i < count; i++) {
        into[i] = (float)from[i];
    }
}

static void shrink(const Shrink *t, Room *room) {
    Py_ssize_t length = (Py_ssize_t)t->out_width * t->channels;
    for (int row = 0; row < t->out_height; row++) {
        int places[2];
        for (int tap = 0; tap < 2; tap++) {
            int wanted = t->rows[2 * row + tap];
            places[tap] = room->kept[1] == wanted;
            if (!places[tap] && room->kept[0] != wanted) { /* in the place of the one that this row does not need */
                places[tap] = tap ? !places[0] : room->kept[0] == t->rows[2 * row + 1];
                keep_row(t, room, wanted, places[tap]);
            }
        }
        if (t->code == 'f') {
            one_row(t, room, row, places, room->sums);
            narrow(room->sums, (float *)t->into + row * length, length);
        } else {
            one_row(t, room, row, places, (double *)t->into + row * length);
        }
    }
}

/* One piece of memory for everything, or NULL. */
static char *make_room(const Shrink *t, Room *room) {
    size_t length = (size_t)t->width * t->channels, wanted = (size_t)t->out_width * t->channels;
    int slots = 2 * t->down.reach + 2;
    room->slots = slots < t->height ? slots : t->height;
    size_t line = length + 2 * (size_t)t->across.reach * t->channels + 2 * LANES;
    size_t sums = (length > wanted ? length : wanted) + 2 * LANES, picked = wanted + 4;
    char *memory = calloc((length + 1) * room->slots + LANES + line + sums + 4 * picked, sizeof(double));
    if (memory == NULL) {
        return NULL;
    }
    room->ring = (double *)memory;
    room->line = room->ring + length * room->slots + LANES;
    room->sums = room->line + line;
    for (int i = 0; i < 2; i++) {
        room->near[i] = room->sums + sums + 2 * i * picked;
        room->far[i] = room->near[i] + picked;
        room->kept[i] = -1;
    }
    room->held = (int32_t *)(room->sums + sums + 4 * picked);
    memset(room->held, -1, (size_t)room->slots * sizeof(int32_t));
    return memory;
}

/* The second entry of a table of which all others are multiples; 0 for any other. */
static double factor_of(const double *table) {
    for (int i = 0; i < 256; i++) {
        if (table[i] != i * table[1]) {
            return 0;
        }
    }
    return table[1];
}

static int places_fit(const int32_t *places, Py_ssize_t count, int size) {
    for (Py_ssize_t i = 0; i < count; i++) {
        if (places[i] < 0 || places[i] >= size) {
            return 0;
        }
    }
    return 1;
}

/* A blur from its two views (empty ones: none), or 0 if they do not fit. */
static int blur_of(Blur *b, const Py_buffer *weights, const Py_buffer *places, int size) {
    b->weights = weights->len ? weights->buf : NULL;
    b->places = places->buf;
    b->reach = weights->len ? (int)(weights->len / 8) - 1 : 0;
    if (!weights->len) {
        return places->len == 0;
    }
    Py_ssize_t count = (Py_ssize_t)size + 2 * b->reach;
    return b->reach < 4096 && places->len == 4 * count && places_fit(b->places, count, size);
}

enum { SOURCE, TARGET, ROWS, COLUMNS, ROW_WEIGHTS, COLUMN_WEIGHTS, TABLE, DOWN, DOWN_PLACES, ACROSS, ACROSS_PLACES, VIEWS };

static int legal(Shrink *t, const Py_buffer v[VIEWS]) {
    int sizes = t->height > 0 && t->width > 0 && t->channels > 0 && t->out_height > 0 && t->out_width > 0;
    Py_ssize_t in = t->code == 'd' ? 8 : t->code == 'f' ? 4 : t->code == 'B' ? 1 : 0, out = t->code == 'f' ? 4 : 8;
    sizes = sizes && in && v[SOURCE].len == in * t->height * t->width * t->channels;
    sizes = sizes && v[TARGET].len == out * t->out_height * t->out_width * t->channels;
    sizes = sizes && v[ROWS].len == 8 * (Py_ssize_t)t->out_height && v[ROW_WEIGHTS].len == 2 * v[ROWS].len;
    sizes = sizes && v[COLUMNS].len == 8 * (Py_ssize_t)t->out_width;
    sizes = sizes && v[COLUMN_WEIGHTS].len == 16 * (Py_ssize_t)t->out_width * t->channels;
    sizes = sizes && (t->code != 'B' || v[TABLE].len == 2048);
    sizes = sizes && places_fit(t->rows, 2 * (Py_ssize_t)t->out_height, t->height);
    sizes = sizes && places_fit(t->columns, 2 * (Py_ssize_t)t->out_width, t->width);
    sizes = sizes && blur_of(&t->down, &v[DOWN], &v[DOWN_PLACES], t->height);
    return sizes && blur_of(&t->across, &v[ACROSS], &v[ACROSS_PLACES], t->width);
}

static void run(Shrink *t, const Py_buffer v[VIEWS]) {
    t->from = v[SOURCE].buf;
    t->into = v[TARGET].buf;
    t->rows = v[ROWS].buf;
    t->columns = v[COLUMNS].buf;
    t->row_weights = v[ROW_WEIGHTS].buf;
    t->column_weights = v[COLUMN_WEIGHTS].buf;
    t->table = v[TABLE].buf;
    if (!legal(t, v)) {
        PyErr_SetString(PyExc_ValueError, "the arrays do not fit together");
        return;
    }
    t->factor = t->code == 'B' ? factor_of(t->table) : 0;
    Room room;
    char *memory = make_room(t, &room);
    if (memory == NULL) {
        PyErr_NoMemory();
        return;
    }
    Py_BEGIN_ALLOW_THREADS shrink(t, &room);
    Py_END_ALLOW_THREADS
    free(memory);
}

/* shrink(source, target, rows, columns, row weights, column weights, table, weights down, places down, weights across,
          places across, code, height, width, channels, out height, out width)

   The column weights are those of all first neighbours, then of all second ones, for each channel. Weights of a blur
   are the upper half of symmetric ones with the middle as the last; empty ones leave the axis as it is. */
PyObject *pixels_shrink(PyObject *module, PyObject *args) {
    PyObject *o[VIEWS];
    Shrink t;
    Py_buffer views[VIEWS];
    int code, held = 0;
    (void)module;
    if (!PyArg_ParseTuple(args, "OOOOOOOOOOOCiiiii", &o[0], &o[1], &o[2], &o[3], &o[4], &o[5], &o[6], &o[7], &o[8], &o[9],
                          &o[10], &code, &t.height, &t.width, &t.channels, &t.out_height, &t.out_width)) {
        return NULL;
    }
    t.code = (char)code;
    while (held < VIEWS && pixels_view(o[held], &views[held], held == TARGET, 0) == 0) {
        held++;
    }
    if (held == VIEWS) {
        run(&t, views);
    }
    while (held > 0) {
        PyBuffer_Release(&views[--held]);
    }
    return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
}
