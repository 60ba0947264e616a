/* What is the proxy of a function of a library, and the walk over the heap that finds who holds the function.
 *
 * In C because a Python function in between costs 350 ns per call, adds a frame that tracebacks, warnings and
 * sys._getframe see, and cannot swap a reference in one step while other threads run.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stddef.h>
#include <string.h>
#include "structmember.h"
#include "../instrument/objects.h"

#ifdef _MSC_VER
#define THREAD_LOCAL __declspec(thread)
#else
#define THREAD_LOCAL _Thread_local
#endif

typedef struct { PyObject_HEAD PyObject *run; unsigned long long calls, fast, checked, declined; } Layer;
typedef struct { PyObject_HEAD PyObject *after; } Then;
typedef struct { PyObject_HEAD vectorcallfunc vectorcall; PyObject *function, *callback; } After;
typedef struct { PyObject_HEAD vectorcallfunc vectorcall; PyObject *original, *layers, *weak; } Proxy;

static PyTypeObject LayerType, ThenType, AfterType, ProxyType, BindingProxyType, HardProxyType, HardBindingProxyType;
static PyObject *declined_answer, *reduced;

/* Which proxies run a replacement in this thread.  On the heap, and unlinked by address: a library that switches C
 * stacks would leave a list on the stack dangling. */
typedef struct Running { PyObject *proxy; struct Running *next; } Running;
static THREAD_LOCAL Running *running;

static int is_running(PyObject *proxy) {
    for (Running *r = running; r; r = r->next) if (r->proxy == proxy) return 1;
    return 0;
}

static void leave(Running *mine) {
    for (Running **place = &running; *place; place = &(*place)->next)
        if (*place == mine) { *place = mine->next; break; }
    PyMem_Free(mine);
}

/* ---- Layer: one replacement and its counts ---- */
static PyObject *layer_new(PyTypeObject *type, PyObject *args, PyObject *kwds) {
    PyObject *run = NULL;
    if (!PyArg_ParseTuple(args, "O:Layer", &run)) return NULL;
    Layer *self = (Layer *)type->tp_alloc(type, 0);
    if (self) self->run = Py_NewRef(run);
    return (PyObject *)self;
}
static int layer_traverse(Layer *self, visitproc visit, void *arg) { Py_VISIT(self->run); return 0; }
static int layer_clear(Layer *self) { Py_CLEAR(self->run); return 0; }
static void layer_dealloc(Layer *self) { PyObject_GC_UnTrack(self); layer_clear(self); Py_TYPE(self)->tp_free(self); }
static PyMemberDef layer_members[] = {
    {"run", T_OBJECT, offsetof(Layer, run), 0, NULL},
    {"calls", T_ULONGLONG, offsetof(Layer, calls), READONLY, NULL},
    {"fast", T_ULONGLONG, offsetof(Layer, fast), READONLY, NULL},
    {"checked", T_ULONGLONG, offsetof(Layer, checked), READONLY, NULL},
    {"declined", T_ULONGLONG, offsetof(Layer, declined), READONLY, NULL},
    {NULL}};
static PyTypeObject LayerType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "codedag.migrate._patch.Layer", .tp_basicsize = sizeof(Layer),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, .tp_new = layer_new, .tp_traverse = (traverseproc)layer_traverse,
    .tp_clear = (inquiry)layer_clear, .tp_dealloc = (destructor)layer_dealloc, .tp_members = layer_members,
    .tp_doc = "Layer(run): a replacement, or None to count only."};

/* ---- Then: the answer of a replacement that wants to see the original's result ---- */
static PyObject *then_new(PyTypeObject *type, PyObject *args, PyObject *kwds) {
    PyObject *after = NULL;
    if (!PyArg_ParseTuple(args, "O:Then", &after)) return NULL;
    Then *self = (Then *)type->tp_alloc(type, 0);
    if (self) self->after = Py_NewRef(after);
    return (PyObject *)self;
}
static int then_traverse(Then *self, visitproc visit, void *arg) { Py_VISIT(self->after); return 0; }
static int then_clear(Then *self) { Py_CLEAR(self->after); return 0; }
static void then_dealloc(Then *self) { PyObject_GC_UnTrack(self); then_clear(self); Py_TYPE(self)->tp_free(self); }
static PyTypeObject ThenType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "codedag.migrate._patch.Then", .tp_basicsize = sizeof(Then),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, .tp_new = then_new, .tp_traverse = (traverseproc)then_traverse,
    .tp_clear = (inquiry)then_clear, .tp_dealloc = (destructor)then_dealloc,
    .tp_doc = "Then(after): run the original, hand its result to after, return it."};

/* ---- After: a callable that runs another one and tells somebody (the import hook: no frame of ours) ---- */
static PyObject *after_call(PyObject *self, PyObject *const *args, size_t nargsf, PyObject *kwnames) {
    After *a = (After *)self;
    PyObject *callback = Py_NewRef(a->callback);
    PyObject *first = PyVectorcall_NARGS(nargsf) ? args[0] : Py_None;
    PyObject *result = PyObject_Vectorcall(a->function, args, nargsf, kwnames);
    if (result) {
        PyObject *told = PyObject_CallOneArg(callback, first);
        if (!told) Py_CLEAR(result);
        Py_XDECREF(told);
    }
    Py_DECREF(callback);
    return result;
}
static PyObject *after_new(PyTypeObject *type, PyObject *args, PyObject *kwds) {
    PyObject *function, *callback;
    if (!PyArg_ParseTuple(args, "OO:After", &function, &callback)) return NULL;
    After *self = (After *)type->tp_alloc(type, 0);
    if (!self) return NULL;
    self->vectorcall = after_call;
    self->function = Py_NewRef(function);
    self->callback = Py_NewRef(callback);
    return (PyObject *)self;
}
static int after_traverse(After *self, visitproc visit, void *arg) {
    Py_VISIT(self->function);
    Py_VISIT(self->callback);
    return 0;
}
static int after_clear(After *self) { Py_CLEAR(self->function); Py_CLEAR(self->callback); return 0; }
static void after_dealloc(After *self) { PyObject_GC_UnTrack(self); after_clear(self); Py_TYPE(self)->tp_free(self); }
static PyTypeObject AfterType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "codedag.migrate._patch.After", .tp_basicsize = sizeof(After),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_vectorcall_offset = offsetof(After, vectorcall), .tp_call = PyVectorcall_Call, .tp_new = after_new,
    .tp_traverse = (traverseproc)after_traverse, .tp_clear = (inquiry)after_clear,
    .tp_dealloc = (destructor)after_dealloc, .tp_doc = "After(function, callback): callback(first argument) at the end."};

/* ---- Proxy ---- */
static int binds(PyObject *o) { return Py_IS_TYPE(o, &BindingProxyType) || Py_IS_TYPE(o, &HardBindingProxyType); }
static int is_proxy(PyObject *o) { return Py_IS_TYPE(o, &ProxyType) || Py_IS_TYPE(o, &HardProxyType) || binds(o); }

static PyObject *plain(Proxy *s, PyObject *const *args, size_t nargsf, PyObject *kwnames) {
    if (!s->original) { PyErr_SetString(PyExc_ReferenceError, "the function is gone"); return NULL; }
    return PyObject_Vectorcall(s->original, args, nargsf, kwnames);
}

static PyObject *replaced(Proxy *s, Layer *layer, PyObject *const *args, size_t nargsf, PyObject *kwnames) {
    Running *mine = PyMem_Malloc(sizeof(Running));
    if (!mine) return PyErr_NoMemory();
    *mine = (Running){(PyObject *)s, running};
    running = mine;
    PyObject *run = Py_NewRef(layer->run); /* it may be taken off while it runs */
    PyObject *result = PyObject_Vectorcall(run, args, nargsf, kwnames);
    Py_DECREF(run);
    leave(mine);
    return result;
}

static PyObject *seen(Proxy *s, Then *then, PyObject *const *args, size_t nargsf, PyObject *kwnames) {
    PyObject *result = plain(s, args, nargsf, kwnames);
    if (!result) return NULL;
    Running *mine = PyMem_Malloc(sizeof(Running));
    if (!mine) { Py_DECREF(result); return PyErr_NoMemory(); }
    *mine = (Running){(PyObject *)s, running};
    running = mine;
    PyObject *told = PyObject_CallOneArg(then->after, result);
    leave(mine);
    if (!told) Py_CLEAR(result);
    Py_XDECREF(told);
    return result;
}

static PyObject *through(Proxy *s, PyObject *layers, PyObject *const *args, size_t nargsf, PyObject *kwnames) {
    for (Py_ssize_t i = PyTuple_GET_SIZE(layers) - 1; i >= 0; i--) {
        Layer *layer = (Layer *)PyTuple_GET_ITEM(layers, i);
        layer->calls++;
        if (!layer->run || layer->run == Py_None) continue;
        PyObject *result = replaced(s, layer, args, nargsf, kwnames);
        if (!result) return NULL;
        if (Py_IS_TYPE(result, &ThenType)) {
            layer->checked++;
            PyObject *original = seen(s, (Then *)result, args, nargsf, kwnames);
            Py_DECREF(result);
            return original;
        }
        if (result != declined_answer) { layer->fast++; return result; }
        Py_DECREF(result);
        layer->declined++;
    }
    return plain(s, args, nargsf, kwnames);
}

static PyObject *proxy_call(PyObject *self, PyObject *const *args, size_t nargsf, PyObject *kwnames) {
    Proxy *s = (Proxy *)self;
    PyObject *layers = s->layers;
    if (!layers || !PyTuple_GET_SIZE(layers) || is_running(self)) return plain(s, args, nargsf, kwnames);
    Py_INCREF(layers); /* another thread may take them away meanwhile */
    Py_INCREF(self);
    PyObject *result = through(s, layers, args, nargsf, kwnames);
    Py_DECREF(self);
    Py_DECREF(layers);
    return result;
}

static PyObject *proxy_new(PyTypeObject *type, PyObject *args, PyObject *kwds) {
    PyObject *original;
    if (!PyArg_ParseTuple(args, "O:Proxy", &original)) return NULL;
    Proxy *self = (Proxy *)type->tp_alloc(type, 0);
    if (!self) return NULL;
    self->vectorcall = proxy_call;
    self->original = Py_NewRef(original);
    return (PyObject *)self;
}
static int proxy_traverse(Proxy *self, visitproc visit, void *arg) {
    Py_VISIT(self->original);
    Py_VISIT(self->layers);
    return 0;
}
static int proxy_clear(Proxy *self) { Py_CLEAR(self->original); Py_CLEAR(self->layers); return 0; }
static void proxy_dealloc(Proxy *self) {
    PyObject_GC_UnTrack(self);
    if (self->weak) PyObject_ClearWeakRefs((PyObject *)self);
    proxy_clear(self);
    Py_TYPE(self)->tp_free(self);
}

static int is_own(PyObject *name, int binding) {
    static const char *const own[] = {"__wrapped__", "__call__", "__reduce__", "__reduce_ex__", "__copy__",
                                      "__deepcopy__", NULL};
    if (PyUnicode_GET_LENGTH(name) < 7 || PyUnicode_READ_CHAR(name, 0) != '_') return 0;
    for (int i = 0; own[i]; i++) if (PyUnicode_CompareWithASCIIString(name, own[i]) == 0) return 1;
    return binding && PyUnicode_CompareWithASCIIString(name, "__get__") == 0;
}
static PyObject *proxy_getattro(PyObject *self, PyObject *name) {
    Proxy *s = (Proxy *)self;
    if (!s->original || is_own(name, binds(self))) return PyObject_GenericGetAttr(self, name);
    return PyObject_GetAttr(s->original, name);
}
static int proxy_setattro(PyObject *self, PyObject *name, PyObject *value) {
    Proxy *s = (Proxy *)self;
    return s->original ? PyObject_SetAttr(s->original, name, value) : PyObject_GenericSetAttr(self, name, value);
}
static PyObject *proxy_repr(Proxy *s) { return s->original ? PyObject_Repr(s->original) : PyUnicode_FromString("<gone>"); }
static PyObject *proxy_str(Proxy *s) { return s->original ? PyObject_Str(s->original) : PyUnicode_FromString("<gone>"); }
static Py_hash_t proxy_hash(Proxy *s) { return s->original ? PyObject_Hash(s->original) : _Py_HashPointer(s); }
static PyObject *behind(PyObject *o) { return is_proxy(o) && ((Proxy *)o)->original ? ((Proxy *)o)->original : o; }
static PyObject *proxy_compare(PyObject *a, PyObject *b, int op) {
    if (!((Proxy *)a)->original) Py_RETURN_NOTIMPLEMENTED;
    return PyObject_RichCompare(behind(a), behind(b), op);
}
static PyObject *proxy_get(PyObject *self, PyObject *object, PyObject *type) {
    if (!object || object == Py_None) return Py_NewRef(self);
    return PyMethod_New(self, object);
}
static PyObject *proxy_reduce_ex(PyObject *self, PyObject *protocol) {
    if (!reduced || !((Proxy *)self)->original) { PyErr_SetString(PyExc_TypeError, "cannot be pickled"); return NULL; }
    return PyObject_CallFunctionObjArgs(reduced, ((Proxy *)self)->original, protocol, NULL);
}
static PyObject *proxy_reduce(PyObject *self, PyObject *unused) {
    PyObject *zero = PyLong_FromLong(0);
    PyObject *result = zero ? proxy_reduce_ex(self, zero) : NULL;
    Py_XDECREF(zero);
    return result;
}
static PyObject *proxy_same(PyObject *self, PyObject *unused) { return Py_NewRef(self); }
static PyMethodDef proxy_methods[] = {
    {"__reduce_ex__", proxy_reduce_ex, METH_O, NULL},
    {"__reduce__", proxy_reduce, METH_NOARGS, NULL},
    {"__copy__", proxy_same, METH_NOARGS, NULL},
    {"__deepcopy__", proxy_same, METH_O, NULL},
    {NULL}};
static PyMemberDef proxy_members[] = {{"__wrapped__", T_OBJECT_EX, offsetof(Proxy, original), READONLY, NULL}, {NULL}};

#define STAND(name, flags, get, weaklist)                                                                                       \
    {PyVarObject_HEAD_INIT(NULL, 0).tp_name = "codedag.migrate._patch." name, .tp_basicsize = sizeof(Proxy),          \
     .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL | flags,                        \
     .tp_vectorcall_offset = offsetof(Proxy, vectorcall), .tp_call = PyVectorcall_Call, .tp_new = proxy_new,          \
     .tp_traverse = (traverseproc)proxy_traverse, .tp_clear = (inquiry)proxy_clear,                                   \
     .tp_dealloc = (destructor)proxy_dealloc, .tp_getattro = proxy_getattro, .tp_setattro = proxy_setattro,           \
     .tp_repr = (reprfunc)proxy_repr, .tp_str = (reprfunc)proxy_str, .tp_hash = (hashfunc)proxy_hash,                 \
     .tp_richcompare = proxy_compare, .tp_weaklistoffset = weaklist, .tp_methods = proxy_methods,        \
     .tp_members = proxy_members, .tp_descr_get = get}
#define WEAK offsetof(Proxy, weak)
/* The hard ones take no weak references, as ufuncs do not: registries keep either the one or the other as a key. */
static PyTypeObject ProxyType = STAND("Proxy", 0, NULL, WEAK);
static PyTypeObject HardProxyType = STAND("HardProxy", 0, NULL, 0);
static PyTypeObject BindingProxyType = STAND("BindingProxy", Py_TPFLAGS_METHOD_DESCRIPTOR, proxy_get, WEAK);
static PyTypeObject HardBindingProxyType = STAND("HardBindingProxy", Py_TPFLAGS_METHOD_DESCRIPTOR, proxy_get, 0);

/* ---- functions ---- */
static PyObject *set_layers(PyObject *m, PyObject *args) {
    PyObject *proxy, *layers;
    if (!PyArg_ParseTuple(args, "OO!:set_layers", &proxy, &PyTuple_Type, &layers)) return NULL;
    if (!is_proxy(proxy)) { PyErr_SetString(PyExc_TypeError, "not a proxy"); return NULL; }
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(layers); i++)
        if (!Py_IS_TYPE(PyTuple_GET_ITEM(layers, i), &LayerType)) {
            PyErr_SetString(PyExc_TypeError, "not a layer");
            return NULL;
        }
    PyObject *old = ((Proxy *)proxy)->layers;
    ((Proxy *)proxy)->layers = Py_NewRef(layers);
    Py_XDECREF(old);
    Py_RETURN_NONE;
}

static PyObject *get_layers(PyObject *m, PyObject *proxy) {
    if (!is_proxy(proxy)) { PyErr_SetString(PyExc_TypeError, "not a proxy"); return NULL; }
    PyObject *layers = ((Proxy *)proxy)->layers;
    return layers ? Py_NewRef(layers) : PyTuple_New(0);
}

/* A set of pointers: open addressing, never more than half full. */
typedef struct { void **slots; size_t mask, used; } Set;

static size_t spot(const Set *s, void *p) {
    size_t i = ((size_t)p >> 4) * 0x9E3779B97F4A7C15ull >> 20 & s->mask;
    while (s->slots[i] && s->slots[i] != p) i = (i + 1) & s->mask;
    return i;
}

static int make_room(Set *s) {
    if (s->slots && s->used * 2 <= s->mask) return 0;
    Set larger = {.mask = s->slots ? s->mask * 2 + 1 : 63, .used = s->used};
    larger.slots = PyMem_Calloc(larger.mask + 1, sizeof(void *));
    if (!larger.slots) { PyErr_NoMemory(); return -1; }
    for (size_t i = 0; s->slots && i <= s->mask; i++)
        if (s->slots[i]) larger.slots[spot(&larger, s->slots[i])] = s->slots[i];
    PyMem_Free(s->slots);
    *s = larger;
    return 0;
}

static int has(const Set *s, void *p) { return s->slots && s->slots[spot(s, p)] == p; }
static int add(Set *s, void *p) {
    if (make_room(s) < 0) return -1;
    size_t i = spot(s, p);
    if (!s->slots[i]) { s->slots[i] = p; s->used++; }
    return 0;
}

typedef struct { Set wanted, seen; PyObject *found; int hit, failed, depth; } Search;
#define SMALL 8 /* looking again costs less than remembering */

static int look(PyObject *object, void *arg);
static void look_inside(PyObject *object, Search *s) {
    if (s->failed || has(&s->seen, object)) return;
    int outer = s->hit;
    s->hit = 0;
    s->depth++;
    Py_TYPE(object)->tp_traverse(object, look, s);
    s->depth--;
    Py_ssize_t size = PyTuple_CheckExact(object) ? PyTuple_GET_SIZE(object) : PyDict_Size(object);
    if ((s->hit || size > SMALL) && add(&s->seen, object) < 0) s->failed = 1;
    if (s->hit && PyList_Append(s->found, object) < 0) s->failed = 1;
    s->hit = outer;
}

static int look(PyObject *object, void *arg) {
    Search *s = arg;
    if (has(&s->wanted, object)) s->hit = 1;
    /* a dict or tuple of objects that the collector does not know is itself unknown to it: only its holder shows it */
    else if ((PyDict_CheckExact(object) || PyTuple_CheckExact(object)) && s->depth < 8 && !PyObject_GC_IsTracked(object))
        look_inside(object, s);
    return 0;
}

static void look_at_all(PyObject *objects, PyObject *targets, Search *s) {
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(objects) && !s->failed; i++) {
        PyObject *o = PyList_GET_ITEM(objects, i);
        traverseproc traverse = Py_TYPE(o)->tp_traverse;
        if (!traverse || !PyObject_IS_GC(o) || o == targets || o == objects || o == s->found || is_proxy(o)) continue;
        s->hit = 0;
        traverse(o, look, s);
        if (s->hit && PyList_Append(s->found, o) < 0) s->failed = 1;
    }
}

static PyObject *holders(PyObject *m, PyObject *args) {
    PyObject *more, *targets, *objects = NULL;
    int originals;
    if (!PyArg_ParseTuple(args, "O!O!p:holders", &PyList_Type, &more, &PyTuple_Type, &targets, &originals)) return NULL;
    Search s = {.found = PyList_New(0)};
    s.failed = !s.found || !(objects = all_objects());
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(targets) && !s.failed; i++) {
        PyObject *target = PyTuple_GET_ITEM(targets, i);
        s.failed = add(&s.wanted, originals ? behind(target) : target) < 0;
    }
    if (!s.failed) look_at_all(objects, targets, &s);
    Py_XDECREF(objects);
    if (!s.failed) look_at_all(more, targets, &s);
    PyMem_Free(s.wanted.slots);
    PyMem_Free(s.seen.slots);
    if (s.failed) Py_CLEAR(s.found);
    return s.found;
}

static PyObject *exchange(PyObject **place, PyObject *old, PyObject *new) {
    if (*place != old) Py_RETURN_FALSE;
    *place = Py_NewRef(new);
    Py_DECREF(old);
    Py_RETURN_TRUE;
}

static PyObject *swap_dict(PyObject *dict, PyObject *key, PyObject *old, PyObject *new) {
    PyObject *now = PyDict_GetItemWithError(dict, key);
    if (now != old) {
        if (PyErr_Occurred()) return NULL;
        Py_RETURN_FALSE;
    }
    if (PyDict_SetItem(dict, key, new) < 0) return NULL;
    Py_RETURN_TRUE;
}

static PyObject *swap_tuple(PyObject *tuple, Py_ssize_t i, PyObject *old, PyObject *new) {
    if (i < 0 || i >= PyTuple_GET_SIZE(tuple)) Py_RETURN_FALSE;
    PyObject *done = exchange(&PyTuple_GET_ITEM(tuple, i), old, new);
    if (done == Py_True && PyObject_IS_GC(new) && !PyObject_GC_IsTracked(tuple)) PyObject_GC_Track(tuple);
    return done;
}

/* Both have the same hash and are equal, so the member keeps its place. */
static PyObject *swap_member(PyObject *set, PyObject *old, PyObject *new) {
    PySetObject *s = (PySetObject *)set;
    for (Py_ssize_t i = 0; i <= s->mask; i++)
        if (s->table[i].key == old) return exchange(&s->table[i].key, old, new);
    Py_RETURN_FALSE;
}

/* The reference is changed in one step, if it still is what it was: other threads see the old or the new function. */
static PyObject *swap(PyObject *m, PyObject *args) {
    PyObject *holder, *key, *old, *new;
    if (!PyArg_ParseTuple(args, "OOOO:swap", &holder, &key, &old, &new)) return NULL;
    if (PyDict_Check(holder)) return swap_dict(holder, key, old, new);
    if (PyCell_Check(holder)) return exchange(&((PyCellObject *)holder)->ob_ref, old, new);
    if (PyMethod_Check(holder)) return exchange(&((PyMethodObject *)holder)->im_func, old, new);
    if (PyAnySet_Check(holder)) return swap_member(holder, old, new);
    Py_ssize_t i = PyLong_AsSsize_t(key);
    if (i == -1 && PyErr_Occurred()) return NULL;
    if (PyTuple_Check(holder)) return swap_tuple(holder, i, old, new);
    if (PyList_Check(holder)) {
        if (i < 0 || i >= PyList_GET_SIZE(holder)) Py_RETURN_FALSE;
        return exchange(&((PyListObject *)holder)->ob_item[i], old, new);
    }
    PyErr_SetString(PyExc_TypeError, "no such holder");
    return NULL;
}

static PyObject *set_reduce(PyObject *m, PyObject *function) {
    Py_INCREF(function);
    Py_XSETREF(reduced, function);
    Py_RETURN_NONE;
}

/* Whether dictionaries hold these very values, in this order: as they did when they were listed. */
static PyObject *same_values(PyObject *self, PyObject *args) {
    PyObject *spaces, *before, *key, *value;
    if (!PyArg_ParseTuple(args, "O!O!", &PyTuple_Type, &spaces, &PyTuple_Type, &before)) return NULL;
    if (PyTuple_GET_SIZE(spaces) != PyTuple_GET_SIZE(before)) Py_RETURN_FALSE;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(spaces); i++) {
        PyObject *space = PyTuple_GET_ITEM(spaces, i), *values = PyTuple_GET_ITEM(before, i);
        Py_ssize_t at = 0, number = 0;
        if (!PyDict_Check(space) || !PyTuple_Check(values)) return PyErr_Format(PyExc_TypeError, "not a dictionary and its values");
        if (PyDict_GET_SIZE(space) != PyTuple_GET_SIZE(values)) Py_RETURN_FALSE;
        while (PyDict_Next(space, &at, &key, &value))
            if (number >= PyTuple_GET_SIZE(values) || PyTuple_GET_ITEM(values, number++) != value) Py_RETURN_FALSE;
    }
    Py_RETURN_TRUE;
}

static PyMethodDef methods[] = {
    {"same_values", same_values, METH_VARARGS, "same_values(dictionaries, values): whether they hold these very values."},
    {"holders", holders, METH_VARARGS, "holders(more, targets, originals): what refers to a target, among all and more."},
    {"swap", swap, METH_VARARGS, "swap(holder, key, old, new): whether the old reference was there and is now the new."},
    {"set_layers", set_layers, METH_VARARGS, "set_layers(proxy, layers): what its calls go through, last one first."},
    {"layers", get_layers, METH_O, "layers(proxy): what its calls go through."},
    {"set_reduce", set_reduce, METH_O, "set_reduce(function): how a proxy is pickled."},
    {NULL}};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "codedag.migrate._patch", NULL, -1, methods};

PyMODINIT_FUNC PyInit__patch(void) {
    PyTypeObject *types[] = {&LayerType, &ThenType,         &AfterType,     &ProxyType,
                             &BindingProxyType, &HardProxyType, &HardBindingProxyType};
    PyObject *m = PyModule_Create(&module);
    if (!m) return NULL;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (PyModule_AddType(m, types[i]) < 0) { Py_DECREF(m); return NULL; }
    declined_answer = PyObject_CallNoArgs((PyObject *)&PyBaseObject_Type);
    if (!declined_answer || PyModule_AddObjectRef(m, "DECLINED", declined_answer) < 0) { Py_DECREF(m); return NULL; }
    return m;
}
