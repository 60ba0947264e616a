/* What a recorder written in C offers to the sites: a table of functions, in a capsule that is its `_c_api`.
 *
 * Sites call the recorder's Python methods of the same names if there is no such table.  All functions are called with
 * the GIL held and no exception set; those that fail set one.
 */
#ifndef CODEDAG_RECORDER_H
#define CODEDAG_RECORDER_H
#include <Python.h>

#define RECORDER_CAPSULE "codedag.recorder"
#define RECORDER_VERSION 2

typedef struct {
    int version;
    PyObject *self; /* borrowed: the capsule keeps it alive */
    /* The number of the chain of sites parent + site; -1 if it fails. */
    long (*path)(PyObject *self, long parent, PyObject *site);
    /* A library call, operator or subscript ended; arguments as in a vector call, result NULL if it raised.
     * 1 if it was recorded, 0 if it moved no data (the site counts those itself), -1 if recording failed. */
    int (*operation)(PyObject *self, long path, PyObject *site, int kind, PyObject *function, PyObject *const *args,
                     Py_ssize_t n, PyObject *names, PyObject *result, long long total, long long own,
                     PyObject *returned);
    /* A call of user code ended.  0, or -1 if it fails. */
    int (*region)(PyObject *self, long path, PyObject *site, PyObject *function, long long total, long long own);
    /* What user code returned to a library call, added to what it returned before (NULL at first): a new reference,
     * or NULL without an exception if there was no data in any of it. */
    PyObject *(*note)(PyObject *self, PyObject *value, PyObject *before);
    /* In a memory pass, before `operation` or `region`: the most bytes that were allocated while it ran. */
    void (*peak)(PyObject *self, long long nbytes);
    /* Whether a number came out of an operation on data, so that arithmetic with it is one too. */
    int (*carries)(PyObject *self, PyObject *number);
} RecorderApi;

#endif
