/* Who made this value?  The rules of dataflow.py over the tables of the gatherer. */
#include "gather.h"

#define LEAST_PURGE 4096
#define TENSOR_KEY (1ULL << 63) /* memory of a tensor is known by its address, which is no address of an object */

/* ---- scalars: the newest are kept alive, since their ids must not be reused while they are known ------------- */

#define SCALAR_SLOTS (2 * HELD_SCALARS)

static size_t scalar_slot(const Scalars *t, PyObject *value) {
    size_t i = (size_t)mixed((uintptr_t)value) & (SCALAR_SLOTS - 1);
    while (t->slot[i].value && t->slot[i].value != value) i = (i + 1) & (SCALAR_SLOTS - 1);
    return i;
}

static uint32_t scalar_producer(const Flow *f, PyObject *value) {
    const Scalars *generations[2] = {&f->young, &f->old};
    for (int g = 0; g < 2; g++) {
        if (!generations[g]->n) continue;
        size_t i = scalar_slot(generations[g], value);
        if (generations[g]->slot[i].value) return generations[g]->slot[i].operation;
    }
    return NONE;
}

int flow_scalar_known(const Flow *f, PyObject *value) { return scalar_producer(f, value) != NONE; }

static void scalars_release(Scalars *t) {
    for (size_t i = 0; t->slot && i < SCALAR_SLOTS; i++) Py_CLEAR(t->slot[i].value);
    t->n = 0;
}

int flow_hold(Flow *f, PyObject *value, uint32_t operation) {
    if (!f->young.slot && !(f->young.slot = calloc(SCALAR_SLOTS, sizeof *f->young.slot))) { PyErr_NoMemory(); return -1; }
    size_t i = scalar_slot(&f->young, value);
    if (!f->young.slot[i].value) { Py_INCREF(value); f->young.slot[i].value = value; f->young.n++; }
    f->young.slot[i].operation = operation;
    if (f->young.n >= HELD_SCALARS) {
        Scalars oldest = f->old;
        f->old = f->young;
        f->young = oldest;
        scalars_release(&f->young); /* plain numbers: no code of the program runs */
    }
    return 0;
}

static int has_element(const Small *small, const unsigned char *bytes) {
    for (int i = 0; i < small->n; i++)
        if (memcmp(small->bytes + i * small->size, bytes, (size_t)small->size) == 0) return 1;
    return 0;
}

/* The operation behind the only small array of late that has this number among its elements. */
int64_t flow_unpacked(Flow *f, const Leaf *scalar) {
    uint32_t found = NONE;
    int some = 0;
    for (int i = 0; f->small && i < RECENT; i++) some |= f->small[i].n && f->small[i].word == scalar->layout.word;
    if (!some || Py_TYPE(scalar->value)->tp_flags & Py_TPFLAGS_HEAPTYPE || PyFloat_CheckExact(scalar->value)) return NONE;
    Py_buffer view;
    if (PyObject_GetBuffer(scalar->value, &view, PyBUF_SIMPLE) < 0) { PyErr_Clear(); return NONE; }
    for (int i = 0; i < RECENT && some; i++) {
        const Small *small = &f->small[i];
        if (!small->n || small->word != scalar->layout.word || small->size != view.len || !has_element(small, view.buf)) continue;
        if (found != NONE && found != small->operation) some = 0; /* two may be meant */
        found = small->operation;
    }
    PyBuffer_Release(&view);
    if (!some || found == NONE) return NONE;
    return flow_hold(f, scalar->value, found) < 0 ? -1 : (int64_t)found;
}

/* ---- objects and memory -------------------------------------------------------------------------------------- */

static Made *made_find(const Flow *f, PyObject *value) {
    uint32_t at = index_find(&f->made_index, (uintptr_t)value);
    if (at == NONE || !refers_to(f->made[at].ref, value)) return NULL;
    return &f->made[at];
}

const Layout *flow_layout(const Flow *f, PyObject *tensor) {
    Made *made = made_find(f, tensor);
    return made ? made->layout : NULL;
}

uint32_t flow_maker(const Flow *f, const Leaf *leaf) {
    if (leaf->kind == SCALAR) return scalar_producer(f, leaf->value);
    Made *made = made_find(f, leaf->value);
    return made ? made->operation : NONE;
}

/* The references dropped have no callbacks, and their objects are dead. */
static int adopt(Buffer *buffer, const Made *made) {
    if (!made || made->key != buffer->key || made->when < buffer->begun) return 0;
    PyObject *before = buffer->owner;
    Py_INCREF(made->ref);
    buffer->owner = made->ref;
    Py_DECREF(before);
    return 1;
}

SELDOM static Buffer *inherit(Buffer *buffer) {
    PyObject *before = buffer->owner;
    buffer->owner = buffer->heir; buffer->heir = NULL;
    Py_DECREF(before);
    return buffer;
}

/* The memory with this key, if it lives: its owner does, or this value, which has used it since it began. */
static Buffer *buffer_find(const Flow *f, uint64_t key, const Leaf *leaf) {
    uint32_t at = index_find(&f->buffers_index, key);
    if (at == NONE) return NULL;
    Buffer *buffer = &f->buffers[at];
    if (!is_dead(buffer->owner)) return buffer;
    if (buffer->heir && !is_dead(buffer->heir)) return inherit(buffer);
    int own = leaf->kind == ARRAY && leaf->memory == leaf->value; /* an array at the address of another one */
    return !own && adopt(buffer, made_find(f, leaf->value)) ? buffer : NULL;
}

static PyObject *referent(PyObject *ref) { /* borrowed: its memory is in use, so it lives */
#if PY_VERSION_HEX >= 0x030D0000
    PyObject *owner = NULL;
    if (PyWeakref_GetRef(ref, &owner) == 1) Py_DECREF(owner);
    return owner;
#else
    return PyWeakref_GET_OBJECT(ref);
#endif
}

typedef struct { uint64_t key; PyObject *owner; } Root;

static Root root_of(const Flow *f, const Leaf *leaf) {
    if (leaf->layout.storage) {
        uint32_t at = index_find(&f->shared_index, leaf->layout.storage);
        if (at != NONE && !is_dead(f->shared[at].owner)) {
            return (Root){f->shared[at].key, referent(f->shared[at].owner)};
        }
        return (Root){leaf->layout.storage | TENSOR_KEY, leaf->root};
    }
    return (Root){(uintptr_t)leaf->memory, leaf->root};
}

uint64_t flow_memory(const Flow *f, const Leaf *leaf) {
    return leaf->kind == ARRAY || leaf->kind == TENSOR ? root_of(f, leaf).key : 0;
}

uint32_t flow_producer(Flow *f, const Leaf *leaf, uint32_t reader) {
    if (leaf->kind == SCALAR) return scalar_producer(f, leaf->value);
    Made *made = made_find(f, leaf->value);
    if (leaf->kind != ARRAY && leaf->kind != TENSOR) return made ? made->operation : NONE;
    Root root = root_of(f, leaf);
    if (!made && root.owner != leaf->value) made = made_find(f, root.owner);
    Buffer *buffer = buffer_find(f, root.key, leaf);
    if (!buffer) return made ? made->operation : NONE;
    if (!made && root.owner == leaf->value) made = made_find(f, referent(buffer->owner)); /* p.data: on the memory of p */
    if (reader != NONE && set_add(&buffer->readers, reader) < 0) return NONE;
    return !made || buffer->written > made->when ? buffer->writer : made->operation;
}

/* Notes a writer of memory that nobody alive is known to have written.  Takes over the reference `owner`. */
static int buffer_begin(Flow *f, uint64_t key, PyObject *owner, uint32_t writer) {
    uint32_t at = index_find(&f->buffers_index, key);
    if (at == NONE) {
        Buffer *array = grown(f->buffers, f->buffers_n, &f->buffers_room, sizeof *array);
        if (!array) { Py_DECREF(owner); return -1; }
        f->buffers = array;
        if (index_put(&f->buffers_index, key, (uint32_t)f->buffers_n) < 0) { Py_DECREF(owner); return -1; }
        f->buffers[f->buffers_n++] = (Buffer){key, f->clock, f->clock, owner, writer, {NULL, 0, 0}, NULL};
        return 0;
    }
    Buffer *buffer = &f->buffers[at];
    free(buffer->readers.slot);
    PyObject *before = buffer->owner, *heir = buffer->heir;
    *buffer = (Buffer){key, f->clock, f->clock, owner, writer, {NULL, 0, 0}, NULL};
    Py_DECREF(before); Py_XDECREF(heir);
    return 0;
}

static void keep_layout(Made *made, const Leaf *leaf) {
    if (leaf->kind != TENSOR || !leaf->layout.storage || !leaf->layout.asked) { free(made->layout); made->layout = NULL; return; }
    if (!made->layout) made->layout = malloc(sizeof *made->layout);
    if (made->layout) *made->layout = leaf->layout; /* without memory it is asked again */
}

/* Takes over the reference `ref`. */
static int made_put(Flow *f, const Leaf *leaf, PyObject *ref, uint64_t key, uint32_t operation) {
    uint32_t at = index_find(&f->made_index, (uintptr_t)leaf->value);
    if (at == NONE) {
        Made *array = grown(f->made, f->made_n, &f->made_room, sizeof *array);
        if (array) f->made = array;
        if (!array || index_put(&f->made_index, (uintptr_t)leaf->value, (uint32_t)f->made_n) < 0) {
            Py_DECREF(ref);
            return -1;
        }
        at = (uint32_t)f->made_n++;
        f->made[at] = (Made){leaf->value, NULL, 0, 0, NONE, NULL};
    }
    Made *made = &f->made[at];
    PyObject *before = made->ref;
    made->ref = ref; made->when = f->clock; made->key = key; made->operation = operation;
    keep_layout(made, leaf);
    Py_XDECREF(before);
    return 0;
}

/* Drops what is dead.  The references dropped have no callbacks, so nothing runs meanwhile. */
static int purge(Flow *f) {
    size_t n = 0;
    index_clear(&f->made_index);
    for (size_t i = 0; i < f->made_n; i++) {
        Made *made = &f->made[i];
        if (is_dead(made->ref)) { Py_DECREF(made->ref); free(made->layout); continue; }
        f->made[n] = *made;
        if (index_put(&f->made_index, (uintptr_t)made->object, (uint32_t)n++) < 0) return -1;
    }
    f->made_n = n;
    for (size_t i = 0; i < n; i++) { /* memory whose first owner is gone goes to one that lives */
        uint32_t at = f->made[i].key ? index_find(&f->buffers_index, f->made[i].key) : NONE;
        if (at != NONE && is_dead(f->buffers[at].owner)) adopt(&f->buffers[at], &f->made[i]);
    }
    n = 0;
    index_clear(&f->buffers_index);
    for (size_t i = 0; i < f->buffers_n; i++) {
        Buffer *buffer = &f->buffers[i];
        if (is_dead(buffer->owner)) { Py_DECREF(buffer->owner); Py_XDECREF(buffer->heir); free(buffer->readers.slot); continue; }
        f->buffers[n] = *buffer;
        if (index_put(&f->buffers_index, f->buffers[n].key, (uint32_t)n) < 0) return -1;
        n++;
    }
    f->buffers_n = n;
    n = 0;
    index_clear(&f->shared_index);
    for (size_t i = 0; i < f->shared_n; i++) {
        if (is_dead(f->shared[i].owner)) { Py_DECREF(f->shared[i].owner); continue; }
        f->shared[n] = f->shared[i];
        if (index_put(&f->shared_index, f->shared[n].storage, (uint32_t)n) < 0) return -1;
        n++;
    }
    f->shared_n = n;
    f->purge_at = 2 * (f->made_n + f->buffers_n + f->shared_n);
    if (f->purge_at < LEAST_PURGE) f->purge_at = LEAST_PURGE;
    return 0;
}

/* Copies the elements of a small array: numbers that are unpacked from it have no other mark. */
SELDOM static int remember(Flow *f, const Leaf *leaf, uint32_t operation) {
    if (!f->small && !(f->small = calloc(RECENT, sizeof *f->small))) { PyErr_NoMemory(); return -1; }
    Small *small = &f->small[f->small_next];
    if (!elements_of(leaf, small)) return 0;
    small->word = leaf->layout.word; small->operation = operation;
    f->small_next = (f->small_next + 1) % RECENT;
    return 0;
}

int flow_made(Flow *f, const Leaf *leaf, uint32_t operation) {
    if (leaf->kind == SCALAR) return flow_hold(f, leaf->value, operation);
    int has_memory = leaf->kind == ARRAY || leaf->kind == TENSOR;
    Root root = has_memory ? root_of(f, leaf) : (Root){0, NULL};
    Py_XINCREF(root.owner);
    PyObject *ref = weak(leaf->value); /* may start the collector: nothing of the tables is held here */
    PyObject *owner = ref && root.owner && root.owner != leaf->value ? weak(root.owner) : NULL;
    Py_XDECREF(root.owner);
    if (!ref) return 0; /* such objects cannot be followed */
    f->clock++;
    if (!owner) { Py_INCREF(ref); owner = ref; }
    Buffer *buffer = has_memory ? buffer_find(f, root.key, leaf) : NULL;
    if (has_memory && !buffer) {
        if (buffer_begin(f, root.key, owner, operation) < 0) { Py_DECREF(ref); return -1; }
    } else Py_DECREF(owner);
    if (buffer && leaf->kind == TENSOR && buffer->owner != ref && (!buffer->heir || is_dead(buffer->heir))) {
        Py_INCREF(ref);
        Py_XSETREF(buffer->heir, ref);
    }
    if (made_put(f, leaf, ref, root.key, operation) < 0) return -1;
    if (leaf->kind == ARRAY && leaf->layout.ndim == 1 && leaf->layout.nbytes <= FEW_ELEMENTS * 8 && remember(f, leaf, operation) < 0)
        return -1;
    if (!f->purge_at) f->purge_at = LEAST_PURGE;
    return f->made_n + f->buffers_n + f->shared_n > f->purge_at ? purge(f) : 0;
}

int flow_written(Flow *f, const Leaf *leaf, uint32_t operation, Set *readers) {
    *readers = (Set){NULL, 0, 0};
    f->clock++;
    if (leaf->kind == ARRAY || leaf->kind == TENSOR) {
        Root root = root_of(f, leaf);
        Buffer *buffer = buffer_find(f, root.key, leaf);
        if (buffer) {
            *readers = buffer->readers;
            buffer->readers = (Set){NULL, 0, 0};
            buffer->writer = operation; buffer->written = f->clock;
        } else {
            PyObject *owner = weak(root.owner);
            if (owner && buffer_begin(f, root.key, owner, operation) < 0) return -1;
        }
    }
    if (flow_made(f, leaf, operation) < 0) { free(readers->slot); *readers = (Set){NULL, 0, 0}; return -1; }
    return 0;
}

/* Notes that `operation` wrote this at the time `when`, unless another has done so since. */
int flow_renewed(Flow *f, const Leaf *leaf, uint32_t operation, uint64_t when) {
    const Made *made = made_find(f, leaf->value);
    const Buffer *buffer = buffer_find(f, root_of(f, leaf).key, leaf);
    if ((made && made->when > when) || (buffer && buffer->written > when)) return 0;
    Set readers;
    int done = flow_written(f, leaf, operation, &readers);
    if (done == 0) free(readers.slot);
    return done;
}

int flow_shares(Flow *f, const Leaf *tensor, const Leaves *inputs) {
    uintptr_t storage = tensor->layout.storage;
    for (Py_ssize_t i = 0; storage && i < inputs->n; i++) {
        const Leaf *leaf = &inputs->at[i];
        if (leaf->kind != ARRAY || leaf->layout.data != storage) continue;
        Root root = root_of(f, leaf);
        if (root.key & TENSOR_KEY) continue; /* the array itself is memory of a tensor */
        PyObject *owner = weak(root.owner);
        if (!owner) continue;
        uint32_t at = index_find(&f->shared_index, storage);
        if (at != NONE) { f->shared[at].key = root.key; Py_SETREF(f->shared[at].owner, owner); continue; }
        Shared *array = grown(f->shared, f->shared_n, &f->shared_room, sizeof *array);
        if (array) f->shared = array;
        if (!array || index_put(&f->shared_index, storage, (uint32_t)f->shared_n) < 0) { Py_DECREF(owner); return -1; }
        f->shared[f->shared_n++] = (Shared){storage, owner, root.key};
    }
    return 0;
}

void flow_clear(Flow *f) {
    for (size_t i = 0; i < f->made_n; i++) { Py_DECREF(f->made[i].ref); free(f->made[i].layout); }
    for (size_t i = 0; i < f->buffers_n; i++) { Py_DECREF(f->buffers[i].owner); Py_XDECREF(f->buffers[i].heir); free(f->buffers[i].readers.slot); }
    for (size_t i = 0; i < f->shared_n; i++) Py_DECREF(f->shared[i].owner);
    scalars_release(&f->young); scalars_release(&f->old);
    free(f->made); free(f->buffers); free(f->shared); free(f->young.slot); free(f->old.slot); free(f->small);
    index_clear(&f->made_index); index_clear(&f->buffers_index); index_clear(&f->shared_index);
    memset(f, 0, sizeof *f);
}
