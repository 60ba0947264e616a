/* Resampling of 8-bit images exactly as Pillow does it: whole-number weights of 22 bits, one pass per axis.

   Sums of whole numbers do not depend on their order, so the weights are split into two halves of 16 bits, whose
   products a processor adds up in pairs. */
#include "pixels.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#if HAVE_AVX2_CODE
#include <immintrin.h>
#endif

#define PRECISION 22
#define SPLIT 11
#define ROUND (1 << (PRECISION - 1))

static double box(double x) { return x > -0.5 && x <= 0.5 ? 1.0 : 0.0; }

static double bilinear(double x) {
    x = x < 0.0 ? -x : x;
    return x < 1.0 ? 1.0 - x : 0.0;
}

static double hamming(double x) {
    x = x < 0.0 ? -x : x;
    if (x == 0.0) {
        return 1.0;
    }
    if (x >= 1.0) {
        return 0.0;
    }
    x = x * M_PI;
    return sin(x) / x * (0.54f + 0.46f * cos(x)); /* Pillow's constants are of single precision */
}

static double bicubic(double x) {
    const double a = -0.5;
    x = x < 0.0 ? -x : x;
    if (x < 1.0) {
        return ((a + 2.0) * x - (a + 3.0)) * x * x + 1;
    }
    return x < 2.0 ? (((x - 5) * x + 8) * x - 4) * a : 0.0;
}

static double sinc(double x) {
    if (x == 0.0) {
        return 1.0;
    }
    x = x * M_PI;
    return sin(x) / x;
}

static double lanczos(double x) { return -3.0 <= x && x < 3.0 ? sinc(x) * sinc(x / 3) : 0.0; }

typedef double (*Shape)(double);
/* By Pillow's numbers of filters: 1 Lanczos, 2 bilinear, 3 bicubic, 4 box, 5 Hamming. */
static const struct {
    Shape shape;
    double support;
} filters[] = {{NULL, 0.0}, {lanczos, 3.0}, {bilinear, 1.0}, {bicubic, 2.0}, {box, 0.5}, {hamming, 1.0}};

static int whole(double weight) {
    return weight < 0 ? (int)(-0.5 + weight * (1 << PRECISION)) : (int)(0.5 + weight * (1 << PRECISION));
}

/* The weights of one output, and from where on they apply. */
static void weigh(int at, int in_size, double from, double scale, Shape shape, double support, double *row, int *bounds) {
    double wide = scale < 1.0 ? 1.0 : scale, centre = from + (at + 0.5) * scale, total = 0.0, step = 1.0 / wide;
    int first = (int)(centre - support + 0.5), last = (int)(centre + support + 0.5);
    first = first < 0 ? 0 : first;
    last = last > in_size ? in_size : last;
    for (int x = 0; x < last - first; x++) {
        row[x] = shape((x + first - centre + 0.5) * step);
        total += row[x];
    }
    for (int x = 0; x < last - first && total != 0.0; x++) {
        row[x] /= total;
    }
    bounds[0] = first;
    bounds[1] = last - first;
}

/* (outputs, places per output, bounds, high halves, low halves) */
PyObject *pixels_weights(PyObject *module, PyObject *args) {
    int in_size, out_size, filter;
    float in0, in1;
    (void)module;
    if (!PyArg_ParseTuple(args, "iffii", &in_size, &in0, &in1, &out_size, &filter)) {
        return NULL;
    }
    if (filter < 1 || filter > 5 || in_size < 1 || out_size < 1 || !(in1 > in0) || in0 < 0 || in1 > in_size) {
        PyErr_SetString(PyExc_ValueError, "not a filter and a range");
        return NULL;
    }
    double scale = (double)(in1 - in0) / out_size, support = filters[filter].support * (scale < 1.0 ? 1.0 : scale);
    int taps = (int)ceil(support) * 2 + 1, width = (taps + 7) / 8 * 8;
    PyObject *bounds = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)out_size * 2 * sizeof(int32_t));
    PyObject *high = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)out_size * width * sizeof(int16_t));
    PyObject *low = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)out_size * width * sizeof(int16_t));
    double *row = malloc(sizeof(double) * taps);
    if (bounds == NULL || high == NULL || low == NULL || row == NULL) {
        Py_XDECREF(bounds);
        Py_XDECREF(high);
        Py_XDECREF(low);
        free(row);
        return PyErr_NoMemory();
    }
    int16_t *upper = (int16_t *)PyBytes_AS_STRING(high), *lower = (int16_t *)PyBytes_AS_STRING(low);
    int32_t *places = (int32_t *)PyBytes_AS_STRING(bounds);
    memset(upper, 0, (size_t)out_size * width * sizeof(int16_t));
    memset(lower, 0, (size_t)out_size * width * sizeof(int16_t));
    for (int at = 0; at < out_size; at++) {
        weigh(at, in_size, in0, scale, filters[filter].shape, support, row, places + 2 * at);
        for (int x = 0; x < places[2 * at + 1]; x++) {
            int weight = whole(row[x]);
            upper[(size_t)at * width + x] = (int16_t)(weight >> SPLIT);
            lower[(size_t)at * width + x] = (int16_t)(weight & ((1 << SPLIT) - 1));
        }
    }
    free(row);
    return Py_BuildValue("(iiNNN)", out_size, width, bounds, high, low);
}

static inline uint8_t clip(int sum) {
    int value = sum >> PRECISION;
    return (uint8_t)(value < 0 ? 0 : value > 255 ? 255 : value);
}

static inline int joined(int upper, int lower) { return (int)(((uint32_t)upper << SPLIT) + (uint32_t)lower) + ROUND; }

/* The weights of outputs two by two, each as often as a pixel has channels: for both halves of a vector. */
typedef struct {
    int16_t *weights;
    int deep; /* turns of two inputs that the longest pair takes */
} Doubled;

static int depth_of(const Weights *w) {
    int most = 0;
    for (int at = 0; at < w->size; at++) {
        most = w->bounds[2 * at + 1] > most ? w->bounds[2 * at + 1] : most;
    }
    return (most + 1) / 2;
}

static void write_doubled(const Weights *w, Doubled *d) {
    for (int at = 0; at + 2 <= w->size; at += 2) {
        for (int x = 0; x < d->deep; x++) {
            int16_t *into = d->weights + ((size_t)(at / 2) * d->deep + x) * 32;
            for (int place = 0; place < 16; place++) {
                size_t from = (size_t)(at + place / 8) * w->width + 2 * x + place % 2;
                into[place] = w->high[from];
                into[16 + place] = w->low[from];
            }
        }
    }
}

/* Some pixels of 4 bytes of a row, without vectors. */
static void plain_row(const uint8_t *line, uint8_t *out, const Weights *w, int at, int end, uint32_t mask) {
    for (; at < end; at++) {
        const int16_t *high = w->high + (size_t)at * w->width, *low = w->low + (size_t)at * w->width;
        const uint8_t *from = line + (size_t)w->bounds[2 * at] * 4;
        for (int channel = 0; channel < 4; channel++) {
            int upper = 0, lower = 0;
            for (int x = 0; x < w->bounds[2 * at + 1]; x++) {
                upper += from[x * 4 + channel] * high[x];
                lower += from[x * 4 + channel] * low[x];
            }
            out[(size_t)at * 4 + channel] = clip(joined(upper, lower)) & (uint8_t)(mask >> (8 * channel));
        }
    }
}

static void plain_column(const uint8_t *from, size_t stride, uint8_t *out, size_t first, size_t last, const int16_t *high,
                         const int16_t *low, int taps, uint32_t mask) {
    for (size_t x = first; x < last; x++) {
        int upper = 0, lower = 0;
        for (int y = 0; y < taps; y++) {
            upper += from[stride * y + x] * high[y];
            lower += from[stride * y + x] * low[y];
        }
        out[x] = clip(joined(upper, lower)) & (uint8_t)(mask >> (8 * (x & 3)));
    }
}

#if HAVE_AVX2_CODE

AVX2 static inline __m256i shifted(__m256i upper, __m256i lower) {
    __m256i sum = _mm256_add_epi32(_mm256_slli_epi32(upper, SPLIT), lower);
    return _mm256_srai_epi32(_mm256_add_epi32(sum, _mm256_set1_epi32(ROUND)), PRECISION);
}

AVX2 static inline __m128i two_of(const uint8_t *one, const uint8_t *other) {
    __m128i a = _mm_loadl_epi64((const __m128i *)one), b = _mm_loadl_epi64((const __m128i *)other);
    return _mm_unpacklo_epi64(a, b);
}

/* Pixels of four bytes, two outputs at a time in the halves of a vector: of each two inputs, whose channels are paired.
   The weights beyond the last input are zero: all outputs take as many turns, which a processor foresees. */
AVX2 static inline __attribute__((always_inline)) void row4_of(const uint8_t *line, int in_width, uint8_t *out,
                                                               const Weights *w, const Doubled *d, uint32_t mask,
                                                               const int deep) {
    const __m128i pair = _mm_setr_epi8(0, 4, 1, 5, 2, 6, 3, 7, 8, 12, 9, 13, 10, 14, 11, 15);
    int at = 0;
    for (; at + 2 <= w->size; at += 2) {
        const int16_t *weights = d->weights + (size_t)(at / 2) * deep * 32;
        int first = w->bounds[2 * at], second = w->bounds[2 * at + 2];
        if ((first > second ? first : second) + 2 * deep > in_width) { /* not beyond the row: it may be the last one */
            plain_row(line, out, w, at, at + 2, mask);
            continue;
        }
        const uint8_t *one = line + (size_t)first * 4, *other = line + (size_t)second * 4;
        __m256i upper = _mm256_setzero_si256(), lower = _mm256_setzero_si256();
        for (int x = 0; x < deep; x++, one += 8, other += 8, weights += 32) {
            __m256i four = _mm256_cvtepu8_epi16(_mm_shuffle_epi8(two_of(one, other), pair));
            __m256i h = _mm256_loadu_si256((const __m256i *)weights), l = _mm256_loadu_si256((const __m256i *)(weights + 16));
            upper = _mm256_add_epi32(upper, _mm256_madd_epi16(four, h));
            lower = _mm256_add_epi32(lower, _mm256_madd_epi16(four, l));
        }
        __m256i words = _mm256_packs_epi32(shifted(upper, lower), _mm256_setzero_si256());
        __m128i bytes = _mm_unpacklo_epi64(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
        bytes = _mm_and_si128(_mm_packus_epi16(bytes, bytes), _mm_set1_epi32((int)mask));
        _mm_storel_epi64((__m128i *)(out + (size_t)at * 4), bytes);
    }
    plain_row(line, out, w, at, w->size, mask);
}

AVX2 static void row4(const uint8_t *line, int in_width, uint8_t *out, const Weights *w, const Doubled *d, uint32_t mask) {
    switch (d->deep) {
    case 1:
        row4_of(line, in_width, out, w, d, mask, 1);
        break;
    case 2:
        row4_of(line, in_width, out, w, d, mask, 2);
        break;
    case 3:
        row4_of(line, in_width, out, w, d, mask, 3);
        break;
    default:
        row4_of(line, in_width, out, w, d, mask, d->deep);
    }
}

/* One row of the result from rows below each other, 16 bytes at a time; gives how many bytes were done. */
AVX2 static size_t column16(const uint8_t *from, size_t stride, uint8_t *out, size_t nbytes, const int16_t *high,
                            const int16_t *low, int taps, uint32_t mask) {
    size_t x = 0;
    for (; x + 16 <= nbytes; x += 16) {
        __m256i upper0 = _mm256_setzero_si256(), upper1 = upper0, lower0 = upper0, lower1 = upper0;
        for (int y = 0; y < taps; y += 2) {
            const uint8_t *one = from + stride * y + x, *other = y + 1 < taps ? one + stride : one;
            __m128i a = _mm_loadu_si128((const __m128i *)one), b = _mm_loadu_si128((const __m128i *)other);
            __m256i left = _mm256_cvtepu8_epi16(_mm_unpacklo_epi8(a, b));
            __m256i right = _mm256_cvtepu8_epi16(_mm_unpackhi_epi8(a, b));
            int32_t both;
            memcpy(&both, high + y, 4);
            __m256i h = _mm256_set1_epi32(both);
            memcpy(&both, low + y, 4);
            __m256i l = _mm256_set1_epi32(both);
            upper0 = _mm256_add_epi32(upper0, _mm256_madd_epi16(left, h));
            upper1 = _mm256_add_epi32(upper1, _mm256_madd_epi16(right, h));
            lower0 = _mm256_add_epi32(lower0, _mm256_madd_epi16(left, l));
            lower1 = _mm256_add_epi32(lower1, _mm256_madd_epi16(right, l));
        }
        __m256i words = _mm256_packs_epi32(shifted(upper0, lower0), shifted(upper1, lower1));
        words = _mm256_permute4x64_epi64(words, 0xD8);
        __m128i bytes = _mm_packus_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
        _mm_storeu_si128((__m128i *)(out + x), _mm_and_si128(bytes, _mm_set1_epi32((int)mask)));
    }
    return x;
}

static int have_avx2(void) { return __builtin_cpu_supports("avx2"); }
#else
static int have_avx2(void) { return 0; }
#endif

static void one_row(const uint8_t *line, int in_width, uint8_t *out, const Weights *w, const Doubled *d, uint32_t mask) {
#if HAVE_AVX2_CODE
    if (have_avx2()) {
        row4(line, in_width, out, w, d, mask);
        return;
    }
#endif
    (void)in_width;
    (void)d;
    plain_row(line, out, w, 0, w->size, mask);
}

/* Four rows of one byte per pixel as one row of four; `rows` may be fewer than four. */
WIDE static void braid(const uint8_t *from, size_t width, int rows, uint8_t *restrict into) {
    const uint8_t *a = from, *b = from + (rows > 1) * width, *c = b + (rows > 2) * width, *d = c + (rows > 3) * width;
    for (size_t x = 0; x < width; x++) {
        uint32_t four = a[x] | (uint32_t)b[x] << 8 | (uint32_t)c[x] << 16 | (uint32_t)d[x] << 24;
        memcpy(into + 4 * x, &four, 4);
    }
}

WIDE static void unbraid(const uint8_t *restrict from, size_t width, int rows, uint8_t *restrict into) {
    for (int row = 0; row < rows; row++) {
        for (size_t x = 0; x < width; x++) {
            into[width * row + x] = from[4 * x + row];
        }
    }
}

/* Up to four rows at once: `room` holds four input rows and four output rows. */
static void four_rows(const uint8_t *line, int in_width, int rows, uint8_t *out, const Weights *w, const Doubled *d,
                      uint8_t *room) {
    uint8_t *done = room + (size_t)in_width * 4;
    braid(line, (size_t)in_width, rows, room);
    one_row(room, in_width, done, w, d, 0xFFFFFFFFu);
    unbraid(done, (size_t)w->size, rows, out);
}

typedef struct {
    const uint8_t *source;
    uint8_t *target, *between, *room;
    int width, height, step;
    uint32_t mask;
    const Weights *across, *down; /* a missing table leaves its axis as it is */
    Doubled doubled;
} Task;

static void rows_across(const Task *t, const uint8_t *from, int rows, uint8_t *into) {
    const Weights *w = t->across;
    size_t in_stride = (size_t)t->width * t->step, stride = (size_t)w->size * t->step;
    for (int row = 0; row < rows; row += t->step == 4 ? 1 : 4) {
        const uint8_t *line = from + in_stride * row;
        uint8_t *out = into + stride * row;
        if (t->step == 4) {
            one_row(line, t->width, out, w, &t->doubled, t->mask);
        } else {
            four_rows(line, t->width, rows - row < 4 ? rows - row : 4, out, w, &t->doubled, t->room);
        }
    }
}

static void one_column(const uint8_t *from, size_t stride, uint8_t *out, size_t nbytes, const int16_t *high,
                       const int16_t *low, int taps, uint32_t mask) {
    size_t done = 0;
#if HAVE_AVX2_CODE
    if (have_avx2()) {
        done = column16(from, stride, out, nbytes, high, low, taps, mask);
    }
#endif
    plain_column(from, stride, out, done, nbytes, high, low, taps, mask);
}

static void rows_down(const uint8_t *from, size_t stride, uint8_t *into, const Weights *w, int first, uint32_t mask) {
    for (int row = 0; row < w->size; row++) {
        const int16_t *high = w->high + (size_t)row * w->width, *low = w->low + (size_t)row * w->width;
        one_column(from + stride * (w->bounds[2 * row] - first), stride, into + stride * row, stride, high, low,
                   w->bounds[2 * row + 1], mask);
    }
}

/* Across first, over the rows that are needed, then down. */
static void across_first(const Task *t) {
    const Weights *down = t->down;
    int first = down ? down->bounds[0] : 0;
    int last = down ? down->bounds[2 * down->size - 2] + down->bounds[2 * down->size - 1] : t->height;
    size_t in_stride = (size_t)t->width * t->step, stride = t->across ? (size_t)t->across->size * t->step : in_stride;
    const uint8_t *from = t->source + in_stride * first;
    if (t->across) {
        uint8_t *into = down ? t->between : t->target;
        rows_across(t, from, last - first, into);
        from = into;
    }
    if (down) {
        rows_down(from, stride, t->target, down, first, t->mask);
    }
}

/* Pillow goes down first where the height shrinks by more than twice what the width shrinks by. */
static void run(const Task *t) {
    int shrinks = t->across && t->down && t->down->size < t->height;
    if (shrinks && t->height - t->down->size > 2 * (t->width - t->across->size)) {
        rows_down(t->source, (size_t)t->width * t->step, t->between, t->down, 0, t->mask);
        rows_across(t, t->between, t->down->size, t->target);
    } else {
        across_first(t);
    }
}

/* The table behind a tuple of pixels_weights, or NULL for None; -1 if it does not fit the axis. */
static int table_of(PyObject *object, Weights *w, const Weights **found, int in_size) {
    PyObject *bounds, *high, *low;
    *found = NULL;
    if (object == Py_None) {
        return 0;
    }
    if (!PyArg_ParseTuple(object, "iiSSS", &w->size, &w->width, &bounds, &high, &low)) {
        return -1;
    }
    w->bounds = (const int32_t *)PyBytes_AS_STRING(bounds);
    w->high = (const int16_t *)PyBytes_AS_STRING(high);
    w->low = (const int16_t *)PyBytes_AS_STRING(low);
    Py_ssize_t entries = (Py_ssize_t)w->size * w->width * 2;
    int fits = w->size > 0 && PyBytes_GET_SIZE(bounds) == (Py_ssize_t)w->size * 8;
    fits = fits && w->width % 2 == 0 && PyBytes_GET_SIZE(high) == entries && PyBytes_GET_SIZE(low) == entries;
    for (int at = 0; fits && at < w->size; at++) {
        int first = w->bounds[2 * at], taps = w->bounds[2 * at + 1];
        fits = first >= 0 && taps >= 0 && taps <= w->width && first + taps <= in_size;
    }
    if (!fits) {
        PyErr_SetString(PyExc_ValueError, "the table of weights does not fit the image");
        return -1;
    }
    *found = w;
    return 0;
}

static int task_of(PyObject *across, PyObject *down, Weights rooms[2], Task *t) {
    if (table_of(across, rooms, &t->across, t->width) < 0 || table_of(down, rooms + 1, &t->down, t->height) < 0) {
        return -1;
    }
    if (t->width < 1 || t->height < 1 || (t->step != 1 && t->step != 4) || (t->across == NULL && t->down == NULL)) {
        PyErr_SetString(PyExc_ValueError, "not an image that can be resampled");
        return -1;
    }
    return 0;
}

/* Room for the image between two passes, for four braided rows, and for the weights of pairs. */
static int make_room(Task *t) {
    size_t out_width = (size_t)(t->across ? t->across->size : t->width);
    size_t width = out_width > (size_t)t->width ? out_width : (size_t)t->width;
    size_t between = t->across && t->down ? width * t->step * t->height : 0;
    size_t pairs = t->across ? (size_t)(t->across->size / 2) * (t->doubled.deep = depth_of(t->across)) * 64 : 0;
    t->doubled.weights = malloc(pairs + between + ((size_t)t->width + out_width) * 4);
    if (t->doubled.weights == NULL) {
        return -1;
    }
    t->between = (uint8_t *)t->doubled.weights + pairs;
    t->room = t->between + between;
    if (pairs) {
        write_doubled(t->across, &t->doubled);
    }
    return 0;
}

/* resample(source, width, height, bytes per pixel, target, across, down, mask) */
PyObject *pixels_resample(PyObject *module, PyObject *args) {
    PyObject *source, *target, *across, *down;
    Weights rooms[2];
    Task t;
    Py_buffer in, out;
    (void)module;
    if (!PyArg_ParseTuple(args, "OiiiOOOI", &source, &t.width, &t.height, &t.step, &target, &across, &down, &t.mask) ||
        task_of(across, down, rooms, &t) < 0) {
        return NULL;
    }
    Py_ssize_t stride = (Py_ssize_t)(t.across ? t.across->size : t.width) * t.step;
    if (pixels_view(source, &in, 0, (Py_ssize_t)t.width * t.height * t.step) < 0) {
        return NULL;
    }
    if (pixels_view(target, &out, 1, stride * (t.down ? t.down->size : t.height)) < 0) {
        PyBuffer_Release(&in);
        return NULL;
    }
    t.source = in.buf;
    t.target = out.buf;
    int lost = make_room(&t) < 0;
    if (!lost) {
        Py_BEGIN_ALLOW_THREADS run(&t);
        Py_END_ALLOW_THREADS
        free(t.doubled.weights);
    }
    PyBuffer_Release(&in);
    PyBuffer_Release(&out);
    return lost ? PyErr_NoMemory() : Py_NewRef(Py_None);
}
