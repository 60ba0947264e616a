/* Moving pixels: mirrored, rotated and transposed images, and other layouts of the same bytes. */
#include "pixels.h"

#include <math.h>
#include <string.h>

#if HAVE_AVX2_CODE
#include <immintrin.h>
#endif

WIDE static void reversed4(const uint32_t *restrict from, uint32_t *restrict into, Py_ssize_t count) {
    for (Py_ssize_t x = 0; x < count; x++) {
        into[x] = from[count - 1 - x];
    }
}

WIDE static void reversed1(const uint8_t *restrict from, uint8_t *restrict into, Py_ssize_t count) {
    for (Py_ssize_t x = 0; x < count; x++) {
        into[x] = from[count - 1 - x];
    }
}

static void mirrored(const uint8_t *from, uint8_t *into, int width, int height, int step, int upside_down) {
    size_t stride = (size_t)width * step;
    for (int row = 0; row < height; row++) {
        uint8_t *target = into + stride * (upside_down ? height - 1 - row : row);
        if (step == 4) {
            reversed4((const uint32_t *)(from + stride * row), (uint32_t *)target, width);
        } else {
            reversed1(from + stride * row, target, width);
        }
    }
}

/* Columns become rows; the rows or the columns of the result may be counted from the end. */
typedef struct {
    const uint8_t *from;
    uint8_t *into;
    int width, height, step, rows_back, columns_back;
} Turn;

static inline const uint8_t *source_at(const Turn *t, int row, int column) {
    return t->from + ((size_t)row * t->width + column) * t->step;
}

/* Where the pixel of a source column goes that comes from the source's row `row` (or the last row, counted back). */
static inline uint8_t *target_at(const Turn *t, int column, int row) {
    int target_row = t->rows_back ? t->width - 1 - column : column;
    int target_column = t->columns_back ? t->height - 1 - row : row;
    return t->into + ((size_t)target_row * t->height + target_column) * t->step;
}

static void turn_plain(const Turn *t, int row0, int row1, int column0, int column1) {
    for (int column = column0; column < column1; column++) {
        for (int row = row0; row < row1; row++) {
            memcpy(target_at(t, column, row), source_at(t, row, column), (size_t)t->step);
        }
    }
}

#if HAVE_AVX2_CODE
/* 8 x 8 pixels of four bytes. */
AVX2 static void turn_block4(const Turn *t, int row, int column) {
    __m256i r[8], s[8];
    for (int i = 0; i < 8; i++) {
        r[i] = _mm256_loadu_si256((const __m256i *)source_at(t, t->columns_back ? row + 7 - i : row + i, column));
    }
    for (int i = 0; i < 4; i++) {
        s[2 * i] = _mm256_unpacklo_epi32(r[2 * i], r[2 * i + 1]);
        s[2 * i + 1] = _mm256_unpackhi_epi32(r[2 * i], r[2 * i + 1]);
    }
    for (int i = 0; i < 2; i++) {
        r[4 * i] = _mm256_unpacklo_epi64(s[4 * i], s[4 * i + 2]);
        r[4 * i + 1] = _mm256_unpackhi_epi64(s[4 * i], s[4 * i + 2]);
        r[4 * i + 2] = _mm256_unpacklo_epi64(s[4 * i + 1], s[4 * i + 3]);
        r[4 * i + 3] = _mm256_unpackhi_epi64(s[4 * i + 1], s[4 * i + 3]);
    }
    int start = t->columns_back ? row + 7 : row;
    for (int i = 0; i < 4; i++) {
        __m256i upper = _mm256_permute2x128_si256(r[i], r[i + 4], 0x20);
        __m256i lower = _mm256_permute2x128_si256(r[i], r[i + 4], 0x31);
        _mm256_storeu_si256((__m256i *)target_at(t, column + i, start), upper);
        _mm256_storeu_si256((__m256i *)target_at(t, column + i + 4, start), lower);
    }
}

/* 8 x 8 pixels of one byte. */
AVX2 static void turn_block1(const Turn *t, int row, int column) {
    __m128i r[8], s[4];
    for (int i = 0; i < 8; i++) {
        r[i] = _mm_loadl_epi64((const __m128i *)source_at(t, t->columns_back ? row + 7 - i : row + i, column));
    }
    for (int i = 0; i < 4; i++) {
        s[i] = _mm_unpacklo_epi8(r[2 * i], r[2 * i + 1]);
    }
    __m128i a = _mm_unpacklo_epi16(s[0], s[1]), b = _mm_unpackhi_epi16(s[0], s[1]);
    __m128i c = _mm_unpacklo_epi16(s[2], s[3]), d = _mm_unpackhi_epi16(s[2], s[3]);
    __m128i done[4] = {_mm_unpacklo_epi32(a, c), _mm_unpackhi_epi32(a, c), _mm_unpacklo_epi32(b, d),
                       _mm_unpackhi_epi32(b, d)};
    int start = t->columns_back ? row + 7 : row;
    for (int i = 0; i < 4; i++) {
        _mm_storel_epi64((__m128i *)target_at(t, column + 2 * i, start), done[i]);
        _mm_storel_epi64((__m128i *)target_at(t, column + 2 * i + 1, start), _mm_srli_si128(done[i], 8));
    }
}
#endif

static void turn_all(const Turn *t) {
    int rows = 0, columns = 0;
#if HAVE_AVX2_CODE
    if (__builtin_cpu_supports("avx2")) {
        rows = t->height / 8 * 8;
        columns = t->width / 8 * 8;
        for (int column0 = 0; column0 < columns; column0 += 64) { /* a strip stays in the cache */
            for (int row = 0; row < rows; row += 8) {
                int end = column0 + 64 < columns ? column0 + 64 : columns;
                for (int column = column0; column < end; column += 8) {
                    if (t->step == 4) {
                        turn_block4(t, row, column);
                    } else {
                        turn_block1(t, row, column);
                    }
                }
            }
        }
    }
#endif
    turn_plain(t, rows, t->height, 0, columns);
    turn_plain(t, 0, t->height, columns, t->width);
}

/* The methods by Pillow's numbers. */
void pixels_turn_by(int method, const uint8_t *from, uint8_t *into, int width, int height, int step) {
    Turn t = {from, into, width, height, step, method == 2 || method == 6, method == 4 || method == 6};
    size_t stride = (size_t)width * step;
    if (method == 0 || method == 3) {
        mirrored(from, into, width, height, step, method == 3);
    } else if (method == 1) {
        for (int row = 0; row < height; row++) {
            memcpy(into + stride * (height - 1 - row), from + stride * row, stride);
        }
    } else {
        turn_all(&t);
    }
}

/* turn(source, width, height, bytes per pixel, target, method) */
PyObject *pixels_turn(PyObject *module, PyObject *args) {
    PyObject *source, *target;
    int width, height, step, method;
    Py_buffer in, out;
    (void)module;
    if (!PyArg_ParseTuple(args, "OiiiOi", &source, &width, &height, &step, &target, &method)) {
        return NULL;
    }
    if (width < 1 || height < 1 || (step != 1 && step != 4) || method < 0 || method > 6) {
        PyErr_SetString(PyExc_ValueError, "not an image and a way to turn it");
        return NULL;
    }
    Py_ssize_t nbytes = (Py_ssize_t)width * height * step;
    if (pixels_view(source, &in, 0, nbytes) < 0) {
        return NULL;
    }
    if (pixels_view(target, &out, 1, nbytes) < 0) {
        PyBuffer_Release(&in);
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS pixels_turn_by(method, in.buf, out.buf, width, height, step);
    Py_END_ALLOW_THREADS
    PyBuffer_Release(&in);
    PyBuffer_Release(&out);
    Py_RETURN_NONE;
}

/* Layouts and modes. */

static void pack_plain(const uint8_t *from, uint8_t *into, Py_ssize_t first, Py_ssize_t count) {
    for (Py_ssize_t i = first; i < count; i++) {
        memcpy(into + 3 * i, from + 4 * i, 3);
    }
}

static void unpack_plain(const uint8_t *from, uint8_t *into, Py_ssize_t first, Py_ssize_t count) {
    for (Py_ssize_t i = first; i < count; i++) {
        memcpy(into + 4 * i, from + 3 * i, 3);
        into[4 * i + 3] = 255;
    }
}

#if HAVE_AVX2_CODE
AVX2 static Py_ssize_t pack_wide(const uint8_t *from, uint8_t *into, Py_ssize_t count) {
    const __m128i tight = _mm_setr_epi8(0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, -1, -1, -1, -1);
    Py_ssize_t i = 0;
    for (; i + 6 <= count; i += 4) { /* four bytes too many are written, so two more pixels must follow */
        __m128i four = _mm_loadu_si128((const __m128i *)(from + 4 * i));
        _mm_storeu_si128((__m128i *)(into + 3 * i), _mm_shuffle_epi8(four, tight));
    }
    return i;
}

AVX2 static Py_ssize_t unpack_wide(const uint8_t *from, uint8_t *into, Py_ssize_t count) {
    const __m128i loose = _mm_setr_epi8(0, 1, 2, -1, 3, 4, 5, -1, 6, 7, 8, -1, 9, 10, 11, -1);
    const __m128i full = _mm_set1_epi32((int)0xFF000000u);
    Py_ssize_t i = 0;
    for (; i + 6 <= count; i += 4) {
        __m128i four = _mm_loadu_si128((const __m128i *)(from + 3 * i));
        _mm_storeu_si128((__m128i *)(into + 4 * i), _mm_or_si128(_mm_shuffle_epi8(four, loose), full));
    }
    return i;
}
#endif

static void pack(const uint8_t *from, uint8_t *into, Py_ssize_t count) {
    Py_ssize_t done = 0;
#if HAVE_AVX2_CODE
    done = __builtin_cpu_supports("avx2") ? pack_wide(from, into, count) : 0;
#endif
    pack_plain(from, into, done, count);
}

static void unpack(const uint8_t *from, uint8_t *into, Py_ssize_t count) {
    Py_ssize_t done = 0;
#if HAVE_AVX2_CODE
    done = __builtin_cpu_supports("avx2") ? unpack_wide(from, into, count) : 0;
#endif
    unpack_plain(from, into, done, count);
}

/* Luma as Pillow rounds it. */
WIDE static void luma(const uint32_t *restrict from, uint8_t *restrict into, Py_ssize_t count) {
    for (Py_ssize_t i = 0; i < count; i++) {
        uint32_t pixel = from[i], red = pixel & 255, green = (pixel >> 8) & 255, blue = (pixel >> 16) & 255;
        into[i] = (uint8_t)((red * 19595 + green * 38470 + blue * 7471 + 0x8000) >> 16);
    }
}

WIDE static uint64_t luma_total(const uint32_t *from, Py_ssize_t count) {
    uint64_t total = 0;
    for (Py_ssize_t at = 0; at < count; at += 4096) { /* so many fit into 32 bits, which wide instructions add up */
        uint32_t part = 0;
        for (Py_ssize_t i = at; i < (at + 4096 < count ? at + 4096 : count); i++) {
            uint32_t pixel = from[i], red = pixel & 255, green = (pixel >> 8) & 255, blue = (pixel >> 16) & 255;
            part += (red * 19595 + green * 38470 + blue * 7471 + 0x8000) >> 16;
        }
        total += part;
    }
    return total;
}

WIDE static uint64_t bytes_total(const uint8_t *from, Py_ssize_t count) {
    uint64_t total = 0;
    for (Py_ssize_t at = 0; at < count; at += 4096) {
        uint32_t part = 0;
        for (Py_ssize_t i = at; i < (at + 4096 < count ? at + 4096 : count); i++) {
            part += from[i];
        }
        total += part;
    }
    return total;
}

/* luma_total(source, pixels, step): the sum of the luma of RGBX (step 4) or L (step 1) */
PyObject *pixels_luma_total(PyObject *module, PyObject *args) {
    PyObject *source;
    Py_ssize_t count;
    int step;
    uint64_t total;
    Py_buffer in;
    (void)module;
    if (!PyArg_ParseTuple(args, "Oni", &source, &count, &step)) {
        return NULL;
    }
    if (count < 0 || (step != 1 && step != 4)) {
        PyErr_SetString(PyExc_ValueError, "not a number of pixels of one or four bytes");
        return NULL;
    }
    if (pixels_view(source, &in, 0, count * step) < 0) {
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS total = step == 4 ? luma_total(in.buf, count) : bytes_total(in.buf, count);
    Py_END_ALLOW_THREADS
    PyBuffer_Release(&in);
    return PyLong_FromUnsignedLongLong(total);
}

WIDE static void from_grey(const uint8_t *restrict from, uint32_t *restrict into, Py_ssize_t count) {
    for (Py_ssize_t i = 0; i < count; i++) {
        into[i] = from[i] * 0x010101u | 0xFF000000u;
    }
}

WIDE static void opaque(const uint32_t *restrict from, uint32_t *restrict into, Py_ssize_t count) {
    for (Py_ssize_t i = 0; i < count; i++) {
        into[i] = from[i] | 0xFF000000u;
    }
}

static const int SOURCE_BYTES[] = {4, 3, 4, 1, 4}, TARGET_BYTES[] = {3, 4, 1, 4, 4};

static void convert_by(int kind, const void *from, void *into, Py_ssize_t count) {
    switch (kind) {
    case 0: pack(from, into, count); break;
    case 1: unpack(from, into, count); break;
    case 2: luma(from, into, count); break;
    case 3: from_grey(from, into, count); break;
    default: opaque(from, into, count); break;
    }
}

/* convert(source, target, pixels, kind): 0 RGBX to RGB, 1 RGB to RGBX, 2 RGBX to L, 3 L to RGBX, 4 alpha set.
   Without a target the result is made, as bytes. */
PyObject *pixels_convert(PyObject *module, PyObject *args) {
    PyObject *source, *target;
    Py_ssize_t count;
    int kind;
    Py_buffer in, out;
    (void)module;
    if (!PyArg_ParseTuple(args, "OOni", &source, &target, &count, &kind)) {
        return NULL;
    }
    if (count < 0 || kind < 0 || kind > 4) {
        PyErr_SetString(PyExc_ValueError, "not a number of pixels and a kind");
        return NULL;
    }
    if (pixels_view(source, &in, 0, count * SOURCE_BYTES[kind]) < 0) {
        return NULL;
    }
    if (target == Py_None) {
        PyObject *made = PyBytes_FromStringAndSize(NULL, count * TARGET_BYTES[kind]);
        if (made != NULL) {
            Py_BEGIN_ALLOW_THREADS convert_by(kind, in.buf, PyBytes_AS_STRING(made), count);
            Py_END_ALLOW_THREADS
        }
        PyBuffer_Release(&in);
        return made;
    }
    if (pixels_view(target, &out, 1, count * TARGET_BYTES[kind]) < 0) {
        PyBuffer_Release(&in);
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS convert_by(kind, in.buf, out.buf, count);
    Py_END_ALLOW_THREADS
    PyBuffer_Release(&in);
    PyBuffer_Release(&out);
    Py_RETURN_NONE;
}
