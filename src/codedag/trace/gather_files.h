/* Data that goes through files in memory.  Part of _gather.c; the rules are those of calls.py. */

static int is_file(const Gatherer *g, PyObject *value) { return (PyObject *)Py_TYPE(value) == g->bytes_io; }

static int has_files(const Gatherer *g, const Operation *o) {
    for (Py_ssize_t i = 0; i < every(o); i++)
        if (is_file(g, o->args[i])) return 1;
    return 0;
}

static int file_find(const Gatherer *g, PyObject *file) {
    for (int i = 0; i < g->files_n; i++)
        if (g->files[i].file == file) return i;
    return -1;
}

static int file_wrote(Gatherer *g, PyObject *file, uint32_t operation) {
    PyObject *ref = PyWeakref_NewRef(file, NULL);
    if (!ref) return -1;
    int at = file_find(g, file);
    if (at < 0 && g->files_n == MOST_FILES) at = 0; /* the oldest */
    if (at >= 0) {
        Py_DECREF(g->files[at].ref); /* has no callback: nothing runs */
        g->files_n--;
        memmove(&g->files[at], &g->files[at + 1], (size_t)(g->files_n - at) * sizeof *g->files);
    }
    g->files[g->files_n++] = (File){file, ref, operation};
    return 0;
}

/* A file in memory holds the data that it was given along with; given alone, what it holds is read. */
SELDOM static int move_through_files(Gatherer *g, const Operation *o) {
    for (Py_ssize_t i = 0; i < every(o); i++) {
        if (!is_file(g, o->args[i])) continue;
        int at = file_find(g, o->args[i]), done = 0;
        if (o->inputs.n) done = file_wrote(g, o->args[i], o->number);
        else if (at >= 0 && refers_to(g->files[at].ref, o->args[i])) done = edge(g, g->files[at].operation, o->number, FLOW, 0);
        if (done < 0) return -1;
    }
    return 0;
}
