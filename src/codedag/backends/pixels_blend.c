/* Two images of bytes, one laid over the other by a constant share: in Pillow's single precision and order. */
#include "pixels.h"

#if HAVE_AVX2_CODE
#include <immintrin.h>
#endif

static void plain(const uint8_t *one, const uint8_t *other, uint8_t *into, Py_ssize_t from, Py_ssize_t number, float share) {
    for (Py_ssize_t i = from; i < number; i++) {
        float value = (float)one[i] + share * (float)(other[i] - one[i]);
        into[i] = value <= 0.0f ? 0 : value >= 255.0f ? 255 : (uint8_t)value;
    }
}

#if HAVE_AVX2_CODE
/* Eight values, cut off towards zero; who packs them also clips them. */
AVX2 static inline __m256i eight(const uint8_t *one, const uint8_t *other, __m256 share) {
    __m256i a = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)one));
    __m256i b = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)other));
    __m256 part = _mm256_mul_ps(share, _mm256_cvtepi32_ps(_mm256_sub_epi32(b, a)));
    return _mm256_cvttps_epi32(_mm256_add_ps(_mm256_cvtepi32_ps(a), part));
}

/* How many bytes are done, 32 at a time. */
AVX2 static Py_ssize_t wide(const uint8_t *one, const uint8_t *other, uint8_t *into, Py_ssize_t number, float share) {
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    __m256 by = _mm256_set1_ps(share);
    Py_ssize_t i = 0;
    for (; i + 32 <= number; i += 32) {
        __m256i a = _mm256_packs_epi32(eight(one + i, other + i, by), eight(one + i + 8, other + i + 8, by));
        __m256i b = _mm256_packs_epi32(eight(one + i + 16, other + i + 16, by), eight(one + i + 24, other + i + 24, by));
        __m256i bytes = _mm256_permutevar8x32_epi32(_mm256_packus_epi16(a, b), order);
        _mm256_storeu_si256((__m256i *)(into + i), bytes);
    }
    return i;
}
#endif

static void blend(const uint8_t *one, const uint8_t *other, uint8_t *into, Py_ssize_t number, float share) {
    Py_ssize_t done = 0;
#if HAVE_AVX2_CODE
    if (__builtin_cpu_supports("avx2")) {
        done = wide(one, other, into, number, share);
    }
#endif
    plain(one, other, into, done, number, share);
}

/* blend(one, other, target, number of bytes, share) */
PyObject *pixels_blend(PyObject *module, PyObject *args) {
    PyObject *objects[3];
    Py_buffer views[3];
    Py_ssize_t number;
    float share;
    int held = 0;
    (void)module;
    if (!PyArg_ParseTuple(args, "OOOnf", &objects[0], &objects[1], &objects[2], &number, &share)) {
        return NULL;
    }
    while (held < 3 && pixels_view(objects[held], &views[held], held == 2, number) == 0) {
        held++;
    }
    if (held == 3) {
        Py_BEGIN_ALLOW_THREADS blend(views[0].buf, views[1].buf, views[2].buf, number, share);
        Py_END_ALLOW_THREADS
    }
    for (int each = 0; each < held; each++) {
        PyBuffer_Release(&views[each]);
    }
    return held == 3 ? Py_NewRef(Py_None) : NULL;
}
