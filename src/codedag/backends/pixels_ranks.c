/* The element of a rank among those of a window around each place, for many places side by side.

   Greatest (or least) elements are carried out of the window one by one until the one that is wanted is the next.
   Only choices are made among elements, so that any order of the work gives the same. */
#include "pixels.h"

#include <string.h>

#if HAVE_AVX2_CODE
#include <immintrin.h>
#endif

#define MOST 64 /* elements of a window */
#define BYTES 32 /* of a vector */

typedef struct {
    const char *from; /* rows of `stride` elements: the first is what the first window begins with */
    char *into; /* rows of `width` elements */
    Py_ssize_t rows, width, stride;
    const int32_t *offsets; /* of the elements of a window, from its place in `from` */
    int count, rank;
} Ranks;

/* `high`: greatest elements are carried out, else least ones. `less` and `more` are of the element that is carried and
   the next one. */
#define CHOOSE(vector, load, store, less, more)                                                                        \
    const int high = 2 * t->rank >= t->count, turns = high ? t->count - t->rank : t->rank + 1;                         \
    for (int i = 0; i < t->count; i++) {                                                                               \
        load(window[i], from + t->offsets[i]);                                                                         \
    }                                                                                                                  \
    out = window[0];                                                                                                   \
    for (int turn = 0; turn < turns; turn++) {                                                                         \
        out = window[0];                                                                                               \
        if (high) {                                                                                                    \
            for (int i = 1; i < t->count - turn; i++) {                                                                \
                const vector one = window[i];                                                                          \
                window[i - 1] = less(one, out);                                                                        \
                out = more(one, out);                                                                                  \
            }                                                                                                          \
        } else {                                                                                                       \
            for (int i = 1; i < t->count - turn; i++) {                                                                \
                const vector one = window[i];                                                                          \
                window[i - 1] = more(one, out);                                                                        \
                out = less(one, out);                                                                                  \
            }                                                                                                          \
        }                                                                                                              \
    }                                                                                                                  \
    store(into, out);

/* The last vector of a row overlaps the one before it. */
#define EACH(type, lanes, at)                                                                                          \
    for (Py_ssize_t row = 0; row < t->rows; row++) {                                                                   \
        const type *from = (const type *)t->from + row * t->stride;                                                    \
        type *into = (type *)t->into + row * t->width;                                                                 \
        for (Py_ssize_t place = 0; place < t->width; place += lanes) {                                                 \
            const Py_ssize_t here = place + lanes <= t->width ? place : t->width - lanes;                              \
            at(t, from + here, into + here);                                                                           \
        }                                                                                                              \
    }

#define LOAD_ONE(into, from) into = *(from)
#define STORE_ONE(into, value) *(into) = value
#define LESS(one, two) ((one) < (two) ? (one) : (two))
#define MORE(one, two) ((one) < (two) ? (two) : (one))

#define PLAIN(name, type)                                                                                              \
    static void name##_at(const Ranks *t, const type *from, type *into) {                                              \
        type window[MOST], out;                                                                                        \
        CHOOSE(type, LOAD_ONE, STORE_ONE, LESS, MORE)                                                                  \
    }                                                                                                                  \
    static void name(const Ranks *t) { EACH(type, 1, name##_at) }

#if HAVE_AVX2_CODE
#define LOAD_WHOLE(into, from) into = _mm256_loadu_si256((const __m256i *)(from))
#define STORE_WHOLE(into, value) _mm256_storeu_si256((__m256i *)(into), value)
#define LOAD_FLOATS(into, from) into = _mm256_loadu_ps(from)
#define STORE_FLOATS(into, value) _mm256_storeu_ps(into, value)
#define LOAD_DOUBLES(into, from) into = _mm256_loadu_pd(from)
#define STORE_DOUBLES(into, value) _mm256_storeu_pd(into, value)

#define RANKS(name, type, vector, load, store, less, more)                                                             \
    AVX2 static void wide_##name##_at(const Ranks *t, const type *from, type *into) {                                  \
        vector window[MOST], out;                                                                                      \
        CHOOSE(vector, load, store, less, more)                                                                        \
    }                                                                                                                  \
    AVX2 static void wide_##name(const Ranks *t) { EACH(type, (BYTES / (Py_ssize_t)sizeof(type)), wide_##name##_at) }  \
    PLAIN(plain_##name, type)                                                                                          \
    static void name(const Ranks *t) { (__builtin_cpu_supports("avx2") ? wide_##name : plain_##name)(t); }
#else
#define RANKS(name, type, ...) PLAIN(name, type)
#endif

RANKS(ranks_of_bytes, uint8_t, __m256i, LOAD_WHOLE, STORE_WHOLE, _mm256_min_epu8, _mm256_max_epu8)
RANKS(ranks_of_signed_bytes, int8_t, __m256i, LOAD_WHOLE, STORE_WHOLE, _mm256_min_epi8, _mm256_max_epi8)
RANKS(ranks_of_words, uint16_t, __m256i, LOAD_WHOLE, STORE_WHOLE, _mm256_min_epu16, _mm256_max_epu16)
RANKS(ranks_of_signed_words, int16_t, __m256i, LOAD_WHOLE, STORE_WHOLE, _mm256_min_epi16, _mm256_max_epi16)
RANKS(ranks_of_floats, float, __m256, LOAD_FLOATS, STORE_FLOATS, _mm256_min_ps, _mm256_max_ps)
RANKS(ranks_of_doubles, double, __m256d, LOAD_DOUBLES, STORE_DOUBLES, _mm256_min_pd, _mm256_max_pd)

static void (*kernel_of(int code, Py_ssize_t *size))(const Ranks *) {
    *size = code == 'B' || code == '?' || code == 'b' ? 1 : code == 'H' || code == 'h' ? 2 : code == 'f' ? 4 : 8;
    switch (code) {
    case '?': case 'B': return ranks_of_bytes;
    case 'b': return ranks_of_signed_bytes;
    case 'H': return ranks_of_words;
    case 'h': return ranks_of_signed_words;
    case 'f': return ranks_of_floats;
    case 'd': return ranks_of_doubles;
    default: return NULL;
    }
}

/* The bytes of `from` that are read; -1 if the window or the rank cannot be. */
static Py_ssize_t reach(const Ranks *t, Py_ssize_t size) {
    Py_ssize_t last = 0;
    if (t->count < 1 || t->count > MOST || t->rank < 0 || t->rank >= t->count || t->rows < 1 || t->width * size < BYTES) {
        return -1;
    }
    for (int i = 0; i < t->count; i++) {
        if (t->offsets[i] < 0) {
            return -1;
        }
        last = t->offsets[i] > last ? t->offsets[i] : last;
    }
    return ((t->rows - 1) * t->stride + t->width + last) * size;
}

static int check_and_run(Ranks *t, const Py_buffer *from, const Py_buffer *offsets, const Py_buffer *into, int code) {
    Py_ssize_t size;
    void (*kernel)(const Ranks *) = kernel_of(code, &size);
    t->from = from->buf, t->offsets = offsets->buf, t->into = into->buf;
    t->count = (int)(offsets->len / (Py_ssize_t)sizeof(int32_t));
    const Py_ssize_t needed = kernel == NULL ? -1 : reach(t, size);
    if (needed < 0 || needed > from->len || t->rows * t->width * size > into->len) {
        PyErr_SetString(PyExc_ValueError, "a window, a rank or memory that does not fit");
        return -1;
    }
    Py_BEGIN_ALLOW_THREADS
    kernel(t);
    Py_END_ALLOW_THREADS
    return 0;
}

/* ranks(from, into, code of the dtype, rows, width, stride, offsets, rank) */
PyObject *pixels_ranks(PyObject *module, PyObject *args) {
    PyObject *objects[3];
    Py_buffer views[3];
    Ranks t = {0};
    int code, held = 0, done = -1;
    (void)module;
    if (!PyArg_ParseTuple(args, "OOCnnnOi", &objects[0], &objects[2], &code, &t.rows, &t.width, &t.stride, &objects[1],
                          &t.rank)) {
        return NULL;
    }
    while (held < 3 && pixels_view(objects[held], &views[held], held == 2, 0) == 0) {
        held++;
    }
    if (held == 3) {
        done = check_and_run(&t, &views[0], &views[1], &views[2], code);
    }
    while (held > 0) {
        PyBuffer_Release(&views[--held]);
    }
    return done < 0 ? NULL : Py_NewRef(Py_None);
}
