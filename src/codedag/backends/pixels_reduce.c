/* An image of bytes made smaller by whole numbers: the mean of every block, in the whole numbers that Pillow has. */
#include "pixels.h"

#if HAVE_AVX2_CODE
#include <immintrin.h>
#endif

/* What a sum of so many bytes is multiplied by before its highest byte is taken: one over the number, in 24 bits. */
static uint32_t share(uint32_t number) {
    float most = (float)(256 * number);
    return (uint32_t)(4294967296.0f / most);
}

typedef struct {
    const uint8_t *source;
    uint8_t *into;
    Py_ssize_t width, step, left, top, across, down; /* of the image, of a pixel, of the box */
    Py_ssize_t by_x, by_y, wide;                     /* of a block, and blocks in a row */
    uint32_t mask;                                   /* bytes of a pixel that count */
} Job;

/* The sums of the columns of some rows. */
static void columns(const Job *job, const uint8_t *first, Py_ssize_t rows, uint16_t *sums) {
    Py_ssize_t number = job->across * job->step, stride = job->width * job->step;
    for (Py_ssize_t i = 0; i < number; i++) {
        sums[i] = first[i];
    }
    for (Py_ssize_t row = 1; row < rows; row++) {
        const uint8_t *line = first + row * stride;
        for (Py_ssize_t i = 0; i < number; i++) {
            sums[i] = (uint16_t)(sums[i] + line[i]);
        }
    }
}

/* The means of blocks of so many columns each, from their sums. */
static void means(const Job *job, const uint16_t *sums, Py_ssize_t from, Py_ssize_t to, Py_ssize_t columns,
                  Py_ssize_t rows, uint8_t *into) {
    uint32_t number = (uint32_t)(columns * rows), by = share(number);
    for (Py_ssize_t block = from; block < to; block++) {
        const uint16_t *start = sums + block * job->by_x * job->step;
        for (Py_ssize_t band = 0; band < job->step; band++) {
            uint32_t sum = number / 2;
            for (Py_ssize_t column = 0; column < columns; column++) {
                sum += start[column * job->step + band];
            }
            into[block * job->step + band] = job->mask >> (8 * band) & 1 ? (uint8_t)((sum * by) >> 24) : 0;
        }
    }
}

#if HAVE_AVX2_CODE
AVX2 static void columns_wide(const Job *job, const uint8_t *first, Py_ssize_t rows, uint16_t *sums) {
    Py_ssize_t number = job->across * job->step, stride = job->width * job->step, i = 0;
    for (; i + 16 <= number; i += 16) {
        __m256i sum = _mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i *)(first + i)));
        for (Py_ssize_t row = 1; row < rows; row++) {
            const uint8_t *line = first + row * stride + i;
            sum = _mm256_add_epi16(sum, _mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i *)line)));
        }
        _mm256_storeu_si256((__m256i *)(sums + i), sum);
    }
    for (; i < number; i++) {
        uint32_t sum = 0;
        for (Py_ssize_t row = 0; row < rows; row++) {
            sum += first[row * stride + i];
        }
        sums[i] = (uint16_t)sum;
    }
}

/* Four means of eight pairs of sums each way: pixels of one byte, blocks of two columns. */
AVX2 static Py_ssize_t pairs_wide(const uint16_t *sums, Py_ssize_t blocks, uint32_t number, uint8_t *into) {
    const __m256i ones = _mm256_set1_epi16(1), half = _mm256_set1_epi32((int)(number / 2));
    const __m256i by = _mm256_set1_epi32((int)share(number)), order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    Py_ssize_t block = 0;
    for (; block + 32 <= blocks; block += 32) {
        __m256i part[4];
        for (int each = 0; each < 4; each++) {
            __m256i two = _mm256_loadu_si256((const __m256i *)(sums + 2 * block + 16 * each));
            __m256i sum = _mm256_add_epi32(_mm256_madd_epi16(two, ones), half);
            part[each] = _mm256_srli_epi32(_mm256_mullo_epi32(sum, by), 24);
        }
        __m256i bytes = _mm256_packus_epi16(_mm256_packs_epi32(part[0], part[1]), _mm256_packs_epi32(part[2], part[3]));
        _mm256_storeu_si256((__m256i *)(into + block), _mm256_permutevar8x32_epi32(bytes, order));
    }
    return block;
}

/* Means of pixels of four bytes, two blocks at a time; how many are done. */
AVX2 static Py_ssize_t fours_wide(const Job *job, const uint16_t *sums, Py_ssize_t blocks, uint32_t number,
                                  uint8_t *into) {
    const __m256i half = _mm256_set1_epi32((int)(number / 2)), by = _mm256_set1_epi32((int)share(number));
    const __m128i order = _mm_setr_epi8(0, 4, 8, 12, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1);
    const __m128i mask = _mm_set1_epi32((int)((job->mask & 1 ? 0xFFu : 0) | (job->mask & 0x100 ? 0xFF00u : 0) |
                                              (job->mask & 0x10000 ? 0xFF0000u : 0) |
                                              (job->mask & 0x1000000 ? 0xFF000000u : 0)));
    Py_ssize_t block = 0, by_x = job->by_x;
    for (; block + 2 <= blocks; block += 2) {
        const uint16_t *one = sums + 4 * block * by_x, *other = one + 4 * by_x;
        __m256i sum = half;
        for (Py_ssize_t column = 0; column < by_x; column++) {
            __m128i both = _mm_unpacklo_epi64(_mm_loadl_epi64((const __m128i *)(one + 4 * column)),
                                              _mm_loadl_epi64((const __m128i *)(other + 4 * column)));
            sum = _mm256_add_epi32(sum, _mm256_cvtepu16_epi32(both));
        }
        sum = _mm256_srli_epi32(_mm256_mullo_epi32(sum, by), 24);
        __m128i low = _mm_shuffle_epi8(_mm256_castsi256_si128(sum), order);
        __m128i high = _mm_shuffle_epi8(_mm256_extracti128_si256(sum, 1), order);
        _mm_storel_epi64((__m128i *)(into + 4 * block), _mm_and_si128(_mm_unpacklo_epi32(low, high), mask));
    }
    return block;
}
#endif

static void reduce(const Job *job, uint16_t *sums) {
    Py_ssize_t whole = job->across / job->by_x, rest = job->across % job->by_x;
    uint8_t *into = job->into;
    for (Py_ssize_t row = 0; row < job->down; row += job->by_y, into += job->wide * job->step) {
        Py_ssize_t rows = job->down - row < job->by_y ? job->down - row : job->by_y, done = 0;
        const uint8_t *first = job->source + ((job->top + row) * job->width + job->left) * job->step;
#if HAVE_AVX2_CODE
        if (__builtin_cpu_supports("avx2")) {
            uint32_t number = (uint32_t)(rows * job->by_x);
            columns_wide(job, first, rows, sums);
            if (job->step == 4) {
                done = fours_wide(job, sums, whole, number, into);
            } else if (job->by_x == 2) {
                done = pairs_wide(sums, whole, number, into);
            }
        } else
#endif
            columns(job, first, rows, sums);
        means(job, sums, done, whole, job->by_x, rows, into);
        if (rest) {
            means(job, sums, whole, whole + 1, rest, rows, into);
        }
    }
}

/* reduce(source, width, height, step, target, left, top, right, bottom, by_x, by_y, mask) */
PyObject *pixels_reduce(PyObject *module, PyObject *args) {
    PyObject *objects[2];
    Py_buffer views[2];
    Py_ssize_t height, right, bottom;
    Job job;
    (void)module;
    if (!PyArg_ParseTuple(args, "OnnnOnnnnnnI", &objects[0], &job.width, &height, &job.step, &objects[1], &job.left,
                          &job.top, &right, &bottom, &job.by_x, &job.by_y, &job.mask)) {
        return NULL;
    }
    job.across = right - job.left;
    job.down = bottom - job.top;
    int inside = job.left >= 0 && job.top >= 0 && job.across > 0 && job.down > 0 && right <= job.width && bottom <= height;
    if (!inside || (job.step != 1 && job.step != 4) || job.by_x < 1 || job.by_y < 1 || job.by_x > 128 || job.by_y > 128) {
        PyErr_SetString(PyExc_ValueError, "reduce: an odd box or factor");
        return NULL;
    }
    job.wide = (job.across + job.by_x - 1) / job.by_x;
    Py_ssize_t high = (job.down + job.by_y - 1) / job.by_y;
    if (pixels_view(objects[0], &views[0], 0, job.width * height * job.step)) {
        return NULL;
    }
    if (pixels_view(objects[1], &views[1], 1, job.wide * high * job.step)) {
        PyBuffer_Release(&views[0]);
        return NULL;
    }
    uint16_t *sums = malloc((size_t)(job.across * job.step) * sizeof *sums);
    if (sums != NULL) {
        job.source = views[0].buf;
        job.into = views[1].buf;
        Py_BEGIN_ALLOW_THREADS reduce(&job, sums);
        Py_END_ALLOW_THREADS free(sums);
    }
    PyBuffer_Release(&views[0]);
    PyBuffer_Release(&views[1]);
    return sums != NULL ? Py_NewRef(Py_None) : PyErr_NoMemory();
}
