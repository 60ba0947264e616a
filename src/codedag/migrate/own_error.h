/* What to do about an exception that code of ours ended with, while the program runs. */
#ifndef CODEDAG_OWN_ERROR_H
#define CODEDAG_OWN_ERROR_H
#include <Python.h>

/* Drops an exception of ours; 0 if it is the program's own, which came with a signal while our code ran: it stays. */
static int drop_error(void) {
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    if (!type) return 1;
    if (!PyErr_GivenExceptionMatches(type, PyExc_Exception)) { PyErr_Restore(type, value, trace); return 0; } /* Ctrl-C */
    PyObject *module = PyImport_ImportModule("codedag.instrument.signals");
    PyObject *answer = module ? PyObject_CallMethod(module, "raised_by_handler", "O", trace ? trace : Py_None) : NULL;
    int own = answer != Py_True;
    Py_XDECREF(module); Py_XDECREF(answer);
    PyErr_Clear();
    if (!own) { PyErr_Restore(type, value, trace); return 0; }
    Py_XDECREF(type); Py_XDECREF(value); Py_XDECREF(trace);
    return 1;
}

#endif
