# The C types of column_decoding.py; see batch_kernel.pxd on `inline` and on bounds.
import cython
from cpython.bytearray cimport PyByteArray_FromStringAndSize
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.ref cimport Py_INCREF
from cpython.tuple cimport PyTuple_SET_ITEM
from libc.string cimport memcpy

cdef extern from "Python.h":
    ctypedef struct PyTypeObject:
        pass
    object PyType_GenericAlloc(PyTypeObject *row_type, Py_ssize_t fields)
    void PyObject_GC_UnTrack(void *row)

@cython.locals(byte=cython.longlong)
cdef inline (long long, Py_ssize_t) _varint(
    const unsigned char[::1] buffer, Py_ssize_t position, Py_ssize_t end,
    int shift_last) noexcept nogil

@cython.locals(byte=cython.ulonglong, value=cython.ulonglong, shift=int)
cdef (long long, Py_ssize_t) _long_varint(
    const unsigned char[::1] buffer, Py_ssize_t position, Py_ssize_t end,
    int shift_last) noexcept nogil

@cython.locals(size=cython.longlong)
cdef inline (long long, Py_ssize_t) _sized(
    const unsigned char[::1] buffer, Py_ssize_t position, Py_ssize_t end) noexcept nogil

cdef inline bytes _cut(const unsigned char[::1] buffer, Py_ssize_t start, Py_ssize_t size):
    if size < 0:
        return None
    return PyBytes_FromStringAndSize(<const char*> &buffer[start], size)

cdef inline int _set(object row, Py_ssize_t place, object field) except -1:
    Py_INCREF(field)
    PyTuple_SET_ITEM(row, place, field)
    return 0

cdef inline object _row(
        type row_type, bint is_plain, tuple shared, object offset, object time, object key,
        object value, tuple headers):
    cdef object row = PyType_GenericAlloc(<PyTypeObject*> row_type, 9)
    _set(row, 0, shared[0])
    _set(row, 1, shared[1])
    _set(row, 2, offset)
    _set(row, 3, time)
    _set(row, 4, shared[2])
    _set(row, 5, key)
    _set(row, 6, value)
    _set(row, 7, headers)
    _set(row, 8, shared[3])
    if is_plain:
        PyObject_GC_UnTrack(<void*> row)
    return row

@cython.locals(
    base_offset=cython.longlong, base_timestamp=cython.longlong, count=cython.longlong,
    delta_first=cython.longlong, stamp=cython.longlong, position=Py_ssize_t, end=Py_ssize_t,
    index=cython.longlong, size=cython.longlong, record_end=Py_ssize_t, row_type=type,
    timestamp=cython.longlong, delta=cython.longlong, moment=cython.longlong, is_plain=cython.bint,
    key_size=cython.longlong, value_size=cython.longlong, key_start=Py_ssize_t,
    value_start=Py_ssize_t, time=object, headers=tuple, key=object, value=object)
cpdef long long read_rows(
    list rows, const unsigned char[::1] buffer, tuple numbers, tuple shared,
    tuple makers) except? -2

@cython.locals(
    count=Py_ssize_t, offset_first=cython.longlong, check_crcs=cython.bint,
    position=Py_ssize_t, size=Py_ssize_t, end=Py_ssize_t, base_offset=cython.longlong,
    attributes=int, known=Py_ssize_t, start=Py_ssize_t, delta=cython.longlong,
    stamp=cython.longlong, fault=cython.longlong, has_append_time=cython.bint,
    batch=tuple, numbers=tuple, both=tuple)
cpdef tuple read_batches(
    list rows, object view, list batches, tuple limits, tuple shared, tuple makers)

@cython.locals(headers=list, size=cython.longlong)
cdef tuple _read_headers(
    const unsigned char[::1] buffer, Py_ssize_t position, Py_ssize_t end, long long count)

@cython.locals(key_bytes=cython.longlong, value_bytes=cython.longlong, size=cython.longlong)
cdef inline (Py_ssize_t, long long, long long) _measure_headers(
    const unsigned char[::1] buffer, Py_ssize_t position, Py_ssize_t end,
    long long count) noexcept

@cython.locals(
    rows=cython.longlong, key_bytes=cython.longlong, value_bytes=cython.longlong,
    headers=cython.longlong, header_key_bytes=cython.longlong,
    header_value_bytes=cython.longlong, index=cython.longlong, size=cython.longlong,
    record_end=Py_ssize_t, _=cython.longlong, delta=cython.longlong, key_size=cython.longlong,
    value_size=cython.longlong, name_bytes=cython.longlong, note_bytes=cython.longlong)
cpdef tuple measure_records(
    const unsigned char[::1] buffer, Py_ssize_t position, Py_ssize_t end, long long count,
    long long delta_first)

cdef inline void _copy(
        unsigned char[::1] out, Py_ssize_t position, const unsigned char[::1] buffer,
        Py_ssize_t start, Py_ssize_t size) noexcept nogil:
    if size > 0:
        memcpy(&out[position], &buffer[start], size)

cdef class Columns:
    cdef readonly Py_ssize_t capacity
    cdef readonly Py_ssize_t rows
    cdef readonly bint has_keys
    cdef readonly bint has_values
    cdef readonly bint has_headers
    cdef readonly long long base_offset
    cdef readonly long long base_timestamp
    cdef readonly Py_ssize_t null_keys
    cdef readonly Py_ssize_t null_values
    cdef readonly Py_ssize_t headers
    cdef readonly Py_ssize_t null_header_values
    cdef readonly long long[::1] offsets
    cdef readonly long long[::1] timestamps
    cdef readonly int[::1] key_ends
    cdef readonly unsigned char[::1] keys
    cdef readonly unsigned char[::1] keys_valid
    cdef readonly int[::1] value_ends
    cdef readonly unsigned char[::1] values
    cdef readonly unsigned char[::1] values_valid
    cdef readonly int[::1] header_ends
    cdef readonly int[::1] header_key_ends
    cdef readonly unsigned char[::1] header_keys
    cdef readonly int[::1] header_value_ends
    cdef readonly unsigned char[::1] header_values
    cdef readonly unsigned char[::1] header_values_valid

    @cython.locals(
        row=Py_ssize_t, key_end=cython.longlong, value_end=cython.longlong,
        size=cython.longlong, record_end=Py_ssize_t, timestamp=cython.longlong, delta=cython.longlong,
        key_size=cython.longlong, key_start=Py_ssize_t, header_count=cython.longlong)
    cdef int _add(
        self, const unsigned char[::1] buffer, Py_ssize_t position, Py_ssize_t end,
        long long count, long long delta_first) noexcept nogil

    @cython.locals(
        header=Py_ssize_t, key_end=cython.longlong,
        value_end=cython.longlong, key_size=cython.longlong, size=cython.longlong,
        key_start=Py_ssize_t)
    cdef int _add_headers(
        self, const unsigned char[::1] buffer, Py_ssize_t position, Py_ssize_t end,
        long long count) noexcept nogil

cdef inline int _add_unlocked(
        Columns columns, const unsigned char[::1] buffer, tuple span, tuple numbers) except -2:
    cdef Py_ssize_t position = span[0]
    cdef Py_ssize_t end = span[1]
    cdef long long count = numbers[0]
    cdef long long delta_first = numbers[1]
    cdef int fault
    with nogil:
        fault = columns._add(buffer, position, end, count, delta_first)
    return fault

cdef inline bytearray _uncleared(Py_ssize_t size_bytes):
    return PyByteArray_FromStringAndSize(NULL, size_bytes)

cpdef bytearray fresh_bytes(Py_ssize_t size_bytes)

cdef object _numbers(object allocate, Py_ssize_t count, Py_ssize_t size_bytes)
