# The C types of batch_kernel.py. The code checks every position against `end` itself, so the build
# turns the bounds checks of memoryview indexing off. `inline` is worth a factor of four here: a
# call copies the whole memoryview struct. (Cython warns of it in declarations, and honours it.)
# So every kernel has a reader of numbers of its own: one that all of them imported from a module of
# theirs made `walk_records` seven times slower where numbers have more than one byte.
import cython

cdef int _BAD_SIZE, _BAD_STRUCTURE, _BAD_OFFSET_DELTA, _BAD_HEADER_COUNT, _BAD_HEADER_KEY
cdef int _TRAILING_BYTES
cdef long long _DELTA_LOWEST
cdef Py_ssize_t _HEADER_BYTES
cdef long long _OFFER_MASK

@cython.locals(byte=cython.longlong)
cdef inline (long long, Py_ssize_t) _varint(
    const unsigned char[::1] buffer, Py_ssize_t position, Py_ssize_t end) noexcept

@cython.locals(byte=cython.longlong)
cdef inline (long long, Py_ssize_t) _varlong(
    const unsigned char[::1] buffer, Py_ssize_t position, Py_ssize_t end) noexcept

@cython.locals(byte=cython.ulonglong, value=cython.ulonglong, shift=int)
cdef (long long, Py_ssize_t) _long_varint(
    const unsigned char[::1] buffer, Py_ssize_t position, Py_ssize_t end, int shift_last) noexcept

@cython.locals(header_count=cython.longlong, size=cython.longlong)
cdef inline (int, Py_ssize_t) _skip_headers(
    const unsigned char[::1] buffer, Py_ssize_t position, Py_ssize_t end) noexcept

cdef int _check_range(
    const unsigned char[::1] buffer, Py_ssize_t position, Py_ssize_t end) except -1

@cython.locals(
    delta_min=cython.longlong, delta_max=cython.longlong, index_of_max=cython.longlong,
    null_keys=cython.longlong, fault=int, index=cython.longlong, size=cython.longlong,
    record_end=Py_ssize_t, delta=cython.longlong, offset_delta=cython.longlong)
cpdef tuple walk_records(
    const unsigned char[::1] buffer, Py_ssize_t position, Py_ssize_t end, long long count,
    long long unstamped_delta)

@cython.locals(
    keys_required=cython.bint, delta_least=cython.longlong, delta_greatest=cython.longlong,
    unstamped_delta=cython.longlong, refused=list, keyless=cython.longlong,
    untimely=cython.longlong, index=cython.longlong, size=cython.longlong, record_end=Py_ssize_t,
    delta=cython.longlong, _=cython.longlong)
cpdef tuple list_refused(
    const unsigned char[::1] buffer, Py_ssize_t position, Py_ssize_t end, long long count,
    tuple bounds, Py_ssize_t length_max)

@cython.locals(
    size=cython.longlong, record_end=Py_ssize_t, delta=cython.longlong,
    offset_delta=cython.longlong, steps=cython.longlong)
cpdef tuple find_record(
    const unsigned char[::1] buffer, Py_ssize_t position, Py_ssize_t end, long long delta_least,
    long long offset_delta_least)

@cython.locals(
    rows=list, position=Py_ssize_t, end=Py_ssize_t, index=cython.longlong, size=cython.longlong,
    record_end=Py_ssize_t, delta=cython.longlong, offset_delta=cython.longlong, fault=int,
    headers_end=Py_ssize_t, key=object, value=object, headers=tuple)
cpdef tuple read_records(
    const unsigned char[::1] buffer, bytes body, object base_offset, object base_timestamp,
    long long count)

@cython.locals(count=cython.longlong, size=cython.longlong, headers=list)
cdef tuple _read_headers(
    const unsigned char[::1] buffer, bytes body, Py_ssize_t position, Py_ssize_t end)

@cython.locals(out=bytearray, record=bytearray)
cpdef bytearray write_records(object rows, object base_timestamp, object offset_deltas)

cdef int _append_bytes(bytearray out, bytes value) except -1

@cython.locals(zigzag=cython.ulonglong)
cdef int _append_varint(bytearray out, long long value) except -1

@cython.locals(rows=list, size=cython.longlong, base_offset=cython.longlong)
cpdef list scan_batches(const unsigned char[::1] buffer, Py_ssize_t position, Py_ssize_t end)

@cython.locals(size=cython.longlong)
cpdef tuple find_batch(
    const unsigned char[::1] buffer, Py_ssize_t position, Py_ssize_t end, long long offset)

@cython.locals(size=cython.longlong, checksum=cython.longlong)
cpdef Py_ssize_t intact_end(
    const unsigned char[::1] buffer, object view, Py_ssize_t position, Py_ssize_t end) except -1

@cython.locals(value=cython.longlong)
cdef inline long long _int32(const unsigned char[::1] buffer, Py_ssize_t position) noexcept

cdef inline long long _int64(const unsigned char[::1] buffer, Py_ssize_t position) noexcept
