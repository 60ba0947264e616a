/* Makes the sites of a file, and puts them and its loop switches into the constants of rewritten code, in place.
 *
 * table.make_sites and rewrite.bind do the same in Python; a package has tens of thousands of sites, and both together
 * would take longer than importing it plain.  The facts about a site are no object of the garbage collector's: it would
 * visit each of them again and again.
 * rewrite.bind does the same by making every code object anew, which takes longer than importing a package plain.
 * Only for code that nobody has seen yet or in which the constant is not reached, and only where the interpreter reads constants through the tuple each time:
 * from Python 3.14 on, instructions know what kind of object their constant is, so there bind makes the code anew.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include "objects.h"

#define PREFIX 9 /* "\0codedag:" */
typedef struct { PyObject *sites, *switches, *spread; } Objects;

static int is_placeholder(PyObject *text) {
    static const char prefix[] = "\0codedag:";
    if (!PyUnicode_CheckExact(text) || PyUnicode_GET_LENGTH(text) <= PREFIX || PyUnicode_KIND(text) != PyUnicode_1BYTE_KIND) return 0;
    return memcmp(PyUnicode_1BYTE_DATA(text), prefix, PREFIX) == 0;
}

static PyObject *at(PyObject *list, const char *digits) {
    char *end;
    long number = strtol(digits, &end, 10);
    if (end == digits || *end || number < 0 || number >= PyList_GET_SIZE(list)) {
        PyErr_Format(PyExc_ValueError, "no such place: %s", digits);
        return NULL;
    }
    return PyList_GET_ITEM(list, number);
}

static PyObject *object_for(PyObject *text, const Objects *o) {
    const char *what = (const char *)PyUnicode_1BYTE_DATA(text) + PREFIX;
    PyObject *found = NULL;
    if (strcmp(what, "site:slice") == 0) found = (PyObject *)&PySlice_Type;
    else if (strncmp(what, "site:", 5) == 0) found = at(o->sites, what + 5);
    else if (strncmp(what, "loop:", 5) == 0) found = at(o->switches, what + 5);
    else if (strncmp(what, "spread:", 7) == 0) {
        found = at(o->sites, what + 7);
        if (found && found != Py_None) return PyObject_CallOneArg(o->spread, found);
    } else PyErr_SetString(PyExc_ValueError, "an unknown placeholder");
    if (found == Py_None) found = text; /* not made: it stays where it is, in a body that does not run */
    Py_XINCREF(found);
    return found;
}

static int fill_code(PyObject *code, const Objects *o) {
    if (Py_EnterRecursiveCall(" while binding sites")) return -1;
    PyObject *constants = ((PyCodeObject *)code)->co_consts;
    int failed = 0;
    for (Py_ssize_t i = 0; !failed && i < PyTuple_GET_SIZE(constants); i++) {
        PyObject *constant = PyTuple_GET_ITEM(constants, i);
        if (PyCode_Check(constant)) failed = fill_code(constant, o) < 0;
        else if (is_placeholder(constant)) {
            PyObject *found = object_for(constant, o);
            failed = !found;
            if (found == constant) Py_DECREF(found);
            else if (found) {
                /* The collector does not look into code, so it can never free these: it need not visit them either. */
                if (PyObject_IS_GC(found) && found != (PyObject *)&PySlice_Type) PyObject_GC_UnTrack(found);
                PyTuple_SET_ITEM(constants, i, found);
                Py_DECREF(constant);
            }
        }
    }
    Py_LeaveRecursiveCall();
    return failed ? -1 : 0;
}

static PyObject *fill(PyObject *module, PyObject *args) {
    PyObject *code;
    Objects o;
    (void)module;
    if (!PyArg_ParseTuple(args, "O!O!O!O", &PyCode_Type, &code, &PyList_Type, &o.sites, &PyList_Type, &o.switches, &o.spread)) return NULL;
    if (fill_code(code, &o) < 0) return NULL;
    Py_INCREF(code);
    return code;
}

/* ---- facts: a place in a table, which answers whatever the row there does -------------------------------------- */

typedef struct { PyObject_HEAD PyObject *table; Py_ssize_t number; } Facts;
static PyTypeObject FactsType;

static PyObject *row_of(PyObject *self) {
    return PyObject_CallMethod(((Facts *)self)->table, "info", "n", ((Facts *)self)->number);
}
static PyObject *facts_getattro(PyObject *self, PyObject *name) {
    PyObject *row = row_of(self);
    if (row && PyUnicode_Check(name) && PyUnicode_CompareWithASCIIString(name, "_row") == 0) return row;
    PyObject *found = row ? PyObject_GetAttr(row, name) : NULL;
    Py_XDECREF(row);
    return found;
}
static PyObject *facts_repr(PyObject *self) {
    PyObject *row = row_of(self), *found = row ? PyObject_Repr(row) : NULL;
    Py_XDECREF(row);
    return found;
}
static Py_hash_t facts_hash(PyObject *self) {
    PyObject *row = row_of(self);
    Py_hash_t found = row ? PyObject_Hash(row) : -1;
    Py_XDECREF(row);
    return found;
}
static PyObject *facts_compare(PyObject *self, PyObject *other, int how) {
    PyObject *mine = row_of(self), *its = NULL, *found = NULL;
    if (Py_IS_TYPE(other, &FactsType)) its = row_of(other);
    else { Py_INCREF(other); its = other; }
    if (mine && its) found = PyObject_RichCompare(mine, its, how);
    Py_XDECREF(mine); Py_XDECREF(its);
    return found;
}
static void facts_dealloc(PyObject *self) { Py_DECREF(((Facts *)self)->table); PyObject_Free(self); }
static PyTypeObject FactsType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "codedag.instrument._bind.Facts", .tp_basicsize = sizeof(Facts),
    .tp_flags = Py_TPFLAGS_DEFAULT, .tp_doc = "The facts about one site, found in its table when asked.",
    .tp_dealloc = facts_dealloc, .tp_getattro = facts_getattro, .tp_repr = facts_repr, .tp_hash = facts_hash,
    .tp_richcompare = facts_compare};

static PyObject *site_for(PyObject *type, PyObject *table, Py_ssize_t number, PyObject *kind, PyObject *function,
                          PyObject *returns) {
    Facts *facts = PyObject_New(Facts, &FactsType);
    if (!facts) return NULL;
    Py_INCREF(table); facts->table = table;
    facts->number = number;
    PyObject *args[] = {kind, (PyObject *)facts, function, returns};
    PyObject *site = PyObject_Vectorcall(type, args, 4, NULL);
    Py_DECREF(facts);
    return site;
}

static PyObject *sites(PyObject *module, PyObject *args) {
    PyObject *type, *table, *kinds, *functions, *returns, *made;
    Py_buffer what_of;
    (void)module;
    if (!PyArg_ParseTuple(args, "OOy*O!O!O!", &type, &table, &what_of, &PyList_Type, &kinds, &PyList_Type, &functions,
                          &PyList_Type, &returns)) return NULL;
    made = PyList_New(what_of.len);
    for (Py_ssize_t i = 0; made && i < what_of.len; i++) {
        Py_ssize_t what = ((const unsigned char *)what_of.buf)[i];
        PyObject *site = NULL;
        if (what < PyList_GET_SIZE(kinds) && what < PyList_GET_SIZE(functions) && what < PyList_GET_SIZE(returns))
            site = site_for(type, table, i, PyList_GET_ITEM(kinds, what), PyList_GET_ITEM(functions, what),
                            PyList_GET_ITEM(returns, what));
        else PyErr_SetString(PyExc_ValueError, "a site of no kind");
        if (!site) Py_CLEAR(made);
        else PyList_SET_ITEM(made, i, site);
    }
    PyBuffer_Release(&what_of);
    return made;
}

static int put_by_file(PyObject *found, PyObject *function) {
    PyObject *file = ((PyCodeObject *)PyFunction_GET_CODE(function))->co_filename, *list = PyDict_GetItemWithError(found, file);
    if (list) Py_INCREF(list);
    else if (PyErr_Occurred() || !(list = PyList_New(0)) || PyDict_SetItem(found, file, list) < 0) Py_CLEAR(list);
    int failed = !list || PyList_Append(list, function) < 0;
    Py_XDECREF(list);
    return failed ? -1 : 0;
}

/* Every live function, by the file its code came from.  Nothing is made while all objects are held: that could collect. */
static PyObject *functions(PyObject *module, PyObject *nothing) {
    (void)module, (void)nothing;
    PyObject *objects = all_objects(), **kept = NULL, *found = NULL;
    Py_ssize_t count = 0;
    if (!objects) return NULL;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(objects); i++) count += Py_IS_TYPE(PyList_GET_ITEM(objects, i), &PyFunction_Type);
    if ((kept = PyMem_New(PyObject *, count ? count : 1))) {
        Py_ssize_t next = 0;
        for (Py_ssize_t i = 0; i < PyList_GET_SIZE(objects); i++) {
            PyObject *each = PyList_GET_ITEM(objects, i);
            if (Py_IS_TYPE(each, &PyFunction_Type)) kept[next++] = Py_NewRef(each);
        }
    } else PyErr_NoMemory();
    Py_DECREF(objects);
    if (!kept) return NULL;
    found = PyDict_New();
    for (Py_ssize_t i = 0; i < count; i++) {
        if (found && put_by_file(found, kept[i]) < 0) Py_CLEAR(found);
        Py_DECREF(kept[i]);
    }
    PyMem_Free(kept);
    return found;
}

/* Runs the code of a program as the interpreter runs a script: no frame lies below it, and all of the recursion limit
 * is its own.  Else traceback.print_stack, warnings, sys._getframe and a recursion that is caught would show us. */
#if PY_VERSION_HEX < 0x030C0000
#define FRAME(t) ((t)->cframe->current_frame)
#define LIMIT(t) ((t)->recursion_limit)
#define REMAINING(t) ((t)->recursion_remaining)
#elif PY_VERSION_HEX < 0x030D0000
#define FRAME(t) ((t)->cframe->current_frame)
#elif PY_VERSION_HEX < 0x030E0000
#define FRAME(t) ((t)->current_frame)
#endif
#if PY_VERSION_HEX >= 0x030C0000 && PY_VERSION_HEX < 0x030E0000
#define LIMIT(t) ((t)->py_recursion_limit)
#define REMAINING(t) ((t)->py_recursion_remaining)
#endif

#ifdef FRAME
static PyObject *at_the_bottom(PyObject *m, PyObject *args) {
    PyObject *code, *space;
    if (!PyArg_ParseTuple(args, "O!O!", &PyCode_Type, &code, &PyDict_Type, &space)) return NULL;
    PyThreadState *t = PyThreadState_Get();
    struct _PyInterpreterFrame *below = FRAME(t);
    int used = LIMIT(t) - REMAINING(t);
    FRAME(t) = NULL;
    REMAINING(t) = LIMIT(t);
    PyObject *result = PyEval_EvalCode(code, space, space);
    t = PyThreadState_Get();
    FRAME(t) = below;
    REMAINING(t) = LIMIT(t) - used; /* the program may have set another limit */
    return result;
}
#endif

static PyMethodDef methods[] = {
#ifdef FRAME
    {"at_the_bottom", at_the_bottom, METH_VARARGS, "at_the_bottom(code, globals): runs code with no frame below it."},
#endif
    {"functions", functions, METH_NOARGS, "functions(): every live function, by the file of its code."},
    {"sites", sites, METH_VARARGS, "sites(Site, table, what_of, kinds, functions, returns): a new site for each byte of what_of."},
    {"fill", fill, METH_VARARGS, "fill(code, sites, switches, Spread): the same code, its placeholders replaced in place."},
    {NULL, NULL, 0, NULL}};
static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, .m_name = "codedag.instrument._bind", .m_doc = "Binds sites in place.", .m_size = 0,
    .m_methods = methods};

PyMODINIT_FUNC PyInit__bind(void) {
    PyObject *m = PyModule_Create(&definition);
    if (m && PyModule_AddType(m, &FactsType) < 0) Py_CLEAR(m);
    return m;
}
