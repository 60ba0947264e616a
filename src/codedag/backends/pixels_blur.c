/* Box blurs of bytes as Pillow computes them: whole numbers of 32 bits, pixels beyond the edge repeat the edge.

   Sums run down the rows, for all columns of a row at once; for the other direction the image is transposed. */
#include "pixels.h"

#include <stdlib.h>
#include <string.h>

typedef struct {
    int radius;
    uint32_t inner, outer; /* the weight of a pixel within the box, and of the two next to it */
} Box;

static inline int clamped(int row, int rows) { return row < 0 ? 0 : row < rows ? row : rows - 1; }

WIDE static void begin(const uint8_t *from, uint32_t *sums, size_t stride, int rows, int radius) {
    for (size_t x = 0; x < stride; x++) {
        sums[x] = 0;
    }
    for (int k = -radius - 1; k < radius; k++) { /* the box of the row before the first */
        const uint8_t *row = from + stride * clamped(k, rows);
        for (size_t x = 0; x < stride; x++) {
            sums[x] += row[x];
        }
    }
}

WIDE static void one_row(const uint8_t *restrict leaves, const uint8_t *restrict enters, const uint8_t *restrict above,
                         const uint8_t *restrict below, uint32_t *restrict sums, uint8_t *restrict into, size_t stride,
                         const Box *box) {
    const uint32_t inner = box->inner, outer = box->outer;
    for (size_t x = 0; x < stride; x++) {
        uint32_t sum = sums[x] + enters[x] - leaves[x];
        sums[x] = sum;
        into[x] = (uint8_t)((sum * inner + ((uint32_t)above[x] + below[x]) * outer + (1u << 23)) >> 24);
    }
}

static void down(const uint8_t *from, uint8_t *into, uint32_t *sums, size_t stride, int rows, const Box *box) {
    int r = box->radius;
    begin(from, sums, stride, rows, r);
    for (int y = 0; y < rows; y++) {
        const uint8_t *before = from + stride * clamped(y - r - 1, rows);
        const uint8_t *enters = from + stride * clamped(y + r, rows), *below = from + stride * clamped(y + r + 1, rows);
        one_row(before, enters, before, below, sums, into + stride * y, stride, box);
    }
}

/* Passes from `first` to and fro; gives the buffer that holds the result. */
static uint8_t *passes_down(uint8_t *first, uint8_t *second, uint32_t *sums, size_t stride, int rows, const Box *box,
                            int passes) {
    for (int pass = 0; pass < passes; pass++) {
        down(first, second, sums, stride, rows, box);
        uint8_t *other = first;
        first = second;
        second = other;
    }
    return first;
}

static int blur(const uint8_t *source, int width, int height, int step, uint8_t *target, const Box boxes[2], int passes) {
    size_t nbytes = (size_t)width * height * step, longest = (size_t)(width > height ? width : height) * step;
    uint8_t *one = malloc(nbytes), *other = malloc(nbytes);
    uint32_t *sums = malloc(longest * sizeof(uint32_t));
    int made = one != NULL && other != NULL && sums != NULL;
    if (made) {
        pixels_turn_by(5, source, one, width, height, step);
        uint8_t *across = passes_down(one, other, sums, (size_t)height * step, width, boxes, passes);
        uint8_t *spare = across == one ? other : one;
        pixels_turn_by(5, across, spare, height, width, step);
        uint8_t *done = passes_down(spare, across, sums, (size_t)width * step, height, boxes + 1, passes);
        memcpy(target, done, nbytes);
    }
    free(one);
    free(other);
    free(sums);
    return made ? 0 : -1;
}

/* blur(source, width, height, bytes per pixel, target, (radius, inner, outer), (radius, inner, outer), passes) */
PyObject *pixels_blur(PyObject *module, PyObject *args) {
    PyObject *source, *target;
    int width, height, step, passes, lost;
    Box boxes[2];
    Py_buffer in, out;
    (void)module;
    if (!PyArg_ParseTuple(args, "OiiiO(iII)(iII)i", &source, &width, &height, &step, &target, &boxes[0].radius,
                          &boxes[0].inner, &boxes[0].outer, &boxes[1].radius, &boxes[1].inner, &boxes[1].outer, &passes)) {
        return NULL;
    }
    int sizes = width > 0 && height > 0 && (step == 1 || step == 4) && passes > 0 && passes < 100;
    if (!sizes || boxes[0].radius < 0 || boxes[1].radius < 0 || boxes[0].radius > 4096 || boxes[1].radius > 4096) {
        return PyErr_Format(PyExc_ValueError, "not an image that can be blurred");
    }
    Py_ssize_t nbytes = (Py_ssize_t)width * height * step;
    if (pixels_view(source, &in, 0, nbytes) < 0) {
        return NULL;
    }
    if (pixels_view(target, &out, 1, nbytes) < 0) {
        PyBuffer_Release(&in);
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS lost = blur(in.buf, width, height, step, out.buf, boxes, passes);
    Py_END_ALLOW_THREADS
    PyBuffer_Release(&in);
    PyBuffer_Release(&out);
    return lost ? PyErr_NoMemory() : Py_NewRef(Py_None);
}
