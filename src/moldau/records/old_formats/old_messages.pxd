# The C types of old_messages.py; see batch_kernel.pxd on `inline` and on bounds.
import cython

cdef int _STAMPED_BYTES_MIN, _OVERHEAD_BYTES, _LOG_APPEND_TIME, _CODEC
cdef long long _INT32_MAX, _TIMESTAMP_MAX, _OFFER_MASK

@cython.locals(
    rows=list, size=cython.longlong, magic=int, offset=cython.longlong,
    timestamp=cython.longlong, attributes=int)
cpdef list scan_messages(
    const unsigned char[::1] buffer, object view, Py_ssize_t position, Py_ssize_t end,
    cython.bint check)

@cython.locals(
    count=cython.longlong, size_max=cython.longlong, attributes=int, offset=cython.longlong,
    size=cython.longlong, magic=int)
cpdef tuple survey_messages(
    const unsigned char[::1] buffer, object view, Py_ssize_t position, Py_ssize_t end,
    cython.bint check)

@cython.locals(size=cython.longlong)
cpdef cython.bint holds_old(
    const unsigned char[::1] buffer, Py_ssize_t position, Py_ssize_t end) except -1

@cython.locals(size=cython.longlong)
cpdef tuple find_message(
    const unsigned char[::1] buffer, Py_ssize_t position, Py_ssize_t end, long long offset)

@cython.locals(first=Py_ssize_t, size=cython.longlong, attributes=int)
cpdef Py_ssize_t run_end(
    const unsigned char[::1] buffer, Py_ssize_t position, Py_ssize_t end) except -1

@cython.locals(
    magic=int, keeps_offsets=cython.bint, base_offset=cython.longlong,
    base_timestamp=cython.longlong, record=bytearray, number=cython.longlong,
    last_delta=cython.longlong, timestamp_max=cython.longlong, fault=int,
    size=cython.longlong, timestamp=cython.longlong, delta=cython.longlong)
cpdef tuple upgrade_messages(
    const unsigned char[::1] buffer, object view, Py_ssize_t position, Py_ssize_t end,
    bytearray out, tuple run)

cdef int _message_fault(
    const unsigned char[::1] buffer, object view, Py_ssize_t position, long long size,
    int magic) except -1

cdef long long _delta(long long base_offset, long long offset) noexcept

@cython.locals(end=Py_ssize_t)
cdef int _upgrade(
    bytearray record, const unsigned char[::1] buffer, object view, Py_ssize_t position,
    Py_ssize_t size, int magic, long long timestamp_delta, long long offset_delta) except -1

@cython.locals(
    base_offset=cython.longlong, base_timestamp=cython.longlong, stamp=cython.longlong,
    magic=int, attributes=int, offset_least=cython.longlong, is_relative=cython.bint,
    message=bytearray, end=Py_ssize_t, index=cython.longlong,
    written=cython.longlong, first=cython.longlong, timestamp_max=cython.longlong,
    size=cython.longlong, record_end=Py_ssize_t, delta=cython.longlong,
    offset_delta=cython.longlong, offset=cython.longlong, timestamp=cython.longlong)
cpdef tuple write_messages(
    const unsigned char[::1] buffer, object view, Py_ssize_t position, long long count,
    bytearray out, tuple batch, tuple form)

cdef int _start_message(
    bytearray message, int magic, int attributes, long long timestamp) except -1

cdef int _append_message(bytearray out, long long offset, bytearray message) except -1

cdef int _check_range(
    const unsigned char[::1] buffer, Py_ssize_t position, Py_ssize_t end) except -1

@cython.locals(checksum=cython.longlong)
cdef int _is_intact(
    const unsigned char[::1] buffer, object view, Py_ssize_t position, Py_ssize_t size) except -1

@cython.locals(size=cython.longlong)
cdef Py_ssize_t _append_field(
    bytearray record, const unsigned char[::1] buffer, object view, Py_ssize_t position,
    Py_ssize_t end) except -2

@cython.locals(size=cython.longlong)
cdef Py_ssize_t _append_old_field(
    bytearray message, const unsigned char[::1] buffer, object view, Py_ssize_t position,
    Py_ssize_t end) except -2

@cython.locals(byte=cython.ulonglong, value=cython.ulonglong, shift=int)
cdef inline (long long, Py_ssize_t) _varint(
    const unsigned char[::1] buffer, Py_ssize_t position, Py_ssize_t end, int shift_last) noexcept

@cython.locals(zigzag=cython.ulonglong)
cdef int _append_varint(bytearray out, long long value) except -1

cdef int _append_int32(bytearray out, long long value) except -1

cdef int _append_int64(bytearray out, long long value) except -1

@cython.locals(value=cython.longlong)
cdef inline long long _int32(const unsigned char[::1] buffer, Py_ssize_t position) noexcept

cdef inline long long _int64(const unsigned char[::1] buffer, Py_ssize_t position) noexcept
