/* Loops that albumentations runs over single pixels: pixels exchanged one after the other, and clusters of pixels. */
#include "pixels.h"

#include <stdlib.h>
#include <string.h>

typedef struct {
    char *pixels;
    Py_ssize_t height, width, step; /* bytes per pixel */
    Py_ssize_t margin, iterations, moves;
    const int64_t *by; /* per move and iteration: rows and columns */
    int copies; /* a pixel of several channels is a view: the second half of its exchange copies it onto itself */
} Glass;

static inline __attribute__((always_inline)) void exchange(char *one, char *other, const Py_ssize_t step, int copies) {
    char kept[8];
    if (copies) {
        memmove(one, other, (size_t)step);
        return;
    }
    memcpy(kept, one, (size_t)step);
    memcpy(one, other, (size_t)step);
    memcpy(other, kept, (size_t)step);
}

static void shake(const Glass *t) {
    Py_ssize_t index = 0;
    for (Py_ssize_t i = 0; i < t->iterations; i++) {
        for (Py_ssize_t h = t->height - t->margin; h > t->margin; h--) {
            for (Py_ssize_t w = t->width - t->margin; w > t->margin; w--, index++) {
                const int64_t *by = t->by + ((index % t->moves) * t->iterations + i) * 2;
                exchange(t->pixels + (h * t->width + w) * t->step,
                         t->pixels + ((h + by[0]) * t->width + w + by[1]) * t->step, t->step, t->copies);
            }
        }
    }
}

/* No move leaves the image, and the pixels that are moved lie in it. */
static int fits(const Glass *t, Py_ssize_t nbytes) {
    int sizes = t->height > 0 && t->width > 0 && t->step > 0 && (t->copies || t->step <= 8);
    sizes = sizes && nbytes == t->height * t->width * t->step && t->margin >= 1 && t->iterations >= 1 && t->moves >= 1;
    for (Py_ssize_t i = 0; sizes && i < t->moves * t->iterations * 2; i++) {
        sizes = t->by[i] >= -t->margin && t->by[i] < t->margin;
    }
    return sizes;
}

/* glass(pixels, height, width, bytes per pixel, margin, moves as int64 (n, iterations, 2), iterations, copies):
   changes the pixels */
PyObject *pixels_glass(PyObject *module, PyObject *args) {
    PyObject *target;
    Py_buffer out, by;
    Glass t;
    (void)module;
    if (!PyArg_ParseTuple(args, "Onnnny*ni", &target, &t.height, &t.width, &t.step, &t.margin, &by, &t.iterations,
                          &t.copies)) {
        return NULL;
    }
    if (t.iterations < 1 || by.len % (16 * t.iterations)) {
        PyErr_SetString(PyExc_ValueError, "not moves for each iteration");
    } else if (pixels_view(target, &out, 1, 0) == 0) {
        t.pixels = out.buf;
        t.by = by.buf;
        t.moves = by.len / (16 * t.iterations);
        if (fits(&t, out.len)) {
            Py_BEGIN_ALLOW_THREADS shake(&t);
            Py_END_ALLOW_THREADS
        } else {
            PyErr_SetString(PyExc_ValueError, "a move that leaves the image");
        }
        PyBuffer_Release(&out);
    }
    PyBuffer_Release(&by);
    return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
}

/* Clusters of pixels that are near in colour and place. */

typedef struct {
    const double *image; /* between 0 and 1 */
    int64_t *centres; /* x and y of each */
    int32_t *labels;
    double *distances;
    Py_ssize_t height, width, channels, count, step;
    double compactness;
} Clusters;

static inline Py_ssize_t least(Py_ssize_t a, Py_ssize_t b) { return a < b ? a : b; }

static inline Py_ssize_t most(Py_ssize_t a, Py_ssize_t b) { return a > b ? a : b; }

/* The pixels around one centre that are nearer to it than to any before; colours are added up from the first channel on. */
static inline __attribute__((always_inline)) void attract(const Clusters *t, Py_ssize_t at, const Py_ssize_t channels) {
    Py_ssize_t x = t->centres[2 * at], y = t->centres[2 * at + 1];
    Py_ssize_t left = most(0, x - t->step), right = least(t->width, x + t->step + 1);
    const double *self = t->image + (y * t->width + x) * channels;
    const double square = (double)(t->step * t->step);
    for (Py_ssize_t row = most(0, y - t->step); row < least(t->height, y + t->step + 1); row++) {
        for (Py_ssize_t column = left; column < right; column++) {
            Py_ssize_t place = row * t->width + column;
            double colour = 0;
            for (Py_ssize_t channel = 0; channel < channels; channel++) {
                double part = t->image[place * channels + channel] - self[channel];
                colour += part * part;
            }
            double space = (double)((row - y) * (row - y) + (column - x) * (column - x)) / square;
            double distance = colour + t->compactness * space;
            if (distance < t->distances[place]) {
                t->distances[place] = distance;
                t->labels[place] = (int32_t)at;
            }
        }
    }
}

/* Each centre in the middle of its pixels, cut to whole numbers; one without pixels stays. */
static void centre(const Clusters *t, int64_t *sums) {
    memset(sums, 0, (size_t)t->count * 3 * sizeof(int64_t));
    for (Py_ssize_t row = 0; row < t->height; row++) {
        for (Py_ssize_t column = 0; column < t->width; column++) {
            int32_t label = t->labels[row * t->width + column];
            if (label >= 0) {
                sums[3 * label] += column;
                sums[3 * label + 1] += row;
                sums[3 * label + 2]++;
            }
        }
    }
    for (Py_ssize_t at = 0; at < t->count; at++) {
        if (sums[3 * at + 2]) {
            t->centres[2 * at] = (int64_t)((double)sums[3 * at] / (double)sums[3 * at + 2]);
            t->centres[2 * at + 1] = (int64_t)((double)sums[3 * at + 1] / (double)sums[3 * at + 2]);
        }
    }
}

static void cluster(const Clusters *t, int64_t *sums, int iterations) {
    for (int i = 0; i < iterations; i++) {
        for (Py_ssize_t at = 0; at < t->count; at++) {
            if (t->channels == 3) {
                attract(t, at, 3);
            } else {
                attract(t, at, t->channels);
            }
        }
        centre(t, sums);
    }
}

static int legal(const Clusters *t, const Py_buffer v[4]) {
    Py_ssize_t pixels = t->height * t->width;
    int sizes = t->height > 0 && t->width > 0 && t->channels > 0 && t->channels < 8 && t->step > 0 && t->count > 0;
    sizes = sizes && v[0].len == pixels * t->channels * 8 && v[1].len == t->count * 16;
    sizes = sizes && v[2].len == pixels * 4 && v[3].len == pixels * 8;
    for (Py_ssize_t at = 0; sizes && at < t->count; at++) {
        sizes = t->centres[2 * at] >= 0 && t->centres[2 * at] < t->width && t->centres[2 * at + 1] >= 0 &&
                t->centres[2 * at + 1] < t->height;
    }
    return sizes;
}

static void run(Clusters *t, const Py_buffer v[4], int iterations) {
    t->image = v[0].buf;
    t->centres = v[1].buf;
    t->labels = v[2].buf;
    t->distances = v[3].buf;
    t->count = v[1].len / 16;
    int64_t *sums = legal(t, v) ? malloc((size_t)t->count * 3 * sizeof(int64_t)) : NULL;
    if (sums == NULL) {
        PyErr_SetString(PyExc_ValueError, "the arrays do not fit together, or there is no memory");
        return;
    }
    Py_BEGIN_ALLOW_THREADS cluster(t, sums, iterations);
    Py_END_ALLOW_THREADS
    free(sums);
}

/* clusters(image of float64, centres of int64, labels of int32, distances of float64, height, width, channels, step,
            compactness, iterations): fills labels and distances and moves the centres */
PyObject *pixels_clusters(PyObject *module, PyObject *args) {
    PyObject *objects[4];
    Clusters t;
    Py_buffer views[4];
    int iterations, held = 0;
    (void)module;
    if (!PyArg_ParseTuple(args, "OOOOnnnndi", &objects[0], &objects[1], &objects[2], &objects[3], &t.height, &t.width,
                          &t.channels, &t.step, &t.compactness, &iterations)) {
        return NULL;
    }
    while (held < 4 && pixels_view(objects[held], &views[held], held > 0, 0) == 0) {
        held++;
    }
    if (held == 4) {
        run(&t, views, iterations);
    }
    while (held > 0) {
        PyBuffer_Release(&views[--held]);
    }
    return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
}
