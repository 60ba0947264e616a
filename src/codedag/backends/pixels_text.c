/* What a text of JSON holds outside of its strings: how long its numbers are, and how deep its lists. */
#include "pixels.h"

#include <string.h>

/* The place of the quote that ends a string which begins here. */
static Py_ssize_t end1(const Py_UCS1 *text, Py_ssize_t i, Py_ssize_t length) {
    Py_ssize_t first = i;
    while (i < length) {
        const Py_UCS1 *found = memchr(text + i, '"', (size_t)(length - i));
        if (found == NULL) {
            return length;
        }
        Py_ssize_t at = found - text, slashes = 0;
        while (at - 1 - slashes >= first && text[at - 1 - slashes] == '\\') {
            slashes++;
        }
        if (slashes % 2 == 0) {
            return at;
        }
        i = at + 1;
    }
    return length;
}

#define END(NAME, TYPE)                                                                \
    static Py_ssize_t NAME(const TYPE *text, Py_ssize_t i, Py_ssize_t length) {        \
        for (; i < length && text[i] != '"'; i++) {                                    \
            i += text[i] == '\\';                                                      \
        }                                                                              \
        return i;                                                                      \
    }

END(end2, Py_UCS2)
END(end4, Py_UCS4)

#define MODEST(NAME, TYPE, END)                                                            \
    static int NAME(const TYPE *text, Py_ssize_t length, Py_ssize_t digits, Py_ssize_t deep) { \
        Py_ssize_t row = 0, depth = 0;                                                 \
        for (Py_ssize_t i = 0; i < length; i++) {                                      \
            TYPE sign = text[i];                                                       \
            if (sign >= '0' && sign <= '9') {                                          \
                if (++row > digits) {                                                  \
                    return 0;                                                          \
                }                                                                      \
                continue;                                                              \
            }                                                                          \
            row = 0;                                                                   \
            if (sign == '"') {                                                         \
                i = END(text, i + 1, length);                                          \
            } else if (sign == '[' || sign == '{') {                                   \
                if (++depth > deep) {                                                  \
                    return 0;                                                          \
                }                                                                      \
            } else if (sign == ']' || sign == '}') {                                   \
                depth--;                                                               \
            }                                                                          \
        }                                                                              \
        return 1;                                                                      \
    }

MODEST(modest1, Py_UCS1, end1)
MODEST(modest2, Py_UCS2, end2)
MODEST(modest4, Py_UCS4, end4)

/* modest(text, digits, depth): whether no number has more digits in a row, and nothing lies deeper. */
PyObject *pixels_modest(PyObject *module, PyObject *args) {
    PyObject *text;
    Py_ssize_t digits, depth;
    (void)module;
    if (!PyArg_ParseTuple(args, "Unn", &text, &digits, &depth)) {
        return NULL;
    }
#if PY_VERSION_HEX < 0x030C0000 /* since then every text is */
    if (PyUnicode_READY(text)) {
        return NULL;
    }
#endif
    Py_ssize_t length = PyUnicode_GET_LENGTH(text);
    const void *data = PyUnicode_DATA(text);
    int kind = PyUnicode_KIND(text);
    int found = kind == 1 ? modest1(data, length, digits, depth) : kind == 2 ? modest2(data, length, digits, depth) : modest4(data, length, digits, depth);
    return PyBool_FromLong(found);
}
