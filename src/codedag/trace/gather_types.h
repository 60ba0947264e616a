/* The faces of the gatherer in Python: its methods, a template, the module.  Part of _gather.c. */

/* ---- a template, as Python code sees it: a number and the gatherer that holds the rest -------------------------- */

typedef struct { PyObject_HEAD Gatherer *gatherer; uint32_t number; } Template;

static PyObject *template_make(PyTypeObject *type, PyObject *args, PyObject *Py_UNUSED(keywords)) {
    PyObject *g;
    unsigned int number;
    if (!PyArg_ParseTuple(args, "O!I", &GathererType, &g, &number)) return NULL;
    if (number >= ((Gatherer *)g)->records_n) { PyErr_SetString(PyExc_IndexError, "no such template"); return NULL; }
    Template *t = PyObject_GC_New(Template, type);
    if (!t) return NULL;
    Py_INCREF(g); t->gatherer = (Gatherer *)g; t->number = number;
    PyObject_GC_Track(t);
    return (PyObject *)t;
}
static int template_traverse(Template *t, visitproc visit, void *arg) { Py_VISIT(t->gatherer); return 0; }
static int template_clear(Template *t) { Py_CLEAR(t->gatherer); return 0; }
static void template_dealloc(Template *t) { PyObject_GC_UnTrack(t); Py_XDECREF(t->gatherer); PyObject_GC_Del(t); }

enum { T_NUMBER, T_NAME, T_KIND, T_PATH, T_SITE, T_IN_SIG, T_OUT_SIG, T_COUNT, T_SELF, T_TOTAL, T_LEAST, T_MOST, T_BYTES, T_PEAK };

static PyObject *owned(PyObject *borrowed) { Py_XINCREF(borrowed); return borrowed; }

static PyObject *site_of(Gatherer *g, uint32_t number) {
    PyObject *key = PyLong_FromUnsignedLong(number), *odd = key ? PyDict_GetItemWithError(g->odd_sites, key) : NULL;
    Py_XDECREF(key);
    if (PyErr_Occurred()) return NULL;
    return owned(odd ? odd : g->paths[record_at(g, number)->path].site);
}

static PyObject *template_get(Template *t, void *which) {
    Gatherer *g = t->gatherer;
    if (!g || t->number >= g->records_n) { PyErr_SetString(PyExc_RuntimeError, "the gatherer is gone"); return NULL; }
    const Record *r = record_at(g, t->number);
    switch ((int)(intptr_t)which) {
    case T_NUMBER: return PyLong_FromUnsignedLong(t->number);
    case T_NAME: return owned(g->words[r->name]);
    case T_KIND: return owned(kinds[r->kind]);
    case T_PATH: return PyLong_FromUnsignedLong(r->path);
    case T_SITE: return site_of(g, t->number);
    case T_IN_SIG: return owned(g->signatures[r->in_sig].text);
    case T_OUT_SIG: return owned(g->signatures[r->out_sig].text);
    case T_COUNT: return PyLong_FromUnsignedLongLong(r->count);
    case T_SELF: return PyLong_FromLongLong(r->self_ns);
    case T_TOTAL: return PyLong_FromLongLong(r->total_ns);
    case T_LEAST: return PyLong_FromDouble(r->least_ns);
    case T_MOST: return PyLong_FromDouble(r->most_ns);
    case T_BYTES: return PyLong_FromLongLong(r->out_nbytes);
    default: return PyLong_FromLongLong(t->number < g->peaks_room ? g->peaks[t->number] : 0);
    }
}

#define GIVES(name, which) {name, (getter)template_get, NULL, NULL, (void *)(intptr_t)(which)}
static PyGetSetDef template_fields[] = {
    GIVES("number", T_NUMBER), GIVES("name", T_NAME), GIVES("kind", T_KIND), GIVES("path", T_PATH), GIVES("site", T_SITE),
    GIVES("in_sig", T_IN_SIG), GIVES("out_sig", T_OUT_SIG), GIVES("count", T_COUNT), GIVES("self_ns", T_SELF),
    GIVES("total_ns", T_TOTAL), GIVES("least_ns", T_LEAST), GIVES("most_ns", T_MOST), GIVES("out_nbytes", T_BYTES),
    GIVES("peak_nbytes", T_PEAK),
    {NULL, NULL, NULL, NULL, NULL}};
static PyTypeObject TemplateType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "codedag.trace._gather.Template", .tp_basicsize = sizeof(Template),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, .tp_doc = "One operation as it is being gathered; see gather.py.",
    .tp_new = template_make, .tp_dealloc = (destructor)template_dealloc, .tp_traverse = (traverseproc)template_traverse,
    .tp_clear = (inquiry)template_clear, .tp_getset = template_fields};

/* ---- the methods that sites in plain Python call ---------------------------------------------------------------- */

static PyObject *method_path(PyObject *self, PyObject *args) {
    long parent;
    PyObject *site;
    if (!PyArg_ParseTuple(args, "lO", &parent, &site)) return NULL;
    long number = gather_path(self, parent, site);
    return number < 0 ? NULL : PyLong_FromLong(number);
}

static PyObject *method_note(PyObject *self, PyObject *args) {
    PyObject *value, *before;
    if (!PyArg_ParseTuple(args, "OO", &value, &before)) return NULL;
    PyObject *noted = gather_note(self, value, before == Py_None ? NULL : before);
    return noted || PyErr_Occurred() ? noted : owned(Py_None);
}

static int gather_carries(PyObject *self, PyObject *number) { return flow_scalar_known(&((Gatherer *)self)->flow, number); }

static PyObject *method_carries(PyObject *self, PyObject *number) { return PyBool_FromLong(gather_carries(self, number)); }

static int add_to(PyObject *site, PyObject *name, long long amount) { /* site.name += amount */
    PyObject *before = PyObject_GetAttr(site, name), *more = before ? PyLong_FromLongLong(amount) : NULL;
    PyObject *sum = more ? PyNumber_Add(before, more) : NULL;
    int done = sum ? PyObject_SetAttr(site, name, sum) : -1;
    Py_XDECREF(before); Py_XDECREF(more); Py_XDECREF(sum);
    return done;
}

/* The arguments as in a vector call: positional ones, then keyword values, whose names come apart. */
static int record_told(PyObject *self, long path, PyObject *site, int kind, PyObject *function, PyObject *args,
                       PyObject *keywords, PyObject *result, long long total, long long own, PyObject *returned) {
    Py_ssize_t n = PyTuple_GET_SIZE(args), more = PyDict_GET_SIZE(keywords), at = 0;
    PyObject *names = more ? PyTuple_New(more) : NULL, *name, *value;
    PyObject **all = PyMem_Malloc((size_t)(n + more + 1) * sizeof *all);
    int done = -1;
    if (!all) PyErr_NoMemory();
    if (all && (names || !more)) {
        for (Py_ssize_t i = 0; i < n; i++) all[i] = PyTuple_GET_ITEM(args, i);
        for (Py_ssize_t i = 0; i < more && PyDict_Next(keywords, &at, &name, &value); i++) {
            Py_INCREF(name); PyTuple_SET_ITEM(names, i, name);
            all[n + i] = value;
        }
        done = gather_operation(self, path, site, kind, function, all, n, names, result, total, own, returned);
    }
    PyMem_Free(all);
    Py_XDECREF(names);
    return done;
}

static PyObject *method_operation(PyObject *self, PyObject *told) {
    long path;
    PyObject *site, *function, *args, *keywords, *result, *returned;
    long long total, own;
    int failed = 0;
    if (!PyArg_ParseTuple(told, "lOOO!O!OLLO|p", &path, &site, &function, &PyTuple_Type, &args, &PyDict_Type, &keywords,
                          &result, &total, &own, &returned, &failed)) return NULL;
    PyObject *kind = PyObject_GetAttr(site, s_kind);
    if (!kind) return NULL;
    int done = record_told(self, path, site, (int)PyLong_AsLong(kind), function, args, keywords, failed ? NULL : result,
                           total, own, returned == Py_None ? NULL : returned);
    Py_DECREF(kind);
    if (done == 0 && (add_to(site, s_calls, 1) < 0 || add_to(site, s_nanoseconds, total) < 0)) done = -1;
    return done < 0 ? NULL : PyBool_FromLong(done);
}

static PyObject *method_region(PyObject *self, PyObject *told) {
    long path;
    PyObject *site, *function, *args, *keywords, *result, *returned;
    long long total, own;
    if (!PyArg_ParseTuple(told, "lOOOOOLLO", &path, &site, &function, &args, &keywords, &result, &total, &own, &returned)) return NULL;
    if (gather_region(self, path, site, function, total, own) < 0) return NULL;
    Py_RETURN_NONE;
}

static PyObject *method_freeze(PyObject *self, PyObject *number) {
    Gatherer *g = (Gatherer *)self;
    long path = PyLong_AsLong(number);
    if (path == -1 && PyErr_Occurred()) return NULL;
    if (path < 0 || (size_t)path >= g->paths_n) { PyErr_SetString(PyExc_IndexError, "no such path"); return NULL; }
    g->paths[path].frozen = 1;
    Py_RETURN_NONE;
}

/* ---- what was gathered ------------------------------------------------------------------------------------------- */

static PyObject *method_templates(PyObject *self, PyObject *args) {
    Gatherer *g = (Gatherer *)self;
    unsigned int first = 0;
    if (!PyArg_ParseTuple(args, "|I", &first)) return NULL;
    PyObject *list = PyList_New(0);
    for (uint32_t i = first; list && i < g->records_n; i++) {
        PyObject *both = Py_BuildValue("(OI)", self, i), *t = both ? template_make(&TemplateType, both, NULL) : NULL;
        if (!t || PyList_Append(list, t) < 0) Py_CLEAR(list);
        Py_XDECREF(both); Py_XDECREF(t);
    }
    return list;
}

static PyObject *method_paths(PyObject *self, PyObject *Py_UNUSED(unused)) {
    Gatherer *g = (Gatherer *)self;
    PyObject *list = PyList_New(0);
    for (size_t i = 0; list && i < g->paths_n; i++) {
        PyObject *pair = Py_BuildValue("(iO)", (int)g->paths[i].parent, g->paths[i].site);
        if (!pair || PyList_Append(list, pair) < 0) Py_CLEAR(list);
        Py_XDECREF(pair);
    }
    return list;
}

static PyObject *method_edges(PyObject *self, PyObject *Py_UNUSED(unused)) {
    Gatherer *g = (Gatherer *)self;
    Sums copy = g->edges; /* making the list may let another thread add edges, which moves them */
    if (!copy.room) return PyList_New(0);
    if (!(copy.slot = malloc(copy.room * sizeof *copy.slot))) return PyErr_NoMemory();
    memcpy(copy.slot, g->edges.slot, copy.room * sizeof *copy.slot);
    PyObject *list = PyList_New(0);
    for (size_t i = 0; list && i < copy.room; i++) {
        if (!copy.slot[i].key) continue;
        uint64_t key = copy.slot[i].key - 1;
        PyObject *each = Py_BuildValue("(IIsK)", (unsigned)(key >> 32), (unsigned)(key & 0xffffffffu) >> 1,
                                       key & 1 ? "anti" : "flow", (unsigned long long)copy.slot[i].sum);
        if (!each || PyList_Append(list, each) < 0) Py_CLEAR(list);
        Py_XDECREF(each);
    }
    free(copy.slot);
    return list;
}

static PyObject *method_sizes(PyObject *self, PyObject *Py_UNUSED(unused)) {
    const Gatherer *g = (Gatherer *)self;
    size_t blocks = ((size_t)g->records_n + BLOCK - 1) / BLOCK;
    return Py_BuildValue(
        "{sIsnsnsnsnsnsnsnsnsn}", "templates", g->records_n, "edges", (Py_ssize_t)g->edges.n, "paths", (Py_ssize_t)g->paths_n,
        "objects", (Py_ssize_t)g->flow.made_n, "buffers", (Py_ssize_t)g->flow.buffers_n, "shared", (Py_ssize_t)g->flow.shared_n,
        "scalars", (Py_ssize_t)(g->flow.young.n + g->flow.old.n), "signatures", (Py_ssize_t)g->signatures_n,
        "template_nbytes", (Py_ssize_t)(blocks * BLOCK * sizeof(Record) + g->slots_room * sizeof *g->slots),
        "edge_nbytes", (Py_ssize_t)(g->edges.room * sizeof *g->edges.slot));
}

/* ---- the functions that sites in C call -------------------------------------------------------------------------- */

static void api_release(PyObject *capsule) {
    Py_XDECREF((PyObject *)PyCapsule_GetContext(capsule));
    free(PyCapsule_GetPointer(capsule, RECORDER_CAPSULE));
}

static PyObject *get_api(PyObject *self, void *Py_UNUSED(unused)) {
    RecorderApi *api = malloc(sizeof *api);
    if (!api) return PyErr_NoMemory();
    *api = (RecorderApi){RECORDER_VERSION, self, gather_path, gather_operation, gather_region, gather_note, gather_peak,
                         gather_carries};
    PyObject *capsule = PyCapsule_New(api, RECORDER_CAPSULE, api_release);
    if (!capsule) { free(api); return NULL; }
    Py_INCREF(self);
    if (PyCapsule_SetContext(capsule, self) < 0) { Py_DECREF(self); Py_DECREF(capsule); return NULL; }
    return capsule;
}

/* ---- the type ---------------------------------------------------------------------------------------------------- */

static int take(PyObject *module, const char *name, PyObject **where) { return (*where = PyObject_GetAttrString(module, name)) ? 0 : -1; }

static int take_helpers(Gatherer *g) {
    PyObject *dataflow = PyImport_ImportModule("codedag.trace.dataflow"), *names = PyImport_ImportModule("codedag.trace.names");
    PyObject *habits = PyImport_ImportModule("codedag.trace.habits"), *functools = PyImport_ImportModule("functools");
    PyObject *training = PyImport_ImportModule("codedag.trace.training");
    PyObject *io = PyImport_ImportModule("io"), *samples = PyImport_ImportModule("codedag.trace.samples");
    int done = !dataflow || !samples || !names || !habits || !functools || take(dataflow, "classify", &g->classify) < 0 ||
               take(dataflow, "nbytes", &g->nbytes) < 0 || take(dataflow, "signature", &g->signature) < 0 ||
               take(dataflow, "open_shapes", &g->open_shapes) < 0 || take(dataflow, "layout_of", &g->layout_of) < 0 ||
               take(dataflow, "address_of", &g->address_of) < 0 || take(samples, "array_samples", &g->samples) < 0 ||
               take(samples, "tensor_samples", &g->tensor_samples) < 0 ||
               take(names, "bound_to", &g->bound_to) < 0 || take(names, "name_of", &g->name_of) < 0 ||
               take(habits, "habits_of", &g->habits) < 0 || take(functools, "partial", &g->partial) < 0 ||
               !io || take(io, "BytesIO", &g->bytes_io) < 0 ||
               !training || take(training, "read_by", &g->read_by) < 0 ? -1 : 0;
    PyObject *known = done == 0 ? PyObject_CallMethod(training, "Training", NULL) : NULL;
    if (!known || take(known, "moved", &g->moved) < 0) done = -1;
    Py_XDECREF(known); Py_XDECREF(training);
    Py_XDECREF(io); Py_XDECREF(dataflow); Py_XDECREF(samples); Py_XDECREF(names); Py_XDECREF(habits); Py_XDECREF(functools);
    return done;
}

static PyObject *gatherer_new(PyTypeObject *type, PyObject *args, PyObject *keywords) {
    static char *names[] = {"user_files", "names", "on_operation", NULL};
    PyObject *user_files, *naming, *on_operation = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "O!O|O", names, &PySet_Type, &user_files, &naming, &on_operation)) return NULL;
    Gatherer *g = (Gatherer *)type->tp_alloc(type, 0); /* all zero */
    if (!g) return NULL;
    g->user_files = owned(user_files); g->names = owned(naming); g->on_operation = owned(on_operation);
    g->event_least = LEAST_LONG;
    g->odd_sites = PyDict_New();
    g->word_numbers = PyDict_New();
    PyObject *nothing = PyUnicode_FromString("");
    Hashes none = {NO_LEAVES, NO_LEAVES};
    if (!g->odd_sites || !g->word_numbers || !nothing || take_helpers(g) < 0 || signature_number(g, none, nothing) < 0) Py_CLEAR(g);
    Py_XDECREF(nothing);
    return (PyObject *)g;
}

static int gatherer_traverse(Gatherer *g, visitproc visit, void *arg) {
    Py_VISIT(g->user_files); Py_VISIT(g->names); Py_VISIT(g->on_operation); Py_VISIT(g->taker); Py_VISIT(g->odd_sites);
    for (size_t i = 0; i < g->paths_n; i++) Py_VISIT(g->paths[i].site);
    return 0;
}

/* Breaks cycles; what sites may still ask of a gatherer that is being collected stays whole. */
static int gatherer_clear(Gatherer *g) {
    PyObject *on_operation = g->on_operation;
    g->on_operation = owned(Py_None);
    Py_XDECREF(on_operation);
    Py_CLEAR(g->taker);
    return 0;
}

static void gatherer_dealloc(Gatherer *g) {
    PyObject_GC_UnTrack(g);
    flow_clear(&g->flow);
    for (size_t i = 0; i < g->words_n; i++) Py_DECREF(g->words[i]);
    for (size_t i = 0; i < g->types_n; i++) Py_XDECREF(g->types[i].ref);
    for (size_t i = 0; i < g->functions_n; i++) { Py_DECREF(g->functions[i].ref); Py_XDECREF(g->functions[i].name); }
    for (size_t i = 0; i < g->signatures_n; i++) Py_DECREF(g->signatures[i].text);
    for (size_t i = 0; i < g->paths_n; i++) Py_DECREF(g->paths[i].site);
    for (size_t i = 0; i * BLOCK < g->records_n; i++) free(g->blocks[i]);
    free(g->words); free(g->types); free(g->functions); free(g->signatures); free(g->paths);
    free(g->blocks); free(g->slots);
    index_clear(&g->types_index); index_clear(&g->functions_index);
    index_clear(&g->signatures_index); index_clear(&g->paths_index); index_clear(&g->sites_index);
    sums_clear(&g->edges);
    free(g->arrivals); free(g->peaks); free(g->events);
    pending_clear(g);
    free(g->pending);
    for (int i = 0; i < g->files_n; i++) Py_DECREF(g->files[i].ref);
    PyObject *held[] = {g->user_files, g->names, g->on_operation, g->taker, g->classify, g->nbytes, g->signature, g->open_shapes,
                        g->layout_of, g->address_of, g->bound_to, g->name_of, g->samples, g->tensor_samples, g->habits, g->partial, g->bytes_io,
                        g->moved, g->read_by,
                        g->odd_sites, g->word_numbers};
    for (size_t i = 0; i < sizeof held / sizeof *held; i++) Py_XDECREF(held[i]);
    Py_TYPE(g)->tp_free((PyObject *)g);
}

static PyMethodDef gatherer_methods[] = {
    {"path", method_path, METH_VARARGS, "path(parent, site): the number of that chain of sites."},
    {"operation", method_operation, METH_VARARGS, "operation(path, site, function, args, keywords, result, total, own, returned, failed=False)"},
    {"region", method_region, METH_VARARGS, "region(path, site, function, args, keywords, result, total, own, returned)"},
    {"note", method_note, METH_VARARGS, "note(value, before): what user code returned to a library call."},
    {"carries", method_carries, METH_O, "carries(number): whether it came out of an operation on data."},
    {"freeze", method_freeze, METH_O, "freeze(path): ends the counting of the operations at this chain."},
    {"templates", method_templates, METH_VARARGS, "templates(first=0): the templates so far, from this number on."},
    {"paths", method_paths, METH_NOARGS, "paths(): parent and site of each chain so far."},
    {"edges", method_edges, METH_NOARGS, "edges(): producer, consumer, kind and bytes of each edge so far."},
    {"sizes", method_sizes, METH_NOARGS, "sizes(): how much of what is held."},
    {"events", method_events, METH_NOARGS, "events(): the bar for long calls, and operation, thread, end, nanoseconds and bytes of single calls."},
    {"arrive", method_arrive, METH_VARARGS, "arrive(token, before): notes a batch that another process made."},
    {"arrivals", method_arrivals, METH_NOARGS, "arrivals(): token and consumer of each such batch."},
    {"peak", method_peak, METH_O, "peak(nbytes): the most that the next operation allocated."},
    {"flows", method_flows, METH_O, "flows(value): bytes by producer of the data in a value."},
    {"rebase", method_rebase, METH_NOARGS, "rebase(): counts from 0 again; how many chains and templates there are."},
    {NULL, NULL, 0, NULL}};
static PyObject *get_taker(Gatherer *g, void *Py_UNUSED(none)) { return owned(g->taker ? g->taker : Py_None); }
static int set_taker(Gatherer *g, PyObject *taker, void *Py_UNUSED(none)) {
    PyObject *before = g->taker;
    g->taker = taker && taker != Py_None ? owned(taker) : NULL;
    Py_XDECREF(before);
    return 0;
}
static PyGetSetDef gatherer_fields[] = {
    {"api", get_api, NULL, "The functions that sites in C call.", NULL},
    {"taker", (getter)get_taker, (setter)set_taker, "taker(template, kind, function, args, keywords): told of first executions.", NULL},
    {NULL, NULL, NULL, NULL, NULL}};
static PyTypeObject GathererType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "codedag.trace._gather.Gatherer", .tp_basicsize = sizeof(Gatherer),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, .tp_doc = "Gathers templates and edges; see gather.py.",
    .tp_new = gatherer_new, .tp_dealloc = (destructor)gatherer_dealloc, .tp_traverse = (traverseproc)gatherer_traverse,
    .tp_clear = (inquiry)gatherer_clear, .tp_methods = gatherer_methods, .tp_getset = gatherer_fields};

/* ---- the module -------------------------------------------------------------------------------------------------- */

static PyObject *trust_fields(PyObject *Py_UNUSED(module), PyObject *yes) {
    int trusted = PyObject_IsTrue(yes);
    if (trusted < 0) return NULL;
    values_trust(trusted);
    Py_RETURN_NONE;
}
static PyMethodDef functions[] = {
    {"trust_fields", trust_fields, METH_O, "trust_fields(bool): whether fields of arrays may be read, once they are checked."},
    {NULL, NULL, 0, NULL}};
static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, .m_name = "codedag.trace._gather", .m_doc = "The gatherer in C; see gather.py.", .m_size = -1,
    .m_methods = functions};

static int ready(void) {
    for (int i = 0; i < 6; i++)
        if (!(kinds[i] = PyUnicode_InternFromString(KIND_TEXT[i]))) return -1;
    return (s_out = PyUnicode_InternFromString("out")) && (s_dst = PyUnicode_InternFromString("dst")) &&
           (s_kind = PyUnicode_InternFromString("kind")) && (s_calls = PyUnicode_InternFromString("calls")) &&
           (s_nanoseconds = PyUnicode_InternFromString("nanoseconds")) && values_ready() == 0 && names_ready() == 0 &&
           PyType_Ready(&ReturnedType) == 0 ? 0 : -1;
}

PyMODINIT_FUNC PyInit__gather(void) {
    PyObject *m = PyModule_Create(&definition);
    if (m && (ready() < 0 || PyModule_AddType(m, &GathererType) < 0 || PyModule_AddType(m, &TemplateType) < 0)) Py_CLEAR(m);
    return m;
}
