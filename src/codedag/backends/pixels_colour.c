/* Colour spaces pixel by pixel, in the order of operations that scikit-image has. */
#include "pixels.h"

#include <math.h>
#include <string.h>

/* One pixel in each direction, for a type of floats; the names of its functions end in `suffix`. */
#define COLOURS(type, suffix)                                                                                          \
    static inline void to_hsv_##type(const type *rgb, type *out) {                                                     \
        type r = rgb[0], g = rgb[1], b = rgb[2], top = r > g ? r : g, low = r < g ? r : g, hue;                        \
        top = top > b ? top : b;                                                                                       \
        low = low < b ? low : b;                                                                                       \
        type delta = top - low;                                                                                        \
        if (delta == 0) {                                                                                              \
            out[0] = out[1] = 0;                                                                                       \
            out[2] = top;                                                                                              \
            return;                                                                                                    \
        }                                                                                                              \
        hue = (g - b) / delta;                                                                                         \
        hue = g == top ? (type)2.0 + (b - r) / delta : hue;                                                            \
        hue = b == top ? (type)4.0 + (r - g) / delta : hue;                                                            \
        hue = hue / (type)6.0;                                                                                         \
        out[0] = hue < 0 ? hue + (type)1.0 : hue == 0 ? (type)0.0 : hue;                                               \
        out[1] = delta / top;                                                                                          \
        out[2] = top;                                                                                                  \
    }                                                                                                                  \
    static inline void to_rgb_##type(const type *hsv, type *out) {                                                     \
        type six = hsv[0] * 6, whole = floor##suffix(six), f = six - whole, s = hsv[1], v = hsv[2];                    \
        type p = v * (1 - s), q = v * (1 - f * s), t = v * (1 - (1 - f) * s);                                          \
        const type table[6][3] = {{v, t, p}, {q, v, p}, {p, v, t}, {p, q, v}, {t, p, v}, {v, p, q}};                   \
        memcpy(out, table[(int)whole % 6], 3 * sizeof(type));                                                          \
    }                                                                                                                  \
    WIDE static void all_##type(const type *from, type *into, Py_ssize_t count, int forth) {                           \
        for (Py_ssize_t i = 0; i < count; i++) {                                                                       \
            if (forth) {                                                                                               \
                to_hsv_##type(from + 3 * i, into + 3 * i);                                                             \
            } else {                                                                                                   \
                to_rgb_##type(from + 3 * i, into + 3 * i);                                                             \
            }                                                                                                          \
        }                                                                                                              \
    }

COLOURS(double, )
COLOURS(float, f)

/* hues(source, target, code, pixels, forth): RGB to HSV, or back; values from 0 to 1 */
PyObject *pixels_hues(PyObject *module, PyObject *args) {
    PyObject *source, *target;
    Py_ssize_t count;
    int code, forth;
    Py_buffer in, out;
    (void)module;
    if (!PyArg_ParseTuple(args, "OOCni", &source, &target, &code, &count, &forth)) {
        return NULL;
    }
    Py_ssize_t nbytes = count * 3 * (code == 'd' ? 8 : 4);
    if (count < 0 || (code != 'd' && code != 'f') || pixels_view(source, &in, 0, nbytes) < 0) {
        return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_ValueError, "not pixels of floats");
    }
    if (pixels_view(target, &out, 1, nbytes) < 0) {
        PyBuffer_Release(&in);
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS;
    if (code == 'd') {
        all_double(in.buf, out.buf, count, forth);
    } else {
        all_float(in.buf, out.buf, count, forth);
    }
    Py_END_ALLOW_THREADS;
    PyBuffer_Release(&in);
    PyBuffer_Release(&out);
    Py_RETURN_NONE;
}
