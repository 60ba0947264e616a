/* What is data?  Kinds of values, the data objects inside containers, and the layout of arrays and tensors. */
#include "gather.h"

#define DEEPEST 3           /* these five are those of dataflow.py */
#define WIDEST 256
#define WIDEST_OBJECT 64
#define SHORT 32
#define MOST 4096

static PyObject *s_dtype, *s_shape, *s_itemsize, *s_storage_offset, *s_data_ptr, *s_base, *s_torch;

int values_ready(void) {
    return (s_dtype = PyUnicode_InternFromString("dtype")) && (s_shape = PyUnicode_InternFromString("shape")) &&
           (s_itemsize = PyUnicode_InternFromString("itemsize")) && (s_base = PyUnicode_InternFromString("base")) &&
           (s_storage_offset = PyUnicode_InternFromString("storage_offset")) &&
           (s_data_ptr = PyUnicode_InternFromString("data_ptr")) && (s_torch = PyUnicode_InternFromString("torch."))
               ? 0 : -1;
}

/* Objects may refuse what they are asked (a sparse tensor has no storage); what is not an Exception goes on. */
static int refused(void) {
    if (!PyErr_ExceptionMatches(PyExc_Exception)) return -1;
    PyErr_Clear();
    return 0;
}

/* ---- words: names of element types, classes and operations, as numbers --------------------------------------- */

int64_t word_number(Gatherer *g, PyObject *text) {
    PyObject *known = PyDict_GetItemWithError(g->word_numbers, text);
    if (known) return PyLong_AsLongLong(known);
    if (PyErr_Occurred()) return -1;
    PyObject **array = grown(g->words, g->words_n, &g->words_room, sizeof *array);
    if (!array) return -1;
    g->words = array;
    PyObject *number = PyLong_FromSize_t(g->words_n);
    if (!number || PyDict_SetItem(g->word_numbers, text, number) < 0) { Py_XDECREF(number); return -1; }
    Py_DECREF(number);
    Py_INCREF(text); g->words[g->words_n] = text;
    return (int64_t)g->words_n++;
}

/* ---- arrays: the fields that numpy's C interface promises, checked against numpy's own answers ---------------- */

typedef struct { PyObject_HEAD PyTypeObject *typeobj; char kind, type, byteorder, flags; int type_num; } Descr;
typedef struct {
    PyObject_HEAD
    char *data;
    int nd;
    Py_ssize_t *dimensions, *strides;
    PyObject *base;
    Descr *descr;
} Array;

static enum { UNCHECKED, TRUSTED, ASKED } arrays = UNCHECKED;


static int same_numbers(PyObject *numbers, const Py_ssize_t *found, int n) {
    if (!PyTuple_Check(numbers) || PyTuple_GET_SIZE(numbers) != n) return 0;
    for (int i = 0; i < n; i++)
        if (PyLong_AsSsize_t(PyTuple_GET_ITEM(numbers, i)) != found[i]) return 0;
    return 1;
}

/* A sample is (array, address, shape, strides, base, type number, byte order). */
static int agrees(PyObject *sample) {
    if (!PyTuple_Check(sample) || PyTuple_GET_SIZE(sample) != 7) return 0;
    const Array *a = (Array *)PyTuple_GET_ITEM(sample, 0);
    PyObject *base = PyTuple_GET_ITEM(sample, 4);
    const char *order = PyUnicode_AsUTF8(PyTuple_GET_ITEM(sample, 6));
    return PyLong_AsVoidPtr(PyTuple_GET_ITEM(sample, 1)) == (void *)a->data && a->nd >= 0 && a->nd <= 64 &&
           same_numbers(PyTuple_GET_ITEM(sample, 2), a->dimensions, a->nd) &&
           same_numbers(PyTuple_GET_ITEM(sample, 3), a->strides, a->nd) && a->base == (base == Py_None ? NULL : base) &&
           PyLong_AsLong(PyTuple_GET_ITEM(sample, 5)) == a->descr->type_num && order && order[0] == a->descr->byteorder;
}

static int check_arrays(Gatherer *g) {
    PyObject *samples = PyObject_CallNoArgs(g->samples);
    if (!samples) return -1;
    int good = PyList_Check(samples) && PyList_GET_SIZE(samples) > 0;
    for (Py_ssize_t i = 0; good && i < PyList_GET_SIZE(samples); i++) good = agrees(PyList_GET_ITEM(samples, i));
    Py_DECREF(samples);
    if (PyErr_Occurred()) { good = 0; PyErr_Clear(); }
    arrays = good ? TRUSTED : ASKED;
    return 0;
}

/* ---- classes -------------------------------------------------------------------------------------------------- */

static int is_eternal(PyTypeObject *type) { return !(type->tp_flags & Py_TPFLAGS_HEAPTYPE); }

static TypeFacts *types_put(Gatherer *g, TypeFacts new) {
    uint32_t at = index_find(&g->types_index, (uintptr_t)new.type);
    if (at != NONE) { /* another class has this address now, or another thread was faster */
        PyObject *before = g->types[at].ref;
        g->types[at] = new;
        Py_XDECREF(before);
        return &g->types[at];
    }
    TypeFacts *array = grown(g->types, g->types_n, &g->types_room, sizeof *array);
    if (array) g->types = array;
    if (!array || index_put(&g->types_index, (uintptr_t)new.type, (uint32_t)g->types_n) < 0) {
        Py_XDECREF(new.ref);
        return NULL;
    }
    g->types[g->types_n] = new;
    return &g->types[g->types_n++];
}

static TypeFacts *classify(Gatherer *g, PyTypeObject *type) {
    TypeFacts new = {type, NULL, IGNORED, 0, NONE, -1};
    PyObject *kind = PyObject_CallFunctionObjArgs(g->classify, (PyObject *)type, g->user_files, NULL);
    if (!kind) return NULL;
    new.kind = (int)PyLong_AsLong(kind);
    Py_DECREF(kind);
    if (new.kind == ARRAY && arrays == UNCHECKED && check_arrays(g) < 0) return NULL;
    PyObject *name = PyType_GetName(type);
    int64_t word = name ? word_number(g, name) : -1;
    Py_XDECREF(name);
    if (word < 0) return NULL;
    new.word = (uint32_t)word;
    if (!is_eternal(type) && !(new.ref = PyWeakref_NewRef((PyObject *)type, NULL))) return NULL;
    return types_put(g, new);
}

TypeFacts *type_facts(Gatherer *g, PyObject *value) {
    PyTypeObject *type = Py_TYPE(value);
    uint32_t at = index_find(&g->types_index, (uintptr_t)type);
    if (at != NONE) {
        TypeFacts *known = &g->types[at];
        if (!known->ref || refers_to(known->ref, (PyObject *)type)) return known;
    }
    return classify(g, type);
}

int kind_of(Gatherer *g, PyObject *value) {
    PyTypeObject *type = Py_TYPE(value);
    if (type == &PyLong_Type || type == &PyUnicode_Type || type == &PyBool_Type || value == Py_None) return IGNORED;
    if (type == g->last_type) return g->last_kind;
    TypeFacts *facts = type_facts(g, value);
    if (!facts) return -1;
    if (!facts->ref) { g->last_type = type; g->last_kind = facts->kind; }
    return facts->kind;
}

/* ---- element types -------------------------------------------------------------------------------------------- */

static int ask_element(Gatherer *g, PyObject *dtype, Element *out) {
    PyObject *text = PyObject_Str(dtype), *itemsize = text ? PyObject_GetAttr(dtype, s_itemsize) : NULL;
    int64_t word = -1;
    if (itemsize) {
        out->itemsize = PyLong_AsLongLong(itemsize);
        int prefixed = out->itemsize == -1 && PyErr_Occurred() ? -1 : (int)PyUnicode_Tailmatch(text, s_torch, 0, PY_SSIZE_T_MAX, -1);
        if (prefixed == 1) Py_SETREF(text, PyUnicode_Substring(text, 6, PY_SSIZE_T_MAX));
        if (prefixed >= 0 && text) word = word_number(g, text);
    }
    Py_XDECREF(text); Py_XDECREF(itemsize);
    out->word = (uint32_t)word;
    return word < 0 ? -1 : 0;
}

/* Texts, records, dates and swapped bytes say more than their type number, and are asked each time. */
static int numpy_element(Gatherer *g, const Descr *descr, Element *out) {
    int number = descr->type_num;
    int plain = ((number >= 0 && number <= 17) || number == 23) && (descr->byteorder == '=' || descr->byteorder == '|');
    if (plain && g->numbers[number].itemsize) { *out = g->numbers[number]; return 0; }
    if (ask_element(g, (PyObject *)descr, out) < 0) return -1;
    if (plain) g->numbers[number] = *out;
    return 0;
}

/* ---- layouts -------------------------------------------------------------------------------------------------- */

static inline void layout_extent(Layout *out, int64_t extent) {
    out->extents = also(out->extents, (uint64_t)extent);
    out->nbytes *= extent;
}

static void no_layout(Gatherer *g, PyObject *value, Layout *out) {
    TypeFacts *facts = type_facts(g, value);
    *out = (Layout){facts ? facts->word : 0, -1, 0, 0, 0, 0, 0};
}

static int read_array(Gatherer *g, PyObject *value, Layout *out) {
    const Array *a = (const Array *)value;
    Element element = {0, 0};
    if (numpy_element(g, a->descr, &element) < 0) return -1;
    *out = (Layout){element.word, a->nd, 0, element.itemsize, (uintptr_t)a->data, 0, 0};
    for (int i = 0; i < a->nd; i++) layout_extent(out, a->dimensions[i]);
    return 0;
}

static int layout_shape(Layout *out, PyObject *shape) {
    if (!PyTuple_Check(shape)) return 0;
    out->ndim = (int32_t)PyTuple_GET_SIZE(shape);
    for (Py_ssize_t i = 0; i < out->ndim; i++) {
        PyObject *extent = PyTuple_GET_ITEM(shape, i);
        if (!PyLong_CheckExact(extent)) return 0;
        layout_extent(out, PyLong_AsLongLong(extent));
    }
    return 1;
}

static int ask_array(Gatherer *g, PyObject *value, Layout *out) {
    PyObject *asked = PyObject_CallFunction(g->layout_of, "Oi", value, ARRAY);
    PyObject *address = asked && asked != Py_None ? PyObject_CallOneArg(g->address_of, value) : NULL;
    int good = 0;
    if (address && PyTuple_Check(asked) && PyTuple_GET_SIZE(asked) == 3) {
        int64_t word = word_number(g, PyTuple_GET_ITEM(asked, 0));
        *out = (Layout){(uint32_t)word, 0, 0, PyLong_AsLongLong(PyTuple_GET_ITEM(asked, 2)), 0, 0, 0};
        good = word >= 0 && layout_shape(out, PyTuple_GET_ITEM(asked, 1));
        out->data = (uintptr_t)PyLong_AsVoidPtr(address);
    }
    int none = asked == Py_None;
    Py_XDECREF(asked); Py_XDECREF(address);
    if (PyErr_Occurred()) return -1;
    if (!good || none) no_layout(g, value, out);
    return 0;
}

/* Where the memory begins: the address of the first element less its place in the storage. */
static int ask_storage(PyObject *tensor, int64_t itemsize, Layout *out) {
    PyObject *data = PyObject_CallMethodNoArgs(tensor, s_data_ptr);
    PyObject *offset = data ? PyObject_CallMethodNoArgs(tensor, s_storage_offset) : NULL;
    if (offset && PyLong_Check(data) && PyLong_Check(offset)) {
        out->data = (uintptr_t)PyLong_AsVoidPtr(data);
        if (out->data) out->storage = out->data - (uintptr_t)(PyLong_AsLongLong(offset) * itemsize);
    }
    Py_XDECREF(data); Py_XDECREF(offset);
    return PyErr_Occurred() ? refused() : 0;
}

static int ask_tensor(Gatherer *g, PyObject *value, Layout *out) {
    PyObject *asked = PyObject_CallFunction(g->layout_of, "Oi", value, TENSOR);
    if (!asked) return -1;
    int good = 0;
    int64_t itemsize = 0;
    if (PyTuple_Check(asked) && PyTuple_GET_SIZE(asked) == 3) {
        int64_t word = word_number(g, PyTuple_GET_ITEM(asked, 0));
        itemsize = PyLong_AsLongLong(PyTuple_GET_ITEM(asked, 2));
        *out = (Layout){(uint32_t)word, 0, 0, itemsize, 0, 0, 1};
        good = word >= 0 && layout_shape(out, PyTuple_GET_ITEM(asked, 1));
    }
    Py_DECREF(asked);
    if (PyErr_Occurred()) return -1;
    if (good) return ask_storage(value, itemsize, out);
    no_layout(g, value, out); /* a nested tensor has no shape */
    return 0;
}

#include "gather_fields.h"

/* A tensor is asked once; later its address shows whether it still is what it was (`t.data = u` changes it). */
static int read_tensor(Gatherer *g, PyObject *value, int anew, Layout *out) {
    if (tensors == UNKNOWN && check_tensors(g) < 0) return -1;
    uintptr_t impl = plain_tensor(value);
    if (impl) return read_fields(g, value, impl, out);
    const Layout *known = anew ? NULL : flow_layout(&g->flow, value);
    if (!known) return ask_tensor(g, value, out);
    *out = *known;
    PyObject *data = PyObject_CallMethodNoArgs(value, s_data_ptr);
    if (!data) return refused() < 0 ? -1 : ask_tensor(g, value, out);
    uintptr_t now = PyLong_Check(data) ? (uintptr_t)PyLong_AsVoidPtr(data) : 0;
    Py_DECREF(data);
    return now == out->data ? 0 : ask_tensor(g, value, out);
}

void values_trust(int yes) {
    arrays = yes ? UNCHECKED : ASKED;
    tensors = yes ? UNKNOWN : HIDDEN;
}

/* ---- leaves --------------------------------------------------------------------------------------------------- */

static PyObject *base_of(PyObject *array) { /* borrowed: an array keeps its base */
    if (arrays == TRUSTED) return ((Array *)array)->base;
    PyObject *base = PyObject_GetAttr(array, s_base);
    if (!base) { PyErr_Clear(); return NULL; }
    Py_DECREF(base);
    return base == Py_None ? NULL : base;
}

PyObject *array_behind(PyObject *flat) {
    PyObject *array = PyObject_GetAttr(flat, s_base);
    Py_XDECREF(array); /* the iterator keeps it */
    return array;
}

#include "gather_small.h"

/* The array or tensor that stands for the memory of an array. */
static int find_root(Gatherer *g, Leaf *leaf) {
    leaf->root = leaf->memory = leaf->value;
    for (PyObject *base; (base = base_of(leaf->root)) != NULL; leaf->root = leaf->memory = base) {
        if (PyMemoryView_Check(base)) base = PyMemoryView_GET_BASE(base);
        if (!base) break;
        int kind = kind_of(g, base);
        if (kind == LIBRARY && strcmp(Py_TYPE(base)->tp_name, "DummyArray") == 0) { /* between an array and what */
            PyObject *behind = PyObject_GetAttr(base, s_base);                      /* as_strided made of it */
            if (!behind) { PyErr_Clear(); break; }
            Py_DECREF(behind); /* the dummy keeps it */
            base = behind;
            kind = kind_of(g, base);
        }
        if (kind < 0) return -1;
        if (kind == TENSOR) {
            Layout behind = {0, 0, 0, 0, 0, 0, 0};
            if (read_tensor(g, base, 0, &behind) < 0) return -1;
            leaf->root = base;
            leaf->layout.storage = behind.storage;
        }
        if (kind != ARRAY) { leaf->memory = base; break; }
    }
    return 0;
}

static int object_size(Gatherer *g, PyObject *value, int kind, int64_t *out) {
    PyObject *leaf = Py_BuildValue("(Oi)", value, kind), *size = leaf ? PyObject_CallOneArg(g->nbytes, leaf) : NULL;
    Py_XDECREF(leaf);
    if (!size) return -1;
    *out = PyLong_AsLongLong(size);
    Py_DECREF(size);
    return *out == -1 && PyErr_Occurred() ? -1 : 0;
}

static int read_object(Gatherer *g, PyObject *value, int kind, Layout *out) {
    no_layout(g, value, out);
    TypeFacts *facts = type_facts(g, value);
    if (!facts) return -1;
    if (kind == SCALAR && facts->nbytes >= 0) { out->nbytes = facts->nbytes; return 0; }
    if (object_size(g, value, kind, &out->nbytes) < 0) return -1;
    if (kind == SCALAR && (facts = type_facts(g, value))) facts->nbytes = out->nbytes; /* all of a type are as large */
    return 0;
}

int leaves_add(Gatherer *g, PyObject *value, int kind, Leaves *out) {
    if ((size_t)out->n == out->room) {
        Leaf *bigger = malloc(2 * out->room * sizeof *bigger);
        if (!bigger) { PyErr_NoMemory(); return -1; }
        memcpy(bigger, out->at, (size_t)out->n * sizeof *bigger);
        if (out->at != out->few) free(out->at);
        out->at = bigger; out->room *= 2;
    }
    Leaf *leaf = &out->at[out->n++];
    Py_INCREF(value);
    leaf->value = leaf->root = leaf->memory = value; leaf->kind = kind;
    for (Py_ssize_t i = 0; kind == TENSOR && out->before && i < out->before->n && i < FEW; i++)
        if (out->before->at[i].value == value) { *leaf = out->before->at[i]; return 0; }
    int anew = out->result == Py_None || out->result == value;
    int done = kind == ARRAY    ? (arrays == TRUSTED ? read_array : ask_array)(g, value, &leaf->layout)
               : kind == TENSOR ? read_tensor(g, value, anew, &leaf->layout)
                                : read_object(g, value, kind, &leaf->layout);
    return done < 0 || (kind == ARRAY && find_root(g, leaf) < 0) ? -1 : 0;
}

/* The elements are taken out first: looking at one may run code that changes the container. */
static int find_among(Gatherer *g, PyObject **elements, int n, Leaves *out, int depth) {
    int done = 0;
    for (int i = 0; i < n; i++) {
        if (done == 0) done = leaves_find(g, elements[i], out, depth - 1);
        Py_DECREF(elements[i]);
    }
    return done;
}

/* Whether one of four elements of a long container holds data. */
static int sample_holds(Gatherer *g, PyObject **elements, int n, int depth) {
    Leaves found;
    leaves_begin(&found, NULL, NULL);
    int done = find_among(g, elements, n, &found, depth);
    int some = found.n > 0;
    leaves_end(&found);
    return done < 0 ? -1 : some;
}

static PyObject *element_of(PyObject *sequence, Py_ssize_t i) { /* a new reference */
    PyObject *element = PyList_Check(sequence) ? PyList_GET_ITEM(sequence, i) : PyTuple_GET_ITEM(sequence, i);
    Py_INCREF(element);
    return element;
}

static int find_in_sequence(Gatherer *g, PyObject *value, Leaves *out, int depth) {
    PyObject *elements[WIDEST];
    Py_ssize_t length = PyList_Check(value) ? PyList_GET_SIZE(value) : PyTuple_GET_SIZE(value);
    if (length > SHORT) {
        Py_ssize_t places[] = {0, 1, length / 2, length - 1};
        for (int i = 0; i < 4; i++) elements[i] = element_of(value, places[i]);
        int holds = sample_holds(g, elements, 4, depth);
        if (holds <= 0) return holds;
        length = PyList_Check(value) ? PyList_GET_SIZE(value) : length; /* looking may have run code that changes it */
    }
    int n = 0;
    for (; n < WIDEST && n < length; n++) elements[n] = element_of(value, n);
    return find_among(g, elements, n, out, depth);
}

static int values_of(PyObject *mapping, PyObject **elements, int most) {
    PyObject *element;
    Py_ssize_t at = 0;
    int n = 0;
    while (n < most && PyDict_Next(mapping, &at, NULL, &element)) { Py_INCREF(element); elements[n++] = element; }
    return n;
}

static int find_in_mapping(Gatherer *g, PyObject *value, Leaves *out, int depth) {
    PyObject *elements[WIDEST];
    if (PyDict_GET_SIZE(value) > SHORT) {
        int holds = sample_holds(g, elements, values_of(value, elements, 4), depth);
        if (holds <= 0) return holds;
    }
    return find_among(g, elements, values_of(value, elements, WIDEST), out, depth);
}

typedef struct { PyObject **elements, *kind; int n, most; } Visited;

static int visit_attribute(PyObject *element, void *visited) {
    Visited *v = visited;
    if (element != v->kind && v->n < v->most) { Py_INCREF(element); v->elements[v->n++] = element; }
    return 0;
}

/* Whether the attributes of an object still lie beside it.  Asking for its dict would make one, and Python 3.11 reads
   attributes several times slower from then on: a program that is only watched must not pay for that for ever. */
static int has_no_dict_yet(PyObject *value) {
#if PY_VERSION_HEX < 0x030C0000 && defined(Py_TPFLAGS_MANAGED_DICT)
    PyTypeObject *type = Py_TYPE(value);
    Py_ssize_t own = type->tp_basicsize - (Py_ssize_t)sizeof(PyObject) - (type->tp_weaklistoffset > 0 ? (Py_ssize_t)sizeof(PyObject *) : 0);
    if (!(type->tp_flags & Py_TPFLAGS_MANAGED_DICT) || own || type->tp_itemsize || !type->tp_traverse) return 0;
    return ((void **)value)[-4] != NULL; /* the values; NULL once there is a dict */
#else
    (void)value;
    return 0;
#endif
}

/* The first attributes of an object, as new references; -1 if it has none. */
static int attributes_of(PyObject *value, PyObject **elements, int most) {
    if (has_no_dict_yet(value)) {
        Visited visited = {elements, (PyObject *)Py_TYPE(value), 0, most};
        Py_TYPE(value)->tp_traverse(value, visit_attribute, &visited);
        return visited.n;
    }
    PyObject *attributes = PyObject_GenericGetDict(value, NULL);
    if (!attributes) return -1; /* it has slots only */
    int n = PyDict_Check(attributes) ? values_of(attributes, elements, most) : 0;
    Py_DECREF(attributes);
    return n;
}

static int find_in_object(Gatherer *g, PyObject *value, Leaves *out, int depth) {
    PyObject *elements[WIDEST_OBJECT];
    int n = attributes_of(value, elements, WIDEST_OBJECT);
    return n < 0 ? refused() : find_among(g, elements, n, out, depth);
}

static int find_held(Gatherer *g, PyObject *element, Leaves *out, int depth) {
    int kind = kind_of(g, element);
    if (kind < 0) return -1;
    if (kind == USER) return 0; /* what user code does with its own is seen there */
    if (!depth || kind != LIBRARY) return leaves_find(g, element, out, depth ? 1 : 0);
    return --out->left < 0 ? 0 : leaves_held(g, element, out, depth - 1);
}

/* The data that an object of a library holds, and below it (depth) what such objects in it hold. */
int leaves_held(Gatherer *g, PyObject *value, Leaves *out, int depth) {
    PyObject *elements[WIDEST_OBJECT];
    int n = attributes_of(value, elements, WIDEST_OBJECT), done = 0;
    if (n < 0) return refused();
    for (int i = 0; i < n; i++) {
        if (done == 0) done = find_held(g, elements[i], out, depth);
        Py_DECREF(elements[i]);
    }
    return done;
}

int leaves_find(Gatherer *g, PyObject *value, Leaves *out, int depth) {
    out->left--;
    int kind = kind_of(g, value);
    if (kind <= IGNORED || kind == LIBRARY || out->left < 0) return kind < 0 ? -1 : 0;
    switch (kind) {
    case SEQUENCE: return depth ? find_in_sequence(g, value, out, depth) : 0;
    case MAPPING: return depth ? find_in_mapping(g, value, out, depth) : 0;
    case USER: return depth ? find_in_object(g, value, out, depth) : 0;
    case FLAT: return (value = array_behind(value)) ? leaves_find(g, value, out, depth) : -1;
    default:
        if (PyFloat_CheckExact(value) && !flow_scalar_known(&g->flow, value)) return 0;
        return leaves_add(g, value, kind, out);
    }
}

void leaves_again(Leaves *out) { out->left = MOST; }

void leaves_begin(Leaves *out, PyObject *result, const Leaves *before) {
    out->at = out->few; out->n = 0; out->room = FEW; out->left = MOST; out->result = result; out->before = before;
}

/* Takes out what is there twice, keeping the order. */
int leaves_distinct(Leaves *leaves) {
    Index seen = {NULL, NULL, 0, 0};
    Py_ssize_t kept = 0;
    for (Py_ssize_t i = 0; i < leaves->n; i++) {
        int twice = 0;
        if (leaves->n <= FEW) {
            for (Py_ssize_t j = 0; j < kept && !twice; j++) twice = leaves->at[j].value == leaves->at[i].value;
        } else {
            twice = index_find(&seen, (uintptr_t)leaves->at[i].value) != NONE;
            if (!twice && index_put(&seen, (uintptr_t)leaves->at[i].value, 0) < 0) return -1;
        }
        if (twice) { Py_DECREF(leaves->at[i].value); leaves->at[i].value = NULL; }
        else if (kept++ != i) { leaves->at[kept - 1] = leaves->at[i]; leaves->at[i].value = NULL; }
    }
    index_clear(&seen);
    leaves->n = kept;
    return 0;
}

void leaves_end(Leaves *leaves) {
    for (Py_ssize_t i = 0; i < leaves->n; i++) Py_XDECREF(leaves->at[i].value);
    if (leaves->at != leaves->few) free(leaves->at);
    leaves->at = leaves->few; leaves->n = 0;
}
