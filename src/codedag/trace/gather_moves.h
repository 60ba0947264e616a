/* Calls that move nothing, or only what others made.  Part of _gather.c. */

static int all_known(Gatherer *g, const Operation *o) {
    for (Py_ssize_t i = 0; i < o->outputs.n; i++)
        if (flow_maker(&g->flow, &o->outputs.at[i]) == NONE) return 0;
    return 1;
}

/* The producer of the array that an iterator over items goes through, and its memory; NONE, or -1 if it fails. */
static int64_t iterated(Gatherer *g, PyObject *iterator, uint64_t *memory) {
    PyObject *parts = PyObject_CallMethod(iterator, "__reduce__", NULL);
    PyObject *args = parts && PyTuple_Check(parts) && PyTuple_GET_SIZE(parts) > 1 ? PyTuple_GET_ITEM(parts, 1) : NULL;
    PyObject *sequence = args && PyTuple_Check(args) && PyTuple_GET_SIZE(args) ? PyTuple_GET_ITEM(args, 0) : NULL;
    int kind = sequence ? kind_of(g, sequence) : parts ? IGNORED : -1;
    int64_t producer = kind < 0 ? -1 : (int64_t)NONE;
    if (kind == ARRAY) {
        Leaves leaves;
        leaves_begin(&leaves, NULL, NULL);
        if (leaves_add(g, sequence, kind, &leaves) < 0) producer = -1;
        else { producer = flow_producer(&g->flow, &leaves.at[0], NONE); *memory = flow_memory(&g->flow, &leaves.at[0]); }
        leaves_end(&leaves);
    }
    Py_XDECREF(parts);
    return producer;
}

/* Whether a loop took these from an array that is known: rows are views of it, single numbers its elements. */
static int are_parts(Gatherer *g, const Operation *o) {
    uint64_t memory = 0;
    int64_t producer = Py_IS_TYPE(o->function, &PySeqIter_Type) ? iterated(g, o->function, &memory) : (int64_t)NONE;
    if (producer < 0) return -1;
    for (Py_ssize_t i = 0; i < o->outputs.n; i++) { /* a row of a view comes from what made the view, not its memory */
        const Leaf *leaf = &o->outputs.at[i];
        if (producer != NONE && (leaf->kind == SCALAR || flow_memory(&g->flow, leaf) == memory)) {
            if (flow_made(&g->flow, leaf, (uint32_t)producer) < 0) return -1;
        } else if (flow_producer(&g->flow, leaf, NONE) == NONE) return 0;
    }
    return 1;
}

static int moves_nothing(Gatherer *g, const Operation *o) {
    if (o->inputs.n > o->held || o->returned) return 0;
    if (o->held && (o->outputs.n || o->result == Py_None)) return 0;
    return all_known(g, o) ? 1 : o->site_kind == SITE_ITERATE ? are_parts(g, o) : 0;
}

static int is_below(const Gatherer *g, uint32_t path, uint32_t operation) { /* whether it ran inside the one at this path */
    int32_t below = g->paths[record_at(g, operation)->path].parent;
    while (below > (int32_t)path) below = g->paths[below].parent;
    return below == (int32_t)path;
}

/* Whether all that came out was there before: inside of what went in, or made by what this call has run. */
static int passes_on(Gatherer *g, const Operation *o) {
    if (!o->outputs.n || o->result == o->called.own) return 0;
    if (!o->returned && o->site_kind >= SITE_BINARY && o->site_kind <= SITE_INPLACE) return 0; /* made here */
    for (Py_ssize_t i = 0; i < every(o); i++)
        if (o->args[i] == o->result) return 0;
    for (Py_ssize_t i = 0; i < o->outputs.n; i++) {
        const Leaf *leaf = &o->outputs.at[i];
        uint32_t maker = flow_maker(&g->flow, leaf);
        if (maker == NONE) return 0;
        int taken = o->returned != NULL;
        for (Py_ssize_t j = 0; j < o->inputs.n && !taken; j++) taken = o->inputs.at[j].value == leaf->value;
        if (!taken && !is_below(g, o->path, maker)) return 0;
    }
    return 1;
}
