/* The product of a bank of filters with the columns of a spectrogram, in the order in which a matrix product sums up.

   BLAS goes through the frequencies in a few parts: in each one product after the other is added to a sum by fused
   operations, and the sums of the parts are added. Filters are zero nearly everywhere, and a zero adds nothing. */
#include "pixels.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define LANES 16

#if HAVE_AVX2_CODE
#define FUSED __attribute__((target("avx2,fma")))
#define HAVE_FUSED (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
#elif defined(__aarch64__) && defined(__GNUC__)
#define FUSED
#define HAVE_FUSED 1
#else
#define FUSED
#define HAVE_FUSED 0
#endif

typedef struct {
    const float *strength; /* one frame of `bins` frequencies after the other */
    float *into; /* one filter of `frames` after the other */
    Py_ssize_t frames, bins, filters, parts;
    const float *bank; /* one filter of `bins` weights after the other */
    const int32_t *bounds; /* per filter: the first weight that is not zero, and the end of them */
    const int32_t *ends; /* of the parts */
} Bank;

/* Brings up to LANES frames side by side; 0 if one of their values is not finite. */
FUSED static int gather(const Bank *t, Py_ssize_t first, Py_ssize_t count, float *room) {
    int odd = 0;
    for (Py_ssize_t i = 0; i < LANES; i++) {
        const float *frame = t->strength + (first + (i < count ? i : 0)) * t->bins;
        for (Py_ssize_t k = 0; k < t->bins; k++) {
            odd |= !(frame[k] <= FLT_MAX);
            room[k * LANES + i] = frame[k];
        }
    }
    return !odd;
}

FUSED static void filter_frames(const Bank *t, Py_ssize_t number, const float *room, float *total) {
    const float *weights = t->bank + number * t->bins;
    const Py_ssize_t low = t->bounds[2 * number], high = t->bounds[2 * number + 1];
    memset(total, 0, LANES * sizeof *total);
    for (Py_ssize_t part = 0, start = 0; part < t->parts; start = t->ends[part++]) {
        const Py_ssize_t from = low > start ? low : start, end = high < t->ends[part] ? high : t->ends[part];
        float sum[LANES] = {0};
        for (Py_ssize_t k = from; k < end; k++) {
            for (int i = 0; i < LANES; i++) {
                sum[i] = __builtin_fmaf(room[k * LANES + i], weights[k], sum[i]);
            }
        }
        for (int i = 0; i < LANES; i++) {
            total[i] += sum[i];
        }
    }
}

FUSED static int multiply(const Bank *t, float *room) {
    float total[LANES];
    for (Py_ssize_t first = 0; first < t->frames; first += LANES) {
        const Py_ssize_t left = t->frames - first, count = left < LANES ? left : LANES;
        if (!gather(t, first, count, room)) {
            return 0;
        }
        for (Py_ssize_t number = 0; number < t->filters; number++) {
            filter_frames(t, number, room, total);
            memcpy(t->into + number * t->frames + first, total, (size_t)count * sizeof *total);
        }
    }
    return 1;
}

/* Whether no filter reaches beyond its weights, and the parts go up to the last frequency. */
static int is_sound(const Bank *t) {
    Py_ssize_t before = 0;
    for (Py_ssize_t i = 0; i < t->filters; i++) {
        if (t->bounds[2 * i] < 0 || t->bounds[2 * i + 1] > t->bins) {
            return 0;
        }
    }
    for (Py_ssize_t i = 0; i < t->parts; i++) {
        if (t->ends[i] <= before) {
            return 0;
        }
        before = t->ends[i];
    }
    return before == t->bins;
}

static int run(Bank *t) {
    float *room = malloc((size_t)t->bins * LANES * sizeof(float));
    const int done = room != NULL && multiply(t, room);
    free(room);
    return done;
}

/* bank(strength, bank, bounds, ends, into, frames, bins, filters, parts): whether the product was made; it is not if a
   value of the spectrogram is not finite, or if this processor has no fused operations. */
PyObject *pixels_bank(PyObject *module, PyObject *args) {
    PyObject *objects[5];
    Py_buffer views[5];
    Bank t = {0};
    (void)module;
    if (!PyArg_ParseTuple(args, "OOOOOnnnn", &objects[0], &objects[1], &objects[2], &objects[3], &objects[4],
                          &t.frames, &t.bins, &t.filters, &t.parts)) {
        return NULL;
    }
    const Py_ssize_t least[5] = {4 * t.frames * t.bins, 4 * t.filters * t.bins, 8 * t.filters, 4 * t.parts,
                                 4 * t.filters * t.frames};
    int held = 0, done = 0;
    while (held < 5 && pixels_view(objects[held], &views[held], held == 4, least[held]) == 0) {
        held++;
    }
    if (held == 5) {
        t.strength = views[0].buf, t.bank = views[1].buf, t.bounds = views[2].buf, t.ends = views[3].buf;
        t.into = views[4].buf;
        if (!is_sound(&t)) {
            PyErr_SetString(PyExc_ValueError, "bounds or parts beyond the bank");
        } else if (HAVE_FUSED) {
            Py_BEGIN_ALLOW_THREADS
            done = run(&t);
            Py_END_ALLOW_THREADS
        }
    }
    while (held > 0) {
        PyBuffer_Release(&views[--held]);
    }
    return PyErr_Occurred() ? NULL : PyBool_FromLong(done);
}
