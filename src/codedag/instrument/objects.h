/* What the collector of Python knows. */
#ifndef CODEDAG_OBJECTS_H
#define CODEDAG_OBJECTS_H
#include <Python.h>

/* All objects that the collector knows.  Who has them must let them go before any other thread runs: Python enlarges a
   tuple in place while it is being made, and fails if somebody else refers to it. */
static PyObject *all_objects(void) {
    PyObject *gc = PyImport_ImportModule("gc"), *objects = gc ? PyObject_CallMethod(gc, "get_objects", NULL) : NULL;
    Py_XDECREF(gc);
    if (objects && !PyList_Check(objects)) {
        Py_CLEAR(objects);
        PyErr_SetString(PyExc_TypeError, "gc.get_objects gave no list");
    }
    return objects;
}

#endif
