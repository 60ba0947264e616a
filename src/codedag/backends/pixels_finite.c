/* Whether all elements of an array of floats are finite, and their range, in one pass. */
#include "pixels.h"

#define BLOCK 4096 /* elements between two looks at what was found */

#define ANY_ODD(name, type, bits)                                                                                      \
    WIDE static int name(const type *from, Py_ssize_t count) {                                                         \
        for (Py_ssize_t first = 0; first < count; first += BLOCK) {                                                    \
            Py_ssize_t last = first + BLOCK < count ? first + BLOCK : count;                                           \
            type found = 0;                                                                                            \
            for (Py_ssize_t i = first; i < last; i++) {                                                                \
                found |= (type)((from[i] & bits) == bits);                                                             \
            }                                                                                                          \
            if (found) {                                                                                               \
                return 1;                                                                                              \
            }                                                                                                          \
        }                                                                                                              \
        return 0;                                                                                                      \
    }

ANY_ODD(odd_halves, uint16_t, 0x7C00u)
ANY_ODD(odd_floats, uint32_t, 0x7F800000u)
ANY_ODD(odd_doubles, uint64_t, 0x7FF0000000000000u)

/* finite(buffer, bytes per float): False if there is a NaN or an infinity */
PyObject *pixels_finite(PyObject *module, PyObject *args) {
    Py_buffer in;
    int size, odd = 0;
    (void)module;
    if (!PyArg_ParseTuple(args, "y*i", &in, &size)) {
        return NULL;
    }
    int known = size == 2 || size == 4 || size == 8;
    if (known) {
        Py_BEGIN_ALLOW_THREADS
        odd = size == 4   ? odd_floats(in.buf, in.len / 4)
              : size == 8 ? odd_doubles(in.buf, in.len / 8)
                          : odd_halves(in.buf, in.len / 2);
        Py_END_ALLOW_THREADS
    }
    PyBuffer_Release(&in);
    return known ? PyBool_FromLong(!odd) : PyErr_Format(PyExc_ValueError, "not floats of 2, 4 or 8 bytes");
}

typedef uint32_t __attribute__((may_alias)) Bits32;
typedef uint64_t __attribute__((may_alias)) Bits64;

typedef struct {
    double low, high;
    int odd, signs; /* whether there is a NaN, and whether any element has the sign of a negative one */
} Range;

#define WAYS 16
#define RANGE(name, type, Bits)                                                                                        \
    WIDE static void name(const type *from, Py_ssize_t count, Range *range) {                                          \
        type lows[WAYS], highs[WAYS];                                                                                  \
        Bits signs[WAYS], odd[WAYS];                                                                                   \
        for (int k = 0; k < WAYS; k++) {                                                                               \
            lows[k] = highs[k] = from[0];                                                                              \
            signs[k] = odd[k] = 0;                                                                                     \
        }                                                                                                              \
        Py_ssize_t i = 0;                                                                                              \
        for (; i + WAYS <= count; i += WAYS) {                                                                         \
            for (int k = 0; k < WAYS; k++) {                                                                           \
                type value = from[i + k];                                                                              \
                lows[k] = value < lows[k] ? value : lows[k];                                                           \
                highs[k] = value > highs[k] ? value : highs[k];                                                        \
                odd[k] |= (Bits)(value != value);                                                                      \
                signs[k] |= ((const Bits *)from)[i + k];                                                               \
            }                                                                                                          \
        }                                                                                                              \
        for (int k = 0; i + k < count; k++) {                                                                          \
            type value = from[i + k];                                                                                  \
            lows[k] = value < lows[k] ? value : lows[k];                                                               \
            highs[k] = value > highs[k] ? value : highs[k];                                                            \
            odd[k] |= (Bits)(value != value);                                                                          \
            signs[k] |= ((const Bits *)from)[i + k];                                                                   \
        }                                                                                                              \
        for (int k = 1; k < WAYS; k++) {                                                                               \
            lows[0] = lows[k] < lows[0] ? lows[k] : lows[0];                                                           \
            highs[0] = highs[k] > highs[0] ? highs[k] : highs[0];                                                      \
            odd[0] |= odd[k];                                                                                          \
            signs[0] |= signs[k];                                                                                      \
        }                                                                                                              \
        range->low = (double)lows[0];                                                                                  \
        range->high = (double)highs[0];                                                                                \
        range->odd = odd[0] != 0;                                                                                      \
        range->signs = (int)(signs[0] >> (8 * sizeof(Bits) - 1));                                                      \
    }

RANGE(range_of_floats, float, Bits32)
RANGE(range_of_doubles, double, Bits64)

/* extent(buffer, bytes per float): the least and the greatest element and whether any has the sign of a negative one, or
   None if there is a NaN or no element */
PyObject *pixels_extent(PyObject *module, PyObject *args) {
    Py_buffer in;
    int size;
    Range range = {0, 0, 1, 0};
    (void)module;
    if (!PyArg_ParseTuple(args, "y*i", &in, &size)) {
        return NULL;
    }
    int known = size == 4 || size == 8;
    if (known && in.len >= size) {
        Py_BEGIN_ALLOW_THREADS
        if (size == 4) {
            range_of_floats(in.buf, in.len / 4, &range);
        } else {
            range_of_doubles(in.buf, in.len / 8, &range);
        }
        Py_END_ALLOW_THREADS
    }
    PyBuffer_Release(&in);
    if (!known) {
        return PyErr_Format(PyExc_ValueError, "not floats of 4 or 8 bytes");
    }
    return range.odd ? Py_NewRef(Py_None) : Py_BuildValue("ddi", range.low, range.high, range.signs);
}
