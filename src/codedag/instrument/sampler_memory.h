/* Copies of interpreter structures, read without the interpreter lock.
 *
 * Everything is copied with process_vm_readv on the own process: memory that was freed meanwhile gives an error or
 * nonsense that is checked for, never a crash.  No pointer of the interpreter's is ever dereferenced here.
 */
#ifndef CODEDAG_SAMPLER_MEMORY_H
#define CODEDAG_SAMPLER_MEMORY_H

#include <limits.h>
#include <stdint.h>
#include <sys/uio.h>
#include <unistd.h>

#ifndef Py_BUILD_CORE
#define Py_BUILD_CORE 1
#endif
#undef _PyGC_FINALIZED /* the public header's macro hides the internal function */
#include "internal/pycore_frame.h"
#include "internal/pycore_interp.h"
#include "opcode.h"
#if PY_VERSION_HEX < 0x030D0000
#define NEED_OPCODE_TABLES
#include "internal/pycore_opcode.h"
#else
#define NEED_OPCODE_METADATA
#include "internal/pycore_opcode_metadata.h"
#endif

#define BATCH_MAX 512 /* pieces of one system call; Linux takes 1,024 */
#define TEXT_CHARACTERS_MAX 4096
#define LINE_TABLE_BYTES_MAX (1 << 16)
#define CODE_UNITS_MAX (1 << 17)
#define LOOPS_OF_CODE_MAX 24

#define FRAME_BYTES offsetof(_PyInterpreterFrame, localsplus)
#define FRAME_WORDS 16 /* of its local variables and value stack, to tell one call or iteration from the next */
#define FRAME_READ (FRAME_BYTES + FRAME_WORDS * sizeof(uint64_t))
#define CODE_BYTES offsetof(PyCodeObject, co_code_adaptive)
#define UNIT_BYTES ((int)sizeof(_Py_CODEUNIT))

typedef struct { pid_t pid; struct iovec remote[BATCH_MAX]; } Memory;

static int copy_from(const Memory *m, void *to, uintptr_t from, size_t nbytes) {
    struct iovec local = {to, nbytes}, remote = {(void *)from, nbytes};
    if (from < 4096 || !nbytes) return 0;
    return process_vm_readv(m->pid, &local, 1, &remote, 1, 0) == (ssize_t)nbytes;
}

/* How many of `count` pieces of equal size, at the addresses in m->remote, were copied to one buffer. */
static int copy_batch(Memory *m, void *to, int count, size_t nbytes) {
    struct iovec local = {to, (size_t)count * nbytes};
    if (!count) return 0;
    ssize_t copied = process_vm_readv(m->pid, &local, 1, m->remote, (unsigned long)count, 0);
    return copied < 0 ? 0 : (int)((size_t)copied / nbytes);
}

/* ---- thread states ------------------------------------------------------------------------------------------- */

typedef struct { uintptr_t next, interpreter, top; unsigned long ident; pid_t tid; } ThreadView;

#define THREAD_BYTES (offsetof(PyThreadState, native_thread_id) + sizeof(unsigned long))

static int view_thread(const Memory *m, uintptr_t address, ThreadView *view) {
    PyThreadState copy;
    if (!copy_from(m, &copy, address, THREAD_BYTES)) return 0;
    *view = (ThreadView){(uintptr_t)copy.next, (uintptr_t)copy.interp, 0, copy.thread_id, (pid_t)copy.native_thread_id};
#if PY_VERSION_HEX < 0x030D0000
    _PyCFrame below;
    if (copy_from(m, &below, (uintptr_t)copy.cframe, sizeof below)) view->top = (uintptr_t)below.current_frame;
#else
    view->top = (uintptr_t)copy.current_frame;
#endif
    return 1;
}

/* ---- frames -------------------------------------------------------------------------------------------------- */

typedef union { _PyInterpreterFrame frame; char bytes[sizeof(_PyInterpreterFrame)]; } FrameCopy;
typedef struct { uintptr_t code, previous, instruction; char is_shim, is_entry, is_generator; } FrameView;

static FrameView view_frame(const char *bytes) {
    FrameCopy copy;
    memcpy(copy.bytes, bytes, FRAME_BYTES);
    const _PyInterpreterFrame *f = &copy.frame;
    FrameView view = {.previous = (uintptr_t)f->previous, .is_generator = f->owner == FRAME_OWNED_BY_GENERATOR};
#if PY_VERSION_HEX < 0x030C0000
    view.code = (uintptr_t)f->f_code;
    view.instruction = (uintptr_t)f->prev_instr;
    view.is_entry = *((const char *)f + offsetof(_PyInterpreterFrame, is_entry)) != 0; /* any byte, not only 0 and 1 */
#elif PY_VERSION_HEX < 0x030D0000
    view.code = (uintptr_t)f->f_code;
    view.instruction = (uintptr_t)f->prev_instr;
    view.is_shim = f->owner == FRAME_OWNED_BY_CSTACK;
#else
    view.code = (uintptr_t)f->f_executable;
    view.instruction = (uintptr_t)f->instr_ptr;
    view.is_shim = f->owner == FRAME_OWNED_BY_CSTACK;
#endif
    return view;
}

/* ---- code objects -------------------------------------------------------------------------------------------- */

/* What tells one code object from another at the same address. */
typedef struct { uintptr_t file, name, lines; int32_t first_line, units, words; } CodeView;
typedef struct { void *data; int32_t length; int kind; } Text; /* characters of 1, 2 or 4 bytes */
typedef struct { int32_t start, end; } Range;                  /* in code units, both included */

static int view_code(const char *bytes, CodeView *view) {
    PyCodeObject copy;
    memcpy(&copy, bytes, CODE_BYTES);
    *view = (CodeView){(uintptr_t)copy.co_filename, (uintptr_t)copy.co_qualname, (uintptr_t)copy.co_linetable,
                       copy.co_firstlineno, (int32_t)((PyVarObject *)&copy)->ob_size, FRAME_WORDS};
    int words = copy.co_nlocalsplus + copy.co_stacksize;
    if (words < FRAME_WORDS) view->words = words > 0 ? words : 0;
    return ((PyObject *)&copy)->ob_type == &PyCode_Type && view->units > 0 && view->units <= CODE_UNITS_MAX;
}

static int is_same_code(const CodeView *a, const CodeView *b) {
    return a->file == b->file && a->name == b->name && a->lines == b->lines && a->first_line == b->first_line &&
           a->units == b->units;
}

static void free_text(Text *text) { free(text->data); *text = (Text){NULL, 0, 1}; }

/* An exact copy of a string; an empty one where there is none (a subclass, a very long one). */
static int copy_text(const Memory *m, uintptr_t address, Text *text) {
    PyASCIIObject head;
    *text = (Text){NULL, 0, 1};
    if (!copy_from(m, &head, address, sizeof head)) return 0;
    if (((PyObject *)&head)->ob_type != &PyUnicode_Type) return ((PyObject *)&head)->ob_type != NULL;
    int kind = head.state.kind;
    if (!head.state.compact || (kind != 1 && kind != 2 && kind != 4)) return 0;
    if (head.length < 0) return 0;
    if (head.length == 0 || head.length > TEXT_CHARACTERS_MAX) return 1;
    size_t nbytes = (size_t)head.length * (size_t)kind;
    uintptr_t data = address + (head.state.ascii ? sizeof(PyASCIIObject) : sizeof(PyCompactUnicodeObject));
    if (!(text->data = malloc(nbytes))) return 0;
    if (!copy_from(m, text->data, data, nbytes)) { free_text(text); return 0; }
    text->length = (int32_t)head.length;
    text->kind = kind;
    return 1;
}

/* The bytes of a bytes object, in memory of ours. */
static char *copy_bytes(const Memory *m, uintptr_t address, int32_t *size) {
    PyVarObject head;
    *size = 0;
    if (!copy_from(m, &head, address, sizeof head) || ((PyObject *)&head)->ob_type != &PyBytes_Type) return NULL;
    if (head.ob_size <= 0 || head.ob_size > LINE_TABLE_BYTES_MAX) return NULL;
    char *bytes = malloc((size_t)head.ob_size);
    if (bytes && !copy_from(m, bytes, address + offsetof(PyBytesObject, ob_sval), (size_t)head.ob_size)) {
        free(bytes);
        return NULL;
    }
    if (bytes) *size = (int32_t)head.ob_size;
    return bytes;
}

/* ---- loops of a code object: the ranges of its backward jumps ------------------------------------------------ */

static int is_backward_jump(int opcode) {
    switch (opcode) {
    case JUMP_BACKWARD:
#if PY_VERSION_HEX < 0x030C0000
    case POP_JUMP_BACKWARD_IF_NOT_NONE:
    case POP_JUMP_BACKWARD_IF_NONE:
    case POP_JUMP_BACKWARD_IF_FALSE:
    case POP_JUMP_BACKWARD_IF_TRUE:
#endif
        return 1;
    default: return 0; /* JUMP_BACKWARD_NO_INTERRUPT only waits for a generator */
    }
}

/* Adds a range; jumps to one place are one loop, and so are ranges that overlap without one holding the other. */
static int add_range(Range *ranges, int count, Range new) {
    for (int i = 0; i < count; i++) {
        Range *old = &ranges[i];
        int is_inside = (new.start > old->start && new.end <= old->end) || (old->start > new.start && old->end <= new.end);
        if (new.start > old->end || new.end < old->start || is_inside) continue;
        new.start = new.start < old->start ? new.start : old->start;
        new.end = new.end > old->end ? new.end : old->end;
        ranges[i] = ranges[--count];
        i = -1; /* the larger range may overlap another one now */
    }
    if (count < LOOPS_OF_CODE_MAX) ranges[count++] = new;
    return count;
}

/* The loops in these instructions; -1: they are not to be read (tracing replaced some of them). */
static int find_loops(const unsigned char *bytes, int units, Range *ranges) {
    int count = 0, argument = 0;
    for (int i = 0; i < units;) {
        int opcode = _PyOpcode_Deopt[bytes[i * UNIT_BYTES]];
#ifdef MIN_INSTRUMENTED_OPCODE
        if (bytes[i * UNIT_BYTES] >= MIN_INSTRUMENTED_OPCODE) return -1;
#endif
        argument = (int)(((unsigned)argument << 8) | bytes[i * UNIT_BYTES + 1]);
        int next = i + 1 + _PyOpcode_Caches[opcode];
        if (opcode == EXTENDED_ARG) { i = next; continue; }
        if (is_backward_jump(opcode) && argument > 0 && argument <= next)
            count = add_range(ranges, count, (Range){next - argument, i});
        argument = 0;
        i = next;
    }
    return count;
}

/* The smallest loop that holds both places, or -1. */
static int loop_around(const Range *ranges, int count, int32_t one, int32_t other) {
    int found = -1;
    for (int i = 0; i < count; i++) {
        if (one < ranges[i].start || one > ranges[i].end || other < ranges[i].start || other > ranges[i].end) continue;
        if (found < 0 || ranges[i].end - ranges[i].start < ranges[found].end - ranges[found].start) found = i;
    }
    return found;
}
#endif
