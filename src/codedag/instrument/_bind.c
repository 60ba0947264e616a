/* Puts sites and loop switches into the constants of rewritten code, in place.
 *
 * rewrite.bind does the same by making every code object anew, which takes longer than importing a package plain.
 * Only for code that nobody has seen yet, and only where the interpreter reads constants through the tuple each time:
 * from Python 3.14 on, instructions know what kind of object their constant is, so there bind makes the code anew.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

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
        return found ? PyObject_CallOneArg(o->spread, found) : NULL;
    } else PyErr_SetString(PyExc_ValueError, "an unknown placeholder");
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
            if (found) {
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

static PyMethodDef methods[] = {
    {"fill", fill, METH_VARARGS, "fill(code, sites, switches, Spread): the same code, its placeholders replaced in place."},
    {NULL, NULL, 0, NULL}};
static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, .m_name = "codedag.instrument._bind", .m_doc = "Binds sites in place.", .m_size = 0,
    .m_methods = methods};

PyMODINIT_FUNC PyInit__bind(void) { return PyModule_Create(&definition); }
