/* The gatherer in C: shared declarations.  gather.py and dataflow.py are the same rules in plain Python.
 *
 * Threads: everything happens with the GIL held, but whatever runs Python code or may start the garbage collector
 * (making an object, asking a value about itself) may let another thread in.  So no pointer into a table is kept
 * across such a call, and every table is whole whenever one is made.
 */
#ifndef CODEDAG_GATHER_H
#define CODEDAG_GATHER_H
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { SITE_CALL, SITE_BINARY, SITE_UNARY, SITE_INPLACE, SITE_GETITEM, SITE_SETITEM, SITE_RETURN, SITE_ITERATE };
enum { IGNORED, ARRAY, TENSOR, SEQUENCE, MAPPING, OBJECT, SCALAR, USER, LIBRARY, FLAT }; /* dataflow.py has the same list */
enum { KIND_CALL, KIND_OPERATOR, KIND_SUBSCRIPT, KIND_REGION, KIND_SOURCE, KIND_SINK };
enum { PUTS = 1, PLACES = 2, WRITES = 4, KEEPS = 8, WORKS = 16, CALLS = 32, LOOKS = 64, FILLS = 128, STEPS = 256, CLIPS = 512 }; /* habits.py has the same list */
enum { FLOW, ANTI };

#define NONE UINT32_MAX
#define INTERNAL __attribute__((visibility("hidden")))
#define SELDOM __attribute__((noinline, cold)) /* kept out of the way of what runs for each operation */

/* ---- tables (gather_tables.c) ------------------------------------------------------------------------------- */

/* Key -> number, for dense arrays of entries.  Key 0 is none; nothing is ever taken out, a purge builds it anew. */
typedef struct { uint64_t *key; uint32_t *at; size_t room, n; } Index;
INTERNAL uint32_t index_find(const Index *t, uint64_t key);
INTERNAL int index_put(Index *t, uint64_t key, uint32_t at); /* 0, or -1 without memory */
INTERNAL void index_clear(Index *t);

/* Key -> sum, 16 bytes a slot and at least two thirds full: the edges of the graph. */
typedef struct { struct { uint64_t key, sum; } *slot; size_t room, n; } Sums;
INTERNAL int sums_add(Sums *t, uint64_t key, uint64_t amount);
INTERNAL void sums_clear(Sums *t);

/* A set of operations. */
typedef struct { uint32_t *slot; uint32_t room, n; } Set;
INTERNAL int set_add(Set *t, uint32_t element);

/* Room for one more of n elements of an array; NULL without memory. */
INTERNAL void *grown(void *array, size_t n, size_t *room, size_t size);

static inline uint64_t mixed(uint64_t x) { /* murmur's last step: every bit of x moves every bit of the result */
    x ^= x >> 33; x *= 0xff51afd7ed558ccdULL;
    x ^= x >> 33; x *= 0xc4ceb9fe1a85ec53ULL;
    return x ^ (x >> 33);
}
static inline uint64_t also(uint64_t hash, uint64_t x) { return mixed(hash * 0x9e3779b97f4a7c15ULL + x + 1); }

/* ---- weak references ---------------------------------------------------------------------------------------- */

static inline int refers_to(PyObject *ref, PyObject *object) {
#if PY_VERSION_HEX >= 0x030D0000
    PyObject *there = NULL;
    if (PyWeakref_GetRef(ref, &there) != 1) return object == NULL;
    Py_DECREF(there);
    return there == object;
#else
    PyObject *there = PyWeakref_GET_OBJECT(ref);
    return there == (object ? object : Py_None);
#endif
}
static inline int is_dead(PyObject *ref) { return refers_to(ref, NULL); }

/* A weak reference that nobody is called back for, or NULL without an exception where there can be none. */
static inline PyObject *weak(PyObject *object) {
    PyObject *ref = PyWeakref_NewRef(object, NULL);
    if (!ref) PyErr_Clear();
    return ref;
}

/* ---- what the gatherer knows -------------------------------------------------------------------------------- */

/* A class of values.  `ref` is weak and NULL for classes that live for ever. */
typedef struct { PyTypeObject *type; PyObject *ref; int kind; uint32_t word, source_word; int64_t nbytes; } TypeFacts;

/* A callable, or the method `name` of a class (`of` is the class then). */
typedef struct { PyObject *of, *ref, *name; uint32_t word; int habits; } FunctionFacts;

/* An element type. */
typedef struct { uint32_t word; int64_t itemsize; } Element;

/* Shape, element type and memory of one array or tensor. */
typedef struct {
    uint32_t word;      /* name of the element type, or of the class where there is no shape */
    int32_t ndim;       /* -1: no shape */
    uint64_t extents;   /* hash of the shape */
    int64_t nbytes;
    uintptr_t data;     /* first element */
    uintptr_t storage;  /* where the memory of the tensor behind it begins; 0 if there is no tensor */
    int asked;          /* a tensor told this itself, which is slow: worth keeping */
} Layout;

/* A data object found in the values of an operation. */
typedef struct {
    PyObject *value;    /* owned: other threads may take it out of its container meanwhile */
    PyObject *root;     /* borrowed from value: the array or tensor that stands for the memory, */
    PyObject *memory;   /* and what has the memory: the same, or (borrowed) a bytearray, a mapped file */
    int kind;
    Layout layout;
} Leaf;

#define FEW 16
typedef struct Leaves {
    Leaf *at;
    Py_ssize_t n;
    size_t room;
    int left;           /* values that may still be looked at */
    PyObject *result;   /* what the operation returned: such a tensor is asked anew; None: every one is */
    const struct Leaves *before; /* what was found before, and need not be asked twice */
    Leaf few[FEW];
} Leaves;

/* An object and the operation that made it.  `layout` is kept for tensors, which are slow to ask. */
typedef struct { PyObject *object, *ref; uint64_t when, key; uint32_t operation; Layout *layout; } Made; /* key: its memory */

/* A piece of memory, its last writer and who has read it since. */
typedef struct { uint64_t key, written, begun; PyObject *owner; uint32_t writer; Set readers; PyObject *heir; } Buffer; /* heir: see dataflow.py */

typedef struct { uintptr_t storage; PyObject *owner; uint64_t key; } Shared;

/* What will give the results of a call that a library makes later.  `ref` is NULL where there is none, and
 * the type (of C, so it stays) must do. */
typedef struct { PyTypeObject *type; PyObject *ref; uint32_t operation; } Pending;
typedef struct { struct { PyObject *value; uint32_t operation; } *slot; size_t n; } Scalars;

/* A file in memory and the operation that last wrote data to it. */
#define MOST_FILES 64 /* calls.py */
typedef struct { PyObject *file, *ref; uint32_t operation; } File;

/* The elements of a small array. */
#define FEW_ELEMENTS 16 /* dataflow.py, as RECENT */
#define RECENT 4
typedef struct { uint32_t word, operation; int n, size; unsigned char bytes[FEW_ELEMENTS * 8]; } Small;

typedef struct {
    uint64_t clock;
    Made *made; size_t made_n, made_room; Index made_index;
    Buffer *buffers; size_t buffers_n, buffers_room; Index buffers_index;
    Shared *shared; size_t shared_n, shared_room; Index shared_index;
    Scalars young, old;
    Small *small; unsigned small_next; /* RECENT of them, once there are some */
    size_t purge_at;
} Flow;

/* One operation of the graph: 56 bytes, and 6 in the index. */
typedef struct {
    uint32_t path, in_sig, out_sig;
    float least_ns, most_ns;    /* rounded outwards */
    uint32_t spare;
    uint64_t count : 40, name : 21, kind : 3;
    int64_t self_ns, total_ns, out_nbytes;
} Record;

#define BLOCK 512
typedef struct { PyObject *text; uint64_t exact, open; } Signature;
typedef struct { PyObject *site; int32_t parent; uint16_t depth; uint16_t frozen; } Path;

#define TOKEN (1ULL << 40) /* among producers that were noted: a batch that another process made */
typedef struct { uint32_t token, number; } Arrival;

/* One call, for the timeline (gather_events.h). */
typedef struct { int64_t end, total, nbytes; unsigned long thread; uint32_t number; int first; } Event;

typedef struct {
    PyObject_HEAD
    PyObject *user_files, *names, *on_operation, *taker; /* who keeps the inputs of first executions, or NULL */
    PyObject *classify, *nbytes, *signature, *open_shapes, *layout_of, *address_of, *bound_to, *name_of, *samples, *tensor_samples;
    PyObject *habits, *partial, *bytes_io, *moved, *read_by;
    int has_stepped;            /* an optimiser has written its parameters */
    uint32_t backward; uint64_t backward_when; unsigned long backward_thread; /* the last one; by number + 1 */
    PyObject *odd_sites;        /* template -> site, where that is not the end of its path (deep recursion) */
    PyObject *word_numbers;     /* text -> number */
    PyObject **words; size_t words_n, words_room;
    PyTypeObject *last_type; int last_kind;    /* the class that was looked up last, if it lives for ever */
    TypeFacts *types; size_t types_n, types_room; Index types_index;
    FunctionFacts *functions; size_t functions_n, functions_room; Index functions_index;
    Element tensor_numbers[64]; /* torch's, by their number in the fields of a tensor */
    Element numbers[24];        /* numpy's own numbers in the byte order of the machine, by their type number */
    Flow flow;
    Record **blocks; size_t blocks_room; uint32_t records_n;
    uint32_t *slots; size_t slots_room;     /* index of records: number + 1, 0 is free */
    Signature *signatures; size_t signatures_n, signatures_room; Index signatures_index;
    Path *paths; size_t paths_n, paths_room; Index paths_index, sites_index;
    Sums edges;
    Event *events; uint32_t events_n; int64_t event_least;
    Arrival *arrivals; size_t arrivals_n, arrivals_room; /* batches that other processes made, and who took them */
    int64_t *peaks; size_t peaks_room; int64_t peak_next; /* of a memory pass, by number */
    Pending *pending; size_t pending_n, pending_room; Index pending_index;
    File files[MOST_FILES]; int files_n;
} Gatherer;

/* ---- values (gather_values.c) ------------------------------------------------------------------------------- */
INTERNAL int values_ready(void);
INTERNAL void values_trust(int yes);    /* whether fields of arrays may be read (tests say no) */
INTERNAL PyObject *tensor_text(Gatherer *g, const Leaf *leaf); /* its signature; NULL if its fields are not known */
INTERNAL int64_t word_number(Gatherer *g, PyObject *text);
INTERNAL TypeFacts *type_facts(Gatherer *g, PyObject *value); /* NULL with an exception; not across Python code */
INTERNAL int kind_of(Gatherer *g, PyObject *value);           /* -1 with an exception */
INTERNAL void leaves_begin(Leaves *out, PyObject *result, const Leaves *before);
INTERNAL void leaves_again(Leaves *out); /* as many values may be looked at again */
INTERNAL int leaves_find(Gatherer *g, PyObject *value, Leaves *out, int depth);
INTERNAL int leaves_held(Gatherer *g, PyObject *value, Leaves *out, int depth);
INTERNAL PyObject *array_behind(PyObject *flat); /* borrowed: what a numpy.flatiter goes through */
INTERNAL int leaves_add(Gatherer *g, PyObject *value, int kind, Leaves *out);
INTERNAL int leaves_distinct(Leaves *leaves);
INTERNAL int elements_of(const Leaf *leaf, Small *out); /* 1 if it has a few floating-point numbers in memory of numpy */
INTERNAL void leaves_end(Leaves *leaves);

/* ---- callables (gather_names.c) ----------------------------------------------------------------------------- */
typedef struct {
    PyObject *own, *name;   /* owned; what it is bound to, if that is an object or a class */
    const char *text;       /* the name, if it was seen without asking */
    const void *where;      /* its address: the same for every call of one method */
    int habits;
    uint32_t word;          /* the dotted name, once it is known */
} Called;
INTERNAL int names_ready(void);
INTERNAL int called_begin(Gatherer *g, PyObject *function, int iterates, Called *called); /* own is a new reference */
INTERNAL int called_word(Gatherer *g, PyObject *function, int iterates, Called *called);
INTERNAL void called_end(Called *called);

/* ---- flow (gather_flow.c) ----------------------------------------------------------------------------------- */
INTERNAL uint32_t flow_producer(Flow *f, const Leaf *leaf, uint32_t reader); /* NONE: unknown, or no memory */
INTERNAL uint64_t flow_memory(const Flow *f, const Leaf *leaf); /* the key of what an array or tensor is a part of */
INTERNAL uint32_t flow_maker(const Flow *f, const Leaf *leaf); /* of this very object; NONE: unknown */
INTERNAL int64_t flow_unpacked(Flow *f, const Leaf *scalar); /* see dataflow.py; NONE, or -1 if it fails */
INTERNAL int flow_scalar_known(const Flow *f, PyObject *value);
INTERNAL int flow_made(Flow *f, const Leaf *leaf, uint32_t operation);
INTERNAL int flow_written(Flow *f, const Leaf *leaf, uint32_t operation, Set *readers); /* the caller frees them */
INTERNAL int flow_renewed(Flow *f, const Leaf *leaf, uint32_t operation, uint64_t when);
INTERNAL int flow_shares(Flow *f, const Leaf *tensor, const Leaves *inputs);
INTERNAL const Layout *flow_layout(const Flow *f, PyObject *tensor);
INTERNAL int flow_hold(Flow *f, PyObject *scalar, uint32_t operation);
INTERNAL void flow_clear(Flow *f);

#define HELD_SCALARS 8192 /* dataflow.py */
#endif
