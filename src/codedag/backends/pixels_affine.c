/* Looking up an image at affine places, linear between the pixels, exactly as Pillow does it in double precision. */
#include "pixels.h"

#include <math.h>
#include <string.h>

typedef struct {
    const uint8_t *from;
    uint8_t *into;
    int width, height, out_width, out_height, step, clears;
    double a[6];
} Affine;

static inline int floored(double value) { return value >= 0.0 ? (int)value : (int)floor(value); }

static inline int clamped(int value, int size) { return value < 0 ? 0 : value < size ? value : size - 1; }

/* Between the four neighbours of a place; step is a constant where this is inlined. */
static inline void between(const Affine *f, double x, double y, uint8_t *out, const int step, const int bands) {
    x -= 0.5;
    y -= 0.5;
    int column = floored(x), row = floored(y);
    double dx = x - column, dy = y - row;
    const uint8_t *top = f->from + (size_t)clamped(row, f->height) * f->width * step;
    int below = row + 1 >= 0 && row + 1 < f->height;
    const uint8_t *bottom = below ? f->from + (size_t)(row + 1) * f->width * step : top;
    int left = clamped(column, f->width) * step, right = clamped(column + 1, f->width) * step;
    for (int band = 0; band < bands; band++) {
        double one = top[left + band] + (top[right + band] - top[left + band]) * dx;
        double other = bottom[left + band] + (bottom[right + band] - bottom[left + band]) * dx;
        other = below ? other : one;
        out[band] = (uint8_t)(one + (other - one) * dy);
    }
}

static inline void all_places(const Affine *f, const int step, const int bands) {
    const double *a = f->a;
    for (int row = 0; row < f->out_height; row++) {
        uint8_t *out = f->into + (size_t)row * f->out_width * step;
        double yin = row + 0.5;
        for (int column = 0; column < f->out_width; column++, out += step) {
            double xin = column + 0.5, x = a[0] * xin + a[1] * yin + a[2], y = a[3] * xin + a[4] * yin + a[5];
            if (x >= 0.0 && x < f->width && y >= 0.0 && y < f->height) {
                between(f, x, y, out, step, bands);
            } else if (f->clears) {
                memset(out, 0, (size_t)step);
            }
        }
    }
}

WIDE static void places4(const Affine *f) { all_places(f, 4, 4); }

WIDE static void places3(const Affine *f) { all_places(f, 4, 3); }

WIDE static void places1(const Affine *f) { all_places(f, 1, 1); }

/* affine(source, width, height, bytes per pixel, target, width, height, bands, clears, a, b, c, d, e, f) */
PyObject *pixels_affine(PyObject *module, PyObject *args) {
    PyObject *source, *target;
    Affine f;
    int bands;
    Py_buffer in, out;
    double *a = f.a;
    (void)module;
    if (!PyArg_ParseTuple(args, "OiiiOiiiidddddd", &source, &f.width, &f.height, &f.step, &target, &f.out_width,
                          &f.out_height, &bands, &f.clears, a, a + 1, a + 2, a + 3, a + 4, a + 5)) {
        return NULL;
    }
    int sizes = f.width > 0 && f.height > 0 && f.out_width > 0 && f.out_height > 0;
    if (!sizes || !((f.step == 1 && bands == 1) || (f.step == 4 && (bands == 3 || bands == 4)))) {
        PyErr_SetString(PyExc_ValueError, "not an image that can be looked up");
        return NULL;
    }
    if (pixels_view(source, &in, 0, (Py_ssize_t)f.width * f.height * f.step) < 0) {
        return NULL;
    }
    if (pixels_view(target, &out, 1, (Py_ssize_t)f.out_width * f.out_height * f.step) < 0) {
        PyBuffer_Release(&in);
        return NULL;
    }
    f.from = in.buf;
    f.into = out.buf;
    Py_BEGIN_ALLOW_THREADS(bands == 1 ? places1 : bands == 3 ? places3 : places4)(&f);
    Py_END_ALLOW_THREADS
    PyBuffer_Release(&in);
    PyBuffer_Release(&out);
    Py_RETURN_NONE;
}
