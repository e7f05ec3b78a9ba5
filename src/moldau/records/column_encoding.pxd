# The C types of column_encoding.py; see batch_kernel.pxd on `inline` and on bounds.
import cython
from libc.string cimport memcpy

cdef class Field:
    cdef readonly Py_ssize_t rows
    cdef const int[::1] ends
    cdef const unsigned char[::1] content
    cdef const unsigned char[::1] valid
    cdef bint has_nulls
    cdef Py_ssize_t first_bit

    @cython.locals(bit=Py_ssize_t)
    cdef inline bint is_null(self, Py_ssize_t row) noexcept

    cdef inline long long size(self, Py_ssize_t row) noexcept

@cython.locals(row=Py_ssize_t, start=Py_ssize_t)
cpdef choose_partitions(Field keys, int partition_count, int keyless, int[::1] out)

@cython.locals(position=Py_ssize_t, rest=Py_ssize_t, h=cython.ulonglong, k=cython.ulonglong)
cdef inline unsigned long long _murmur2(
    const unsigned char[::1] key, Py_ssize_t start, Py_ssize_t size) noexcept

@cython.locals(row=Py_ssize_t, partition=int, start=int, size=int, place=int)
cpdef order_rows(const int[::1] partitions, Py_ssize_t count, int[::1] ends, int[::1] order)

cdef class Rows:
    cdef readonly Py_ssize_t count
    cdef Field keys
    cdef Field values
    cdef const long long[::1] stamps
    cdef bint has_headers
    cdef const int[::1] header_ends
    cdef Field header_keys
    cdef Field header_values

    @cython.locals(
        base=cython.longlong, stamp_max=cython.longlong, total=cython.longlong, index=Py_ssize_t,
        row=Py_ssize_t, delta=cython.longlong, size=cython.longlong)
    cdef tuple _write(
        self, const int[::1] order, Py_ssize_t first, Py_ssize_t end, long long limit_bytes)

    @cython.locals(
        key_size=cython.longlong, value_size=cython.longlong, size=cython.longlong,
        header=Py_ssize_t, end=Py_ssize_t)
    cdef inline long long _record_size(
        self, Py_ssize_t row, long long delta, long long offset_delta) noexcept

    @cython.locals(
        base=cython.longlong, position=Py_ssize_t, index=Py_ssize_t, row=Py_ssize_t,
        delta=cython.longlong, size=cython.longlong, header=Py_ssize_t, header_end=Py_ssize_t)
    cdef int _fill(
        self, unsigned char[::1] out, const int[::1] order, Py_ssize_t first,
        Py_ssize_t end) except -1

@cython.locals(zigzag=cython.ulonglong, size=Py_ssize_t)
cdef inline Py_ssize_t _varint_size(long long value) noexcept

@cython.locals(zigzag=cython.ulonglong)
cdef inline Py_ssize_t _put_varint(
    unsigned char[::1] out, Py_ssize_t position, long long value) noexcept

@cython.locals(size=cython.longlong)
cdef inline Py_ssize_t _put_field(
    unsigned char[::1] out, Py_ssize_t position, Field field, Py_ssize_t row) noexcept

cdef inline void _copy(
        unsigned char[::1] out, Py_ssize_t position, const unsigned char[::1] content,
        Py_ssize_t start, Py_ssize_t size) noexcept:
    memcpy(&out[position], &content[start], size)
