/* What was called?  What a callable is bound to and the number of its dotted name, without asking each time.
 *
 * Methods are known by their class and name, everything else by identity; names.py says the names.  Most calls of most
 * programs move no data: of what they call only the habits are known (its word is NONE), and nobody asks again.
 */
#include "gather.h"

#define MOST_FUNCTIONS 8192 /* known callables; then all are asked anew */

static PyObject *s_of, *s_next;

int names_ready(void) {
    return (s_of = PyUnicode_InternFromString("of")) && (s_next = PyUnicode_InternFromString("__next__")) ? 0 : -1;
}

/* ---- the cache ------------------------------------------------------------------------------------------------ */

static uint64_t function_key(PyObject *of, const void *name) {
    uint64_t key = also((uintptr_t)of, (uintptr_t)name);
    return key ? key : 1;
}

/* The entry for the method called `text` of class `of`, or for the object `of` itself (text is NULL). */
static FunctionFacts *function_find(Gatherer *g, PyObject *of, const void *where, const char *text) {
    uint32_t at = index_find(&g->functions_index, function_key(of, where));
    if (at == NONE) return NULL;
    FunctionFacts *known = &g->functions[at];
    if (known->of != of || !known->name != !text) return NULL;
    if (PyWeakref_Check(known->ref) ? !refers_to(known->ref, of) : known->ref != of) return NULL;
    if (text && strcmp(PyUnicode_AsUTF8(known->name), text) != 0) return NULL;
    return known;
}

static void functions_forget(Gatherer *g) {
    for (size_t i = 0; i < g->functions_n; i++) { Py_DECREF(g->functions[i].ref); Py_XDECREF(g->functions[i].name); }
    g->functions_n = 0;
    index_clear(&g->functions_index);
}

/* Keeps a weak reference, a strong one to what libraries define in C (numpy's functions), else nothing at all. */
static int function_put(Gatherer *g, PyObject *of, const void *where, PyObject *name, uint32_t word, int habits) {
    PyObject *ref = weak(of);
    if (!ref && Py_TYPE(of)->tp_flags & Py_TPFLAGS_HEAPTYPE) return 0;
    if (!ref) { Py_INCREF(of); ref = of; }
    if (g->functions_n >= MOST_FUNCTIONS) functions_forget(g);
    FunctionFacts new = {of, ref, name, word, habits};
    Py_XINCREF(name);
    uint64_t key = function_key(of, where);
    uint32_t at = index_find(&g->functions_index, key);
    if (at != NONE) {
        FunctionFacts before = g->functions[at];
        g->functions[at] = new;
        Py_DECREF(before.ref); Py_XDECREF(before.name);
        return 0;
    }
    FunctionFacts *array = grown(g->functions, g->functions_n, &g->functions_room, sizeof *array);
    if (array) g->functions = array;
    if (!array || index_put(&g->functions_index, key, (uint32_t)g->functions_n) < 0) {
        Py_DECREF(ref); Py_XDECREF(name);
        return -1;
    }
    g->functions[g->functions_n++] = new;
    return 0;
}

/* ---- asking --------------------------------------------------------------------------------------------------- */

static int is_object(PyObject *own) { return own && own != Py_None && !PyModule_Check(own); }

static int habits_of(Gatherer *g, PyObject *name) { /* -1 with an exception */
    PyObject *answer = PyObject_CallOneArg(g->habits, name);
    int habits = answer ? (int)PyLong_AsLong(answer) : -1;
    Py_XDECREF(answer);
    return habits;
}

/* What a method is bound to and its name, by the fields of the two kinds of methods that are common. */
static int see_bound(Gatherer *g, PyObject *function, Called *called) {
    if (PyCFunction_Check(function)) {
        called->own = PyCFunction_GET_SELF(function);
        called->text = ((PyCFunctionObject *)function)->m_ml->ml_name;
        if (is_object(called->own)) Py_INCREF(called->own); else called->own = NULL;
        return 0;
    }
    PyObject *inner = PyMethod_GET_FUNCTION(function);
    called->own = PyMethod_GET_SELF(function);
    Py_INCREF(called->own);
    if (PyFunction_Check(inner)) { called->name = ((PyFunctionObject *)inner)->func_name; Py_INCREF(called->name); }
    else if (!(called->name = PyObject_CallOneArg(g->name_of, function))) return -1;
    if (!PyUnicode_Check(called->name)) Py_CLEAR(called->name);
    return called->name && !(called->text = PyUnicode_AsUTF8(called->name)) ? -1 : 0;
}

static int ask_bound(Gatherer *g, PyObject *function, Called *called) {
    FunctionFacts *known = function_find(g, function, NULL, NULL);
    if (known) { called->habits = known->habits; called->word = known->word; return 0; }
    int is_bare = PyFunction_Check(function) || PyType_Check(function) || PyCFunction_Check(function);
    if (!is_bare) {
        called->own = PyObject_CallOneArg(g->bound_to, function);
        if (!called->own) return -1;
        if (!is_object(called->own)) Py_CLEAR(called->own);
    }
    PyObject *name = PyObject_CallOneArg(g->name_of, function);
    called->habits = name ? habits_of(g, name) : -1;
    Py_XDECREF(name);
    if (called->habits < 0) return -1;
    return is_bare ? function_put(g, function, NULL, NULL, NONE, called->habits) : 0;
}

/* The class at which the name of a method is kept. */
static PyObject *class_of(const Called *called) {
    return PyType_Check(called->own) ? called->own : (PyObject *)Py_TYPE(called->own);
}

int called_begin(Gatherer *g, PyObject *function, int iterates, Called *called) {
    *called = (Called){NULL, NULL, NULL, NULL, 0, NONE};
    if (iterates) return 0;
    if (!PyCFunction_Check(function) && !PyMethod_Check(function)) return ask_bound(g, function, called);
    if (see_bound(g, function, called) < 0) return -1;
    if (!called->own) return ask_bound(g, function, called);
    if (!called->text) return 0;
    called->where = called->name ? (const void *)called->name : (const void *)called->text;
    if (PyType_Check(called->own)) called->where = (const void *)~(uintptr_t)called->where; /* a class method */
    FunctionFacts *known = function_find(g, class_of(called), called->where, called->text);
    if (known) { called->habits = known->habits; called->word = known->word; return 0; }
    if (!called->name && !(called->name = PyUnicode_FromString(called->text))) return -1;
    called->habits = habits_of(g, called->name);
    return called->habits < 0 ? -1 : function_put(g, class_of(called), called->where, called->name, NONE, called->habits);
}

static int ask_word(Gatherer *g, PyObject *function, int iterates, Called *called) {
    PyObject *text = PyObject_CallMethodObjArgs(g->names, s_of, function, iterates ? Py_True : Py_False, NULL);
    int64_t word = text ? word_number(g, text) : -1;
    Py_XDECREF(text);
    called->word = (uint32_t)word;
    return word < 0 ? -1 : 0;
}

int called_word(Gatherer *g, PyObject *function, int iterates, Called *called) {
    if (called->word != NONE) return 0;
    PyObject *of = iterates ? (PyObject *)Py_TYPE(function) : called->own && called->text ? class_of(called) : function;
    const void *where = iterates ? (const void *)s_next : of == function ? NULL : called->where;
    FunctionFacts *known = function_find(g, of, where, iterates ? "__next__" : of == function ? NULL : called->text);
    if (known && known->word != NONE) { called->word = known->word; return 0; }
    if (ask_word(g, function, iterates, called) < 0) return -1;
    if (of == function && called->own) return 0; /* bound in a way that only asking shows */
    return function_put(g, of, where, iterates ? s_next : of == function ? NULL : called->name, called->word, called->habits);
}

void called_end(Called *called) { Py_XDECREF(called->own); Py_XDECREF(called->name); }
