/* Calls that a library makes later.  Part of _gather.c. */

/* ---- calls that a library makes later (map, submit): the operation is what is called -------------------------------- */

#define MOST_PENDING 1024 /* gather.py */

static void pending_clear(Gatherer *g) {
    for (size_t i = 0; i < g->pending_n; i++) Py_XDECREF(g->pending[i].ref);
    g->pending_n = 0;
    index_clear(&g->pending_index);
}

static Pending *pending_find(const Gatherer *g, PyObject *value) {
    uint32_t at = value ? index_find(&g->pending_index, (uintptr_t)value) : NONE;
    if (at == NONE || g->pending[at].operation == NONE) return NULL;
    Pending *found = &g->pending[at];
    return (found->ref ? refers_to(found->ref, value) : Py_IS_TYPE(value, found->type)) ? found : NULL;
}

static int pending_put(Gatherer *g, PyObject *value, uint32_t operation) {
    PyObject *ref = weak(value);
    uint32_t at = index_find(&g->pending_index, (uintptr_t)value);
    if (at == NONE) {
        if (g->pending_n >= MOST_PENDING) pending_clear(g);
        Pending *array = grown(g->pending, g->pending_n, &g->pending_room, sizeof *array);
        if (array) g->pending = array;
        if (!array || index_put(&g->pending_index, (uintptr_t)value, (uint32_t)g->pending_n) < 0) { Py_XDECREF(ref); return -1; }
        at = (uint32_t)g->pending_n++;
        g->pending[at] = (Pending){NULL, NULL, NONE};
    }
    g->pending[at].operation = operation;
    g->pending[at].type = Py_TYPE(value);
    Py_XSETREF(g->pending[at].ref, ref);
    return 0;
}

static PyObject *unfolded(const Gatherer *g, PyObject *function) { /* a new reference: what is behind functools.partial */
    Py_INCREF(function);
    while (function && (PyObject *)Py_TYPE(function) == g->partial) Py_SETREF(function, PyObject_GetAttrString(function, "func"));
    return function;
}

static int is_library_function(Gatherer *g, PyObject *function) {
    if (PyMethod_Check(function)) function = PyMethod_GET_FUNCTION(function);
    if (PyFunction_Check(function)) {
        int own = PySet_Contains(g->user_files, ((PyCodeObject *)PyFunction_GET_CODE(function))->co_filename);
        return own < 0 ? -1 : !own;
    }
    if (!PyCallable_Check(function) || PyType_Check(function)) return 0;
    int kind = kind_of(g, function);
    return kind < 0 ? -1 : kind != USER;
}

static int record_later(Gatherer *g, Operation *o, PyObject *function, int64_t total, int64_t own) {
    Called called;
    int64_t number = -1;
    if (leaves_distinct(&o->inputs) < 0) return -1;
    if (called_begin(g, function, 0, &called) == 0 && called_word(g, function, 0, &called) == 0)
        number = template_of(g, o->path, o->site, called.word, KIND_CALL, o->inputs.at, o->inputs.n);
    called_end(&called);
    if (number < 0) return -1;
    o->number = (uint32_t)number;
    if (consume(g, o) < 0 || count(g, o->number, total, own, NULL, 0) < 0) return -1;
    return pending_put(g, o->result, o->number) < 0 ? -1 : 1;
}

/* 1 if a library function is to call another one on data, which was recorded; 0 if not, -1 if it fails. */
static int is_called_later(Gatherer *g, Operation *o, int64_t total, int64_t own) {
    Pending *before = pending_find(g, o->result);
    if (before) before->operation = NONE;
    if (!o->n) return 0;
    PyObject *function = unfolded(g, o->args[0]);
    int kind = function ? kind_of(g, o->result) : -1, done = kind < 0 ? -1 : is_library_function(g, function);
    if (done > 0 && kind != IGNORED && kind != LIBRARY) done = 0;
    for (Py_ssize_t i = 1; done > 0 && i < o->n; i++) if (leaves_find(g, o->args[i], &o->inputs, DEEPEST_VALUE) < 0) done = -1;
    if (done > 0) done = o->inputs.n ? record_later(g, o, function, total, own) : 0;
    if (done == 0) { leaves_end(&o->inputs); leaves_begin(&o->inputs, o->result, NULL); }
    Py_XDECREF(function);
    return done;
}

enum { NO_LATER, LATER, HANDED_OUT };

/* Whether this call has asked for the results of a later one (*number); what only hands them out is no operation. */
static int later_of(Gatherer *g, const Operation *o, uint32_t *number) { /* -1 if it fails */
    PyObject *asked = o->site_kind == SITE_ITERATE ? o->function : o->called.own;
    for (Py_ssize_t i = -1; i < o->n; i++) {
        PyObject *value = i < 0 ? asked : o->args[i];
        const Pending *pending = pending_find(g, value);
        if (!pending) continue;
        *number = pending->operation;
        int kind = kind_of(g, o->result), fresh = 0;
        if (kind < 0) return -1;
        if (value != asked && !is_holder(kind) && !(PyCFunction_Check(o->function) && o->called.text && strcmp(o->called.text, "next") == 0))
            return LATER;
        for (Py_ssize_t k = 0; k < o->outputs.n; k++) {
            const Leaf *leaf = &o->outputs.at[k];
            if (flow_maker(&g->flow, leaf) != NONE) continue;
            if (flow_made(&g->flow, leaf, *number) < 0) return -1;
            record_at(g, *number)->out_nbytes += leaf->layout.nbytes;
            fresh = 1;
        }
        return fresh ? HANDED_OUT : NO_LATER;
    }
    return NO_LATER;
}
