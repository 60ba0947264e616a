/* Steps of an optimiser and what they read and write.  Part of _gather.c; the rules are those of gather.py, and
 * training.py is asked in both. */

static void note_backward(Gatherer *g, uint32_t number) {
    g->backward = number + 1;
    g->backward_when = g->flow.clock;
    g->backward_thread = PyThread_get_thread_ident();
}

static int add_gradient(Gatherer *g, Operation *o, PyObject *gradient) {
    if (leaves_add(g, gradient, TENSOR, &o->inputs) < 0) return -1;
    if (!g->backward || g->backward_thread != PyThread_get_thread_ident()) return 0;
    return flow_renewed(&g->flow, &o->inputs.at[o->inputs.n - 1], g->backward - 1, g->backward_when);
}

static int add_trained(Gatherer *g, Operation *o, PyObject *gradients, PyObject *written) {
    if (PyList_GET_SIZE(gradients) && o->habits & CLIPS) { /* of the parameters only the gradients are read */
        leaves_end(&o->inputs);
        leaves_begin(&o->inputs, o->result, NULL);
        o->held = 0;
    }
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(gradients); i++)
        if (add_gradient(g, o, PyList_GET_ITEM(gradients, i)) < 0) return -1;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(written); i++)
        if (leaves_add(g, PyList_GET_ITEM(written, i), TENSOR, &o->written) < 0) return -1;
    if (PyList_GET_SIZE(written) && o->habits & STEPS) g->has_stepped = 1;
    return 0;
}

/* What a step of an optimiser or a clipping reads and writes. */
SELDOM static int find_trained(Gatherer *g, Operation *o) {
    PyObject *args = PyTuple_New(o->n), *moved = NULL;
    for (Py_ssize_t i = 0; args && i < o->n; i++) { Py_INCREF(o->args[i]); PyTuple_SET_ITEM(args, i, o->args[i]); }
    if (args) moved = PyObject_CallFunction(g->moved, "OOi", o->called.own ? o->called.own : Py_None, args, o->habits);
    Py_XDECREF(args);
    if (!moved) return -1;
    int good = PyTuple_Check(moved) && PyTuple_GET_SIZE(moved) == 2;
    int done = good ? add_trained(g, o, PyTuple_GET_ITEM(moved, 0), PyTuple_GET_ITEM(moved, 1)) : 0;
    Py_DECREF(moved);
    return done;
}

/* A call of a torch module reads its parameters; that is of interest once an optimiser has written some. */
SELDOM static int read_parameters(Gatherer *g, const Operation *o) {
    if (o->site_kind != SITE_CALL || o->called.own) return 0;
    int kind = kind_of(g, o->function);
    if (kind != LIBRARY && kind != USER) return kind < 0 ? -1 : 0;
    PyObject *tensors = PyObject_CallOneArg(g->read_by, o->function);
    if (!tensors) return -1;
    Leaves leaves;
    leaves_begin(&leaves, NULL, NULL);
    int done = 0;
    for (Py_ssize_t i = 0; done == 0 && i < PyList_GET_SIZE(tensors); i++) {
        if ((done = leaves_add(g, PyList_GET_ITEM(tensors, i), TENSOR, &leaves)) < 0) break;
        uint32_t producer = flow_producer(&g->flow, &leaves.at[i], NONE);
        if (producer != NONE) done = edge(g, producer, o->number, FLOW, leaves.at[i].layout.nbytes);
    }
    leaves_end(&leaves);
    Py_DECREF(tensors);
    return done;
}
