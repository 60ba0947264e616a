/* The gatherer in C: templates, edges and paths.  gather.py is the same in plain Python and the place for the rules.
 *
 * The hot path builds no text: an operation is found by its path, the number of its name and two hashes of what went
 * in, one with and one without the extents of shapes.  Texts are made once for each new template.
 */
#include "gather.h"
#include <structmember.h>
#include <time.h>
#include "../instrument/_recorder.h"

#define MOST_SHAPES 4       /* these three are those of gather.py */
#define TOLD_FROM 6
#define DEEPEST_PATH 64
#define MOST_PATHS (1u << 17)
#define DEEPEST_VALUE 3
#define MOST_NAMES (1u << 21)
#define NO_LEAVES 0x243f6a8885a308d3ULL /* where the hash of a signature begins */

static const char *const KIND_TEXT[] = {"call", "operator", "subscript", "region", "source", "sink"};
static PyObject *kinds[6], *s_out, *s_dst, *s_kind, *s_calls, *s_nanoseconds;
static PyTypeObject GathererType, TemplateType, ReturnedType;
static int take_token(Gatherer *g, uint32_t token, uint32_t number);
static int keep_peak(Gatherer *g, uint32_t number);

/* ---- signatures ------------------------------------------------------------------------------------------------ */

typedef struct { uint64_t exact, open; } Hashes;

static Hashes hashes_of(const Leaf *leaves, Py_ssize_t n) {
    Hashes h = {NO_LEAVES, NO_LEAVES};
    uint64_t shapes = 0;
    for (Py_ssize_t i = 0; i < n; i++) {
        const Layout *layout = &leaves[i].layout;
        h.open = also(h.open, (uint64_t)layout->word << 8 | (uint64_t)(uint8_t)(layout->ndim + 1));
        if (layout->ndim > 0) shapes = also(shapes, layout->extents);
    }
    h.exact = shapes ? also(h.open, shapes) : h.open; /* a signature without extents is open already */
    return h;
}

static PyObject *text_of(Gatherer *g, const Leaf *leaves, Py_ssize_t n) {
    PyObject *parts = PyList_New(0), *comma = PyUnicode_FromString(","), *text = NULL;
    for (Py_ssize_t i = 0; parts && comma && i < n; i++) {
        PyObject *part = leaves[i].kind == TENSOR ? tensor_text(g, &leaves[i]) : NULL;
        PyObject *leaf = part || PyErr_Occurred() ? NULL : Py_BuildValue("(Oi)", leaves[i].value, leaves[i].kind);
        if (leaf) part = PyObject_CallOneArg(g->signature, leaf);
        if (!part || PyList_Append(parts, part) < 0) Py_CLEAR(parts);
        Py_XDECREF(part); Py_XDECREF(leaf);
    }
    if (parts && comma) text = PyUnicode_Join(comma, parts);
    Py_XDECREF(parts); Py_XDECREF(comma);
    return text;
}

static int64_t signature_number(Gatherer *g, Hashes h, PyObject *text) {
    uint32_t at = index_find(&g->signatures_index, h.exact);
    if (at != NONE) return at;
    Signature *array = grown(g->signatures, g->signatures_n, &g->signatures_room, sizeof *array);
    if (!array) return -1;
    g->signatures = array;
    if (index_put(&g->signatures_index, h.exact, (uint32_t)g->signatures_n) < 0) return -1;
    Py_INCREF(text);
    g->signatures[g->signatures_n] = (Signature){text, h.exact, h.open};
    return (int64_t)g->signatures_n++;
}

/* ---- templates ------------------------------------------------------------------------------------------------- */

static inline Record *record_at(const Gatherer *g, uint32_t number) { return &g->blocks[number / BLOCK][number % BLOCK]; }

static inline size_t first_slot(const Gatherer *g, uint32_t path, uint32_t name, uint64_t open) {
    uint64_t hash = also(open, (uint64_t)path << 21 | name);
    return (size_t)(((hash >> 32) * (uint64_t)g->slots_room) >> 32);
}
static inline size_t next_slot(const Gatherer *g, size_t i) { return i + 1 < g->slots_room ? i + 1 : 0; }

typedef struct { uint32_t exact, open, shapes; } Found; /* the templates that fit, and how many shapes are told apart */

static Found template_find(const Gatherer *g, uint32_t path, uint32_t name, Hashes h) {
    Found found = {NONE, NONE, 0};
    if (!g->slots_room) return found;
    for (size_t i = first_slot(g, path, name, h.open); g->slots[i]; i = next_slot(g, i)) {
        uint32_t number = g->slots[i] - 1;
        const Record *record = record_at(g, number);
        if (record->path != path || record->name != name) continue;
        const Signature *in = &g->signatures[record->in_sig];
        if (in->exact == h.exact) { found.exact = number; break; }
        if (in->open != h.open) continue;
        found.shapes++;
        if (in->exact == h.open) found.open = number;
    }
    return found;
}

static void slot_fill(Gatherer *g, uint32_t number) {
    const Record *record = record_at(g, number);
    size_t i = first_slot(g, record->path, record->name, g->signatures[record->in_sig].open);
    while (g->slots[i]) i = next_slot(g, i);
    g->slots[i] = number + 1;
}

static int slots_grow(Gatherer *g) {
    if (10 * ((size_t)g->records_n + 1) <= 8 * g->slots_room) return 0;
    size_t room = g->slots_room < 64 ? 64 : g->slots_room + g->slots_room / 5;
    uint32_t *slots = calloc(room, sizeof *slots);
    if (!slots) { PyErr_NoMemory(); return -1; }
    free(g->slots);
    g->slots = slots; g->slots_room = room;
    for (uint32_t number = 0; number < g->records_n; number++) slot_fill(g, number);
    return 0;
}

static int64_t template_new(Gatherer *g, uint32_t path, PyObject *site, uint32_t name, int kind, int64_t in_sig) {
    uint32_t number = g->records_n;
    if (in_sig < 0 || slots_grow(g) < 0) return -1;
    if (name >= MOST_NAMES || number >= INT32_MAX) { PyErr_SetString(PyExc_OverflowError, "too many operations"); return -1; }
    if (number % BLOCK == 0) {
        Record **blocks = grown(g->blocks, number / BLOCK, &g->blocks_room, sizeof *blocks);
        if (!blocks) return -1;
        g->blocks = blocks;
        if (!(g->blocks[number / BLOCK] = calloc(BLOCK, sizeof(Record)))) { PyErr_NoMemory(); return -1; }
    }
    Record *record = record_at(g, number);
    record->path = path; record->name = name; record->kind = (unsigned)kind & 7; record->in_sig = (uint32_t)in_sig;
    record->out_sig = 0; record->least_ns = 4.6e18f;
    g->records_n++;
    slot_fill(g, number);
    if (site == g->paths[path].site) return number;
    PyObject *key = PyLong_FromUnsignedLong(number);
    int done = key ? PyDict_SetItem(g->odd_sites, key, site) : -1;
    Py_XDECREF(key);
    return done < 0 ? -1 : (int64_t)number;
}

static int64_t template_of(Gatherer *g, uint32_t path, PyObject *site, uint32_t name, int kind, const Leaf *leaves, Py_ssize_t n) {
    Hashes h = hashes_of(leaves, n);
    Found found = template_find(g, path, name, h);
    if (found.exact != NONE) return found.exact;
    if (found.open != NONE) return found.open;
    PyObject *text = text_of(g, leaves, n); /* runs Python code: look again */
    PyObject *open = text ? PyObject_CallOneArg(g->open_shapes, text) : NULL;
    int64_t number = -1;
    if (open) {
        found = template_find(g, path, name, h);
        if (found.shapes >= MOST_SHAPES && found.exact == NONE) {
            h.exact = h.open;
            Py_SETREF(text, open);
            open = NULL;
            found.exact = found.open;
        }
        number = found.exact != NONE ? (int64_t)found.exact
                                     : template_new(g, path, site, name, kind, signature_number(g, h, text));
    }
    Py_XDECREF(text); Py_XDECREF(open);
    return number;
}

static float below(int64_t x) { float f = (float)x; return (double)f > (double)x ? f - (f < 0 ? -f : f) * 1.2e-7f : f; }
static float above(int64_t x) { float f = (float)x; return (double)f < (double)x ? f + (f < 0 ? -f : f) * 1.2e-7f : f; }

#include "gather_events.h"

static int count(Gatherer *g, uint32_t number, int64_t total, int64_t own, const Leaf *outputs, Py_ssize_t n) {
    Record *record = record_at(g, number);
    record->count++;
    record->self_ns += own;
    record->total_ns += total;
    if ((float)own <= record->least_ns) record->least_ns = below(own);
    if ((float)own >= record->most_ns) record->most_ns = above(own);
    for (Py_ssize_t i = 0; i < n; i++) record->out_nbytes += outputs[i].layout.nbytes;
    if (__builtin_expect(total >= g->event_least || record->count <= FIRST_CALLS, 0) && event_keep(g, number, total, outputs, n) < 0) return -1;
    if (record->out_sig || !n) return 0;
    PyObject *text = text_of(g, outputs, n);
    int64_t out_sig = text ? signature_number(g, hashes_of(outputs, n), text) : -1;
    Py_XDECREF(text);
    if (out_sig < 0) return -1;
    record_at(g, number)->out_sig = (uint32_t)out_sig;
    return 0;
}

static int edge(Gatherer *g, uint32_t src, uint32_t dst, int kind, int64_t nbytes) {
    return sums_add(&g->edges, ((uint64_t)src << 32 | (uint64_t)dst << 1 | (uint64_t)kind) + 1, (uint64_t)nbytes);
}

/* ---- what user code hands back to a library call ---------------------------------------------------------------- */

typedef struct { PyObject_HEAD Sums flows; } Returned; /* producer + 1 -> bytes */

static void returned_dealloc(Returned *r) { sums_clear(&r->flows); PyObject_Free(r); }
static PyTypeObject ReturnedType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "codedag.trace._gather.Returned", .tp_basicsize = sizeof(Returned),
    .tp_flags = Py_TPFLAGS_DEFAULT, .tp_dealloc = (destructor)returned_dealloc};

static PyObject *noted_with(PyObject *self, PyObject *value, PyObject *before, int always) { /* always: even without data */
    Gatherer *g = (Gatherer *)self;
    Returned *noted = (Returned *)before;
    if (before && !Py_IS_TYPE(before, &ReturnedType)) { PyErr_SetString(PyExc_TypeError, "not noted here"); return NULL; }
    Leaves leaves;
    leaves_begin(&leaves, NULL, NULL);
    int done = leaves_find(g, value, &leaves, DEEPEST_VALUE);
    Py_XINCREF(before);
    if (done == 0 && (leaves.n || always) && !noted) {
        if ((noted = PyObject_New(Returned, &ReturnedType))) memset(&noted->flows, 0, sizeof noted->flows);
        else done = -1;
    }
    for (Py_ssize_t i = 0; done == 0 && i < leaves.n; i++) {
        uint32_t producer = flow_producer(&g->flow, &leaves.at[i], NONE);
        if (producer != NONE) done = sums_add(&noted->flows, (uint64_t)producer + 1, (uint64_t)leaves.at[i].layout.nbytes);
    }
    leaves_end(&leaves);
    if (done < 0) Py_CLEAR(noted);
    return (PyObject *)noted;
}

static PyObject *gather_note(PyObject *self, PyObject *value, PyObject *before) { return noted_with(self, value, before, 0); }

/* ---- one operation ----------------------------------------------------------------------------------------------- */

typedef struct {
    uint32_t path, number;
    PyObject *site, *function;
    PyObject *const *args;      /* positional, then keyword values */
    Py_ssize_t n;
    PyObject *names, *result, *returned;
    int site_kind, failed, habits, has_files;
    Py_ssize_t held;            /* how many of the inputs the object holds of which it is a method */
    Called called;
    Leaves inputs, outputs, written;
} Operation;

static int is_holder(int kind) { return kind == IGNORED || kind == SEQUENCE || kind == MAPPING || kind == USER || kind == LIBRARY; }
static int is_data(int kind) { return kind == ARRAY || kind == TENSOR || kind == OBJECT; }

static Py_ssize_t every(const Operation *o) { return o->n + (o->names ? PyTuple_GET_SIZE(o->names) : 0); }

/* Whether a call puts values into a container, takes them out or keeps them: that moves no data.  -1 if it fails. */
static int only_stores(Gatherer *g, const Operation *o) {
    if (o->site_kind == SITE_GETITEM || o->site_kind == SITE_SETITEM) {
        int kind = kind_of(g, o->args[o->site_kind == SITE_SETITEM]);
        return kind < 0 ? -1 : kind == SEQUENCE || kind == MAPPING;
    }
    if (o->habits & LOOKS && !o->called.own) return 1;
    PyObject *where = o->habits & PUTS && o->called.own ? o->called.own
                      : o->habits & PLACES && every(o)  ? o->args[0]
                      : PyType_Check(o->function)       ? o->result : NULL;
    if (!where) return 0;
    int takes = (o->function == (PyObject *)&PyList_Type || o->function == (PyObject *)&PyTuple_Type) && o->n;
    int from = takes ? kind_of(g, o->args[0]) : IGNORED, kind = kind_of(g, where);
    if (from == ARRAY || from == TENSOR || from == FLAT) return 0; /* it takes the rows or the numbers out */
    return from < 0 || kind < 0 ? -1 : is_holder(kind);
}

/* First what the object holds of which it is a method (o->held of them), then what it was given. */
static int find_inputs(Gatherer *g, Operation *o) {
    int stores = only_stores(g, o), kind = IGNORED;
    o->held = 0;
    if (stores) return stores < 0 ? -1 : 0;
    PyObject *own = o->site_kind == SITE_ITERATE ? o->function : o->called.own;
    if (own && (kind = kind_of(g, own)) < 0) return -1;
    if (kind == LIBRARY) {
        if (leaves_held(g, own, &o->inputs, o->site_kind == SITE_ITERATE ? 2 : 0) < 0 || leaves_distinct(&o->inputs) < 0) return -1;
        o->held = o->inputs.n;
        leaves_again(&o->inputs);
    } else if (kind != IGNORED && o->site_kind != SITE_ITERATE && leaves_find(g, own, &o->inputs, 1) < 0) return -1;
    for (Py_ssize_t i = 0; i < every(o); i++)
        if (leaves_find(g, o->args[i], &o->inputs, DEEPEST_VALUE) < 0) return -1;
    return 0;
}

#include "gather_moves.h"

/* Data that nobody recorded made: its source is a template of its own. */
static int64_t source_of(Gatherer *g, const Operation *o, const Leaf *leaf) {
    TypeFacts *facts = type_facts(g, leaf->value);
    if (!facts) return -1;
    uint32_t word = facts->source_word;
    if (word == NONE) {
        PyObject *name = PyUnicode_FromFormat("source:%U", g->words[facts->word]);
        int64_t number = name ? word_number(g, name) : -1;
        Py_XDECREF(name);
        if (number < 0) return -1;
        word = (uint32_t)number;
        if ((facts = type_facts(g, leaf->value))) facts->source_word = word;
    }
    int64_t source = template_of(g, o->path, o->site, word, KIND_SOURCE, leaf, 1);
    if (source < 0 || count(g, (uint32_t)source, 0, 0, leaf, 1) < 0) return -1;
    if (flow_made(&g->flow, leaf, (uint32_t)source) < 0) return -1;
    flow_producer(&g->flow, leaf, o->number);
    return PyErr_Occurred() ? -1 : source;
}

static int consume(Gatherer *g, const Operation *o) {
    for (Py_ssize_t i = 0; i < o->inputs.n; i++) {
        const Leaf *leaf = &o->inputs.at[i];
        int64_t producer = flow_producer(&g->flow, leaf, o->number);
        if (producer == NONE) {
            producer = leaf->kind == SCALAR ? flow_unpacked(&g->flow, leaf) : source_of(g, o, leaf);
            if (producer < 0) return -1;
            if (producer == NONE) continue;
        }
        if (edge(g, (uint32_t)producer, o->number, FLOW, leaf->layout.nbytes) < 0) return -1;
    }
    if (!o->returned) return 0;
    const Sums *flows = &((Returned *)o->returned)->flows;
    for (size_t i = 0; i < flows->room; i++) {
        uint64_t key = flows->slot[i].key;
        if (!key) continue;
        int done = key & TOKEN ? take_token(g, (uint32_t)key, o->number)
                               : edge(g, (uint32_t)(key - 1), o->number, FLOW, (int64_t)flows->slot[i].sum);
        if (done < 0) return -1;
    }
    return 0;
}

static int overwrite(Gatherer *g, const Operation *o, const Leaf *leaf) {
    Set readers;
    if (flow_written(&g->flow, leaf, o->number, &readers) < 0) return -1;
    int done = 0;
    for (uint32_t i = 0; i < readers.room && done == 0; i++)
        if (readers.slot[i] != NONE && readers.slot[i] != o->number) done = edge(g, readers.slot[i], o->number, ANTI, 0);
    free(readers.slot);
    return done;
}

/* What a call wrote that returned nothing: a method its own object, a function its first argument if known to do so. */
static PyObject *target_of(Gatherer *g, const Operation *o) { /* borrowed; NULL if it fails */
    if (o->site_kind == SITE_SETITEM) { /* a site passes value, object, index */
        int of = kind_of(g, o->args[1]);
        return of < 0 ? NULL : of == FLAT ? array_behind(o->args[1]) : o->args[1];
    }
    int kind = o->called.own ? kind_of(g, o->called.own) : IGNORED;
    if (kind < 0) return NULL;
    if (is_data(kind)) return o->habits & KEEPS ? Py_None : o->called.own;
    return o->habits & WRITES && o->n ? o->args[0] : Py_None;
}

/* What this call wrote: out=, dst=, an item set, or what a call wrote that returned nothing. */
static int find_written(Gatherer *g, Operation *o) {
    for (int which = 0; o->names && which < 2; which++) {
        PyObject *name = which ? s_dst : s_out;
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(o->names); i++) {
            PyObject *each = PyTuple_GET_ITEM(o->names, i), *value = o->args[o->n + i];
            if (value == Py_None || (each != name && PyUnicode_Compare(each, name) != 0)) continue;
            if (leaves_find(g, value, &o->written, 1) < 0) return -1;
        }
    }
    for (Py_ssize_t i = 0; o->habits & FILLS && i < o->n && !o->written.n; i++)
        if (leaves_find(g, o->args[i], &o->written, 1) < 0) return -1;
    if (o->habits & FILLS || o->result != Py_None || !o->inputs.n) return 0;
    PyObject *target = target_of(g, o);
    int kind = target ? kind_of(g, target) : -1;
    if (kind < 0) return -1;
    if (is_data(kind)) return leaves_add(g, target, kind, &o->written);
    for (Py_ssize_t i = 0; i < o->held && !(o->habits & KEEPS); i++)
        if (leaves_add(g, o->inputs.at[i].value, o->inputs.at[i].kind, &o->written) < 0) return -1;
    return 0;
}

static int produce(Gatherer *g, const Operation *o) {
    for (Py_ssize_t i = 0; i < o->written.n; i++)
        if (overwrite(g, o, &o->written.at[i]) < 0) return -1;
    for (Py_ssize_t i = 0; i < o->outputs.n; i++) {
        const Leaf *leaf = &o->outputs.at[i];
        int is_result = leaf->value == o->result, taken = 0;
        for (Py_ssize_t j = 0; is_result && j < o->inputs.n && !taken; j++) taken = o->inputs.at[j].value == leaf->value;
        if (taken) {
            if (overwrite(g, o, leaf) < 0) return -1;
        } else if (is_result && !o->returned ? 1 : flow_maker(&g->flow, leaf) == NONE) {
            if (leaf->kind == TENSOR && flow_shares(&g->flow, leaf, &o->inputs) < 0) return -1;
            if (flow_made(&g->flow, leaf, o->number) < 0) return -1;
        } /* else it was handed through unchanged */
    }
    if (!PyFloat_CheckExact(o->result) || !o->inputs.n) return 0;
    for (Py_ssize_t i = 0; i < o->n; i++)
        if (o->args[i] == o->result) return 0; /* one that was given is known, or is a constant */
    return flow_hold(&g->flow, o->result, o->number);
}

static PyObject *template_for(Gatherer *g, uint32_t number) {
    PyObject *args = Py_BuildValue("(OI)", (PyObject *)g, number);
    PyObject *template = args ? PyObject_CallObject((PyObject *)&TemplateType, args) : NULL;
    Py_XDECREF(args);
    return template;
}

/* Hands what went into the first execution of a template to who keeps samples. */
static int give_sample(Gatherer *g, const Operation *o) {
    PyObject *template = template_for(g, o->number), *keywords = PyDict_New(), *args = PyTuple_New(o->n), *taker = Py_NewRef(g->taker);
    for (Py_ssize_t i = 0; args && i < o->n; i++) PyTuple_SET_ITEM(args, i, Py_NewRef(o->args[i]));
    int done = template && keywords && args ? 0 : -1;
    for (Py_ssize_t i = 0; done == 0 && o->names && i < PyTuple_GET_SIZE(o->names); i++)
        done = PyDict_SetItem(keywords, PyTuple_GET_ITEM(o->names, i), o->args[o->n + i]);
    PyObject *taken = done == 0 ? PyObject_CallFunction(taker, "OiOOO", template, o->site_kind, o->function, args, keywords) : NULL;
    Py_XDECREF(template); Py_XDECREF(keywords); Py_XDECREF(args); Py_XDECREF(taken); Py_DECREF(taker);
    return taken ? 0 : -1;
}

static int tell(Gatherer *g, uint32_t number) {
    uint64_t so_far = record_at(g, number)->count;
    if (g->on_operation == Py_None || (so_far != 1 && so_far < TOLD_FROM)) return 0;
    PyObject *template = template_for(g, number);
    PyObject *done = template ? PyObject_CallOneArg(g->on_operation, template) : NULL;
    Py_XDECREF(template); Py_XDECREF(done);
    return done ? 0 : -1;
}

#include "gather_later.h"
#include "gather_files.h"
#include "gather_training.h"

/* ---- recording ----------------------------------------------------------------------------------------------------- */

static int kind_of_operation(const Operation *o) {
    static const int KINDS[] = {KIND_CALL, KIND_OPERATOR, KIND_OPERATOR, KIND_OPERATOR, KIND_SUBSCRIPT, KIND_SUBSCRIPT, KIND_CALL, KIND_CALL};
    int silent = o->site_kind == SITE_CALL && o->result == Py_None && !o->failed && !(o->habits & WORKS);
    return silent && o->inputs.n && !o->written.n && !o->has_files ? KIND_SINK : KINDS[o->site_kind];
}

static int gather_region(PyObject *self, long path, PyObject *site, PyObject *function, long long total, long long own);

/* Goes through the reasons why an operation may be none: 1 if it is one, 0 if nothing moved, -1 if it fails. */
static int moves_data(Gatherer *g, Operation *o, uint32_t *later) {
    int found = g->pending_n && !o->failed ? later_of(g, o, later) : NO_LATER;
    if (found != LATER) *later = NONE;
    if (found < 0 || found == HANDED_OUT) return found < 0 ? -1 : 0;
    int nothing = moves_nothing(g, o);
    return nothing < 0 ? -1 : !nothing;
}

static int record(Gatherer *g, Operation *o, int64_t total, int64_t own) { /* 1, 0 if nothing moved, -1 if it fails */
    int iterates = o->site_kind == SITE_ITERATE, done = 0;
    uint32_t later = NONE;
    if (called_begin(g, o->function, iterates, &o->called) < 0) return -1;
    o->habits = o->site_kind == SITE_CALL ? o->called.habits : 0;
    if (o->habits & CALLS && !o->failed && (done = is_called_later(g, o, total, own)) != 0) return done;
    if (find_inputs(g, o) < 0 || leaves_find(g, o->result, &o->outputs, DEEPEST_VALUE) < 0) return -1;
    if (o->habits & (STEPS | CLIPS) && !o->failed && find_trained(g, o) < 0) return -1;
    if ((done = moves_data(g, o, &later)) <= 0) return done;
    if (leaves_distinct(&o->inputs) < 0) return -1;
    if (!o->failed && (o->names || o->result == Py_None || o->habits & FILLS) && find_written(g, o) < 0) return -1;
    if (!o->failed && !o->written.n && passes_on(g, o))
        return !o->returned ? 0 : gather_region((PyObject *)g, (long)o->path, o->site, o->function, total, own) < 0 ? -1 : 1;
    if (called_word(g, o->function, iterates, &o->called) < 0) return -1;
    o->has_files = !o->failed && o->site_kind == SITE_CALL && has_files(g, o);
    int64_t number = template_of(g, o->path, o->site, o->called.word, kind_of_operation(o), o->inputs.at, o->inputs.n);
    if (number < 0) return -1;
    o->number = (uint32_t)number;
    if (o->has_files && move_through_files(g, o) < 0) return -1;
    if (o->habits & WORKS && !o->failed) note_backward(g, o->number);
    if (g->paths[o->path].frozen && record_at(g, o->number)->count) {
        for (Py_ssize_t i = 0; i < o->outputs.n; i++)
            if (flow_made(&g->flow, &o->outputs.at[i], o->number) < 0) return -1;
        return 1;
    }
    if (later != NONE && edge(g, later, o->number, FLOW, 0) < 0) return -1;
    if (consume(g, o) < 0 || (g->has_stepped && read_parameters(g, o) < 0) || (!o->failed && produce(g, o) < 0)) return -1;
    if (PyErr_Occurred()) return -1; /* no memory for a reader */
    if (count(g, o->number, total, own, o->outputs.at, o->outputs.n) < 0) return -1;
    if (g->peak_next && keep_peak(g, o->number) < 0) return -1;
    if (g->taker && !o->failed && record_at(g, o->number)->count == 1 && give_sample(g, o) < 0) return -1;
    return tell(g, o->number) < 0 ? -1 : 1;
}

static int record_told(PyObject *self, long path, PyObject *site, int kind, PyObject *function, PyObject *args,
                       PyObject *keywords, PyObject *result, long long total, long long own, PyObject *returned);

/* A call of a functools.partial is one of the function behind it, with its arguments too. */
static int record_partial(PyObject *self, long path, PyObject *site, PyObject *partial, PyObject *const *args, Py_ssize_t n,
                          PyObject *names, PyObject *result, long long total, long long own, PyObject *returned) {
    PyObject *function = PyObject_GetAttrString(partial, "func"), *first = PyObject_GetAttrString(partial, "args");
    PyObject *more = PyObject_GetAttrString(partial, "keywords"), *keywords = more && PyDict_Check(more) ? PyDict_Copy(more) : NULL;
    Py_ssize_t before = first && PyTuple_Check(first) ? PyTuple_GET_SIZE(first) : 0;
    PyObject *all = keywords ? PyTuple_New(before + n) : NULL;
    int done = all && function ? 0 : -1;
    for (Py_ssize_t i = 0; all && i < before + n; i++) {
        PyObject *each = i < before ? PyTuple_GET_ITEM(first, i) : args[i - before];
        Py_INCREF(each);
        PyTuple_SET_ITEM(all, i, each);
    }
    for (Py_ssize_t i = 0; done == 0 && names && i < PyTuple_GET_SIZE(names); i++)
        done = PyDict_SetItem(keywords, PyTuple_GET_ITEM(names, i), args[n + i]);
    if (done == 0) done = record_told(self, path, site, SITE_CALL, function, all, keywords, result, total, own, returned);
    else if (!PyErr_Occurred()) PyErr_SetString(PyExc_TypeError, "not a partial");
    Py_XDECREF(function); Py_XDECREF(first); Py_XDECREF(more); Py_XDECREF(keywords); Py_XDECREF(all);
    return done;
}

static int gather_operation(PyObject *self, long path, PyObject *site, int kind, PyObject *function, PyObject *const *args,
                            Py_ssize_t n, PyObject *names, PyObject *result, long long total, long long own, PyObject *returned) {
    Gatherer *g = (Gatherer *)self;
    if (path < 0 || (size_t)path >= g->paths_n || kind < SITE_CALL || kind > SITE_ITERATE) { PyErr_SetString(PyExc_IndexError, "no such path"); return -1; }
    if (returned && !Py_IS_TYPE(returned, &ReturnedType)) { PyErr_SetString(PyExc_TypeError, "not noted here"); return -1; }
    if (kind == SITE_CALL && (PyObject *)Py_TYPE(function) == g->partial)
        return record_partial(self, path, site, function, args, n, names, result, total, own, returned);
    Operation o; /* its arrays are large and need no zeros */
    o.path = (uint32_t)path; o.site = site; o.site_kind = kind; o.function = function;
    o.args = args; o.n = n; o.names = names; o.returned = returned;
    o.failed = result == NULL; o.result = result ? result : Py_None;
    leaves_begin(&o.inputs, o.result, NULL);
    leaves_begin(&o.outputs, o.result, &o.inputs);
    leaves_begin(&o.written, Py_None, &o.inputs);
    Py_INCREF(g);
    int done = record(g, &o, total, own);
    called_end(&o.called);
    leaves_end(&o.inputs); leaves_end(&o.outputs); leaves_end(&o.written);
    Py_DECREF(g);
    return done;
}

static int gather_region(PyObject *self, long path, PyObject *site, PyObject *function, long long total, long long own) {
    Gatherer *g = (Gatherer *)self;
    if (path < 0 || (size_t)path >= g->paths_n) { PyErr_SetString(PyExc_IndexError, "no such path"); return -1; }
    if (g->paths[path].frozen) return 0;
    Called called;
    int64_t number = -1;
    if (called_begin(g, function, 0, &called) == 0 && called_word(g, function, 0, &called) == 0)
        number = template_of(g, (uint32_t)path, site, called.word, KIND_REGION, NULL, 0);
    called_end(&called);
    if (number < 0 || count(g, (uint32_t)number, total, own, NULL, 0) < 0) return -1;
    return g->peak_next ? keep_peak(g, (uint32_t)number) : 0;
}

/* Recursion folds into itself: a site that is in the chain already ends it there.  Where there are very many chains, any
 * chain that ends at the site stands for a new one. */
static long folded_path(const Gatherer *g, long parent, PyObject *site) {
    for (long at = parent; at >= 0; at = g->paths[at].parent)
        if (g->paths[at].site == site) return at;
    uint32_t first = g->paths_n >= MOST_PATHS ? index_find(&g->sites_index, (uintptr_t)site) : NONE;
    return first == NONE ? -1 : (long)first;
}

static long gather_path(PyObject *self, long parent, PyObject *site) {
    Gatherer *g = (Gatherer *)self;
    if (parent >= (long)g->paths_n) { PyErr_SetString(PyExc_IndexError, "no such path"); return -1; }
    if (parent >= 0 && g->paths[parent].depth >= DEEPEST_PATH) return parent; /* deep recursion folds into itself */
    uint64_t key = also((uintptr_t)site, (uint64_t)(parent + 1));
    for (uint32_t at; (at = index_find(&g->paths_index, key)) != NONE; key = mixed(key + 1))
        if (g->paths[at].site == site && g->paths[at].parent == parent) return (long)at;
    long folded = folded_path(g, parent, site);
    if (folded >= 0) return folded;
    Path *array = grown(g->paths, g->paths_n, &g->paths_room, sizeof *array);
    if (!array) return -1;
    g->paths = array;
    if (g->paths_n >= INT32_MAX || index_put(&g->paths_index, key, (uint32_t)g->paths_n) < 0) return -1;
    if (index_find(&g->sites_index, (uintptr_t)site) == NONE && index_put(&g->sites_index, (uintptr_t)site, (uint32_t)g->paths_n) < 0) return -1;
    Py_INCREF(site);
    uint16_t depth = parent >= 0 ? (uint16_t)(g->paths[parent].depth + 1) : 1;
    g->paths[g->paths_n] = (Path){site, (int32_t)parent, depth, 0};
    return (long)g->paths_n++;
}

#include "gather_processes.h"
#include "gather_types.h"
