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
#include <immintrin.h>
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

#if HAVE_AVX2_CODE
/* Eight frames at eight frequencies, turned; `largest` has the bits of the largest numbers so far, without their signs. */
FUSED static inline void turn(const float *const *frames, Py_ssize_t k, float *room, __m256i *largest) {
    __m256 in[8], pairs[8], fours[8];
    const __m256i unsigned_bits = _mm256_set1_epi32(0x7fffffff);
    for (int i = 0; i < 8; i++) {
        in[i] = _mm256_loadu_ps(frames[i] + k);
        *largest = _mm256_max_epu32(*largest, _mm256_and_si256(_mm256_castps_si256(in[i]), unsigned_bits));
    }
    for (int i = 0; i < 4; i++) {
        pairs[2 * i] = _mm256_unpacklo_ps(in[2 * i], in[2 * i + 1]);
        pairs[2 * i + 1] = _mm256_unpackhi_ps(in[2 * i], in[2 * i + 1]);
    }
    for (int i = 0; i < 8; i += 4) {
        fours[i] = _mm256_shuffle_ps(pairs[i], pairs[i + 2], 0x44);
        fours[i + 1] = _mm256_shuffle_ps(pairs[i], pairs[i + 2], 0xee);
        fours[i + 2] = _mm256_shuffle_ps(pairs[i + 1], pairs[i + 3], 0x44);
        fours[i + 3] = _mm256_shuffle_ps(pairs[i + 1], pairs[i + 3], 0xee);
    }
    for (int i = 0; i < 4; i++) {
        _mm256_storeu_ps(room + i * LANES, _mm256_permute2f128_ps(fours[i], fours[i + 4], 0x20));
        _mm256_storeu_ps(room + (i + 4) * LANES, _mm256_permute2f128_ps(fours[i], fours[i + 4], 0x31));
    }
}

/* Brings the frequencies of 16 frames side by side, eight at a time; how many of them, and in `odd` if one is not finite. */
FUSED static Py_ssize_t gather_eights(const float *const *frames, Py_ssize_t bins, float *room, int *odd) {
    __m256i largest = _mm256_setzero_si256();
    uint32_t bits[8];
    Py_ssize_t k = 0;
    for (; k + 8 <= bins; k += 8) {
        turn(frames, k, room + k * LANES, &largest);
        turn(frames + 8, k, room + k * LANES + 8, &largest);
    }
    _mm256_storeu_si256((__m256i *)bits, largest);
    for (int i = 0; i < 8; i++) {
        *odd |= bits[i] >= 0x7f800000u;
    }
    return k;
}
#else
static Py_ssize_t gather_eights(const float *const *frames, Py_ssize_t bins, float *room, int *odd) {
    (void)frames, (void)bins, (void)room, (void)odd;
    return 0;
}
#endif

/* Brings up to LANES frames side by side; 0 if one of their values is not finite. */
FUSED static int gather(const Bank *t, Py_ssize_t first, Py_ssize_t count, float *room) {
    const float *frames[LANES];
    int odd = 0;
    for (Py_ssize_t i = 0; i < LANES; i++) {
        frames[i] = t->strength + (first + (i < count ? i : 0)) * t->bins;
    }
    for (Py_ssize_t k = gather_eights(frames, t->bins, room, &odd); k < t->bins; k++) {
        for (Py_ssize_t i = 0; i < LANES; i++) {
            odd |= !(fabsf(frames[i][k]) <= FLT_MAX);
            room[k * LANES + i] = frames[i][k];
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

#define BLOCK 32

/* Whether one of these weights is not zero, of either sign. */
static inline int is_filled(const uint32_t *weights, Py_ssize_t count) {
    uint32_t any = 0;
    for (Py_ssize_t k = 0; k < count; k++) {
        any |= weights[k] << 1;
    }
    return any != 0;
}

/* The first weight that is not zero, and the end of those that are not; none: twice 0. */
static void find_bounds(const uint32_t *weights, Py_ssize_t bins, int32_t *bounds) {
    Py_ssize_t low = 0, high = bins;
    while (low + BLOCK <= bins && !is_filled(weights + low, BLOCK)) {
        low += BLOCK;
    }
    while (low < bins && !is_filled(weights + low, 1)) {
        low++;
    }
    while (high - BLOCK >= low && !is_filled(weights + high - BLOCK, BLOCK)) {
        high -= BLOCK;
    }
    while (high > low && !is_filled(weights + high - 1, 1)) {
        high--;
    }
    bounds[0] = (int32_t)(low < bins ? low : 0);
    bounds[1] = (int32_t)(low < bins ? high : 0);
}

/* bank_bounds(bank, bounds, filters, bins): writes where the weights of each filter begin and end; how many lie between. */
PyObject *pixels_bank_bounds(PyObject *module, PyObject *args) {
    PyObject *bank, *bounds;
    Py_ssize_t filters, bins, total = 0;
    Py_buffer weights, into;
    (void)module;
    if (!PyArg_ParseTuple(args, "OOnn", &bank, &bounds, &filters, &bins) ||
        pixels_view(bank, &weights, 0, 4 * filters * bins) < 0) {
        return NULL;
    }
    if (pixels_view(bounds, &into, 1, 8 * filters) < 0) {
        PyBuffer_Release(&weights);
        return NULL;
    }
    int32_t *ends = into.buf;
    for (Py_ssize_t i = 0; i < filters; i++) {
        find_bounds((const uint32_t *)weights.buf + i * bins, bins, ends + 2 * i);
        total += ends[2 * i + 1] - ends[2 * i];
    }
    PyBuffer_Release(&into);
    PyBuffer_Release(&weights);
    return PyLong_FromSsize_t(total);
}
