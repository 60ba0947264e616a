/* What the files of the extension share: views of memory that the caller owns, and the kernels over them. */
#ifndef CODEDAG_PIXELS_H
#define CODEDAG_PIXELS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>

/* Wider vectors give the same bits: every kernel does its operations per element in a fixed order, and the
   extension is compiled without contraction of products and sums. */
#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__) && defined(__gnu_linux__)
#define WIDE __attribute__((target_clones("avx2", "default")))
#define AVX2 __attribute__((target("avx2")))
#define HAVE_AVX2_CODE 1
#else
#define WIDE
#define AVX2
#define HAVE_AVX2_CODE 0
#endif

typedef struct {
    int size, width; /* how many outputs, and how many places each of them has for weights (a multiple of 8) */
    const int32_t *bounds; /* per output: the first input and the number of inputs */
    const int16_t *high, *low; /* weight = high * 2048 + low */
} Weights;

/* Tables of weights as Pillow makes them for 8 bits per channel. */
PyObject *pixels_weights(PyObject *module, PyObject *args);
PyObject *pixels_resample(PyObject *module, PyObject *args);
PyObject *pixels_turn(PyObject *module, PyObject *args);
PyObject *pixels_convert(PyObject *module, PyObject *args);
PyObject *pixels_luma_total(PyObject *module, PyObject *args);
PyObject *pixels_affine(PyObject *module, PyObject *args);
PyObject *pixels_correlate(PyObject *module, PyObject *args);
PyObject *pixels_grid(PyObject *module, PyObject *args);
PyObject *pixels_places(PyObject *module, PyObject *args);
PyObject *pixels_hues(PyObject *module, PyObject *args);
PyObject *pixels_scale(PyObject *module, PyObject *args);
PyObject *pixels_divide(PyObject *module, PyObject *args);
PyObject *pixels_blur(PyObject *module, PyObject *args);
PyObject *pixels_blend(PyObject *module, PyObject *args);
PyObject *pixels_reduce(PyObject *module, PyObject *args);
PyObject *pixels_modest(PyObject *module, PyObject *args);
PyObject *pixels_counts(PyObject *module, PyObject *args);
PyObject *pixels_sums(PyObject *module, PyObject *args);
PyObject *pixels_lookup(PyObject *module, PyObject *args);
PyObject *pixels_distances(PyObject *module, PyObject *args);
PyObject *pixels_glass(PyObject *module, PyObject *args);
PyObject *pixels_clusters(PyObject *module, PyObject *args);
PyObject *pixels_round(PyObject *module, PyObject *args);
PyObject *pixels_convolve(PyObject *module, PyObject *args);
PyObject *pixels_shrink(PyObject *module, PyObject *args);
PyObject *pixels_slope(PyObject *module, PyObject *args);
PyObject *pixels_finite(PyObject *module, PyObject *args);
PyObject *pixels_extent(PyObject *module, PyObject *args);
PyObject *pixels_bank(PyObject *module, PyObject *args);
PyObject *pixels_bank_bounds(PyObject *module, PyObject *args);
PyObject *pixels_ranks(PyObject *module, PyObject *args);

void pixels_turn_by(int method, const uint8_t *from, uint8_t *into, int width, int height, int step);
int pixels_view(PyObject *object, Py_buffer *view, int writable, Py_ssize_t least);

#endif
