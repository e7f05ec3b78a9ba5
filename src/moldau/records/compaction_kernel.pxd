# The C types of compaction_kernel.py; see batch_kernel.pxd on `inline` and on bounds.
import cython
from libc.string cimport memcpy

cdef extern from *:
    """
    #include <stdint.h>
    #include <string.h>

    /* MD5 (RFC 1321): the sines, and how far each of a round's four steps turns. */
    static const uint32_t moldau_md5_sines[64] = {
        0xd76aa478, 0xe8c7b756, 0x242070db, 0xc1bdceee, 0xf57c0faf, 0x4787c62a, 0xa8304613, 0xfd469501,
        0x698098d8, 0x8b44f7af, 0xffff5bb1, 0x895cd7be, 0x6b901122, 0xfd987193, 0xa679438e, 0x49b40821,
        0xf61e2562, 0xc040b340, 0x265e5a51, 0xe9b6c7aa, 0xd62f105d, 0x02441453, 0xd8a1e681, 0xe7d3fbc8,
        0x21e1cde6, 0xc33707d6, 0xf4d50d87, 0x455a14ed, 0xa9e3e905, 0xfcefa3f8, 0x676f02d9, 0x8d2a4c8a,
        0xfffa3942, 0x8771f681, 0x6d9d6122, 0xfde5380c, 0xa4beea44, 0x4bdecfa9, 0xf6bb4b60, 0xbebfbc70,
        0x289b7ec6, 0xeaa127fa, 0xd4ef3085, 0x04881d05, 0xd9d4d039, 0xe6db99e5, 0x1fa27cf8, 0xc4ac5665,
        0xf4292244, 0x432aff97, 0xab9423a7, 0xfc93a039, 0x655b59c3, 0x8f0ccc92, 0xffeff47d, 0x85845dd1,
        0x6fa87e4f, 0xfe2ce6e0, 0xa3014314, 0x4e0811a1, 0xf7537e82, 0xbd3af235, 0x2ad7d2bb, 0xeb86d391,
    };
    static const unsigned char moldau_md5_turns[16] = {
        7, 12, 17, 22, 5, 9, 14, 20, 4, 11, 16, 23, 6, 10, 15, 21,
    };

    static inline uint32_t moldau_little(const unsigned char *at) {
        return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16
            | (uint32_t)at[3] << 24;
    }

    static void moldau_md5_block(uint32_t *state, const unsigned char *block) {
        uint32_t a = state[0], b = state[1], c = state[2], d = state[3];
        uint32_t words[16];
        for (int i = 0; i < 16; i++) words[i] = moldau_little(block + 4 * i);
        #if defined(__GNUC__)
        #pragma GCC unroll 64
        #endif
        for (int i = 0; i < 64; i++) {
            uint32_t mixed;
            int word;
            if (i < 16) { mixed = d ^ (b & (c ^ d)); word = i; }
            else if (i < 32) { mixed = c ^ (d & (b ^ c)); word = (5 * i + 1) & 15; }
            else if (i < 48) { mixed = b ^ c ^ d; word = (3 * i + 5) & 15; }
            else { mixed = c ^ (b | ~d); word = (7 * i) & 15; }
            uint32_t sum = a + mixed + moldau_md5_sines[i] + words[word];
            int turn = moldau_md5_turns[(i >> 4) * 4 + (i & 3)];
            a = d; d = c; c = b;
            b += sum << turn | sum >> (32 - turn);
        }
        state[0] += a; state[1] += b; state[2] += c; state[3] += d;
    }

    /* The digest of `size` bytes as two numbers, low byte first. */
    static void moldau_md5(const unsigned char *data, size_t size, unsigned long long *halves) {
        uint32_t state[4] = {0x67452301u, 0xefcdab89u, 0x98badcfeu, 0x10325476u};
        unsigned char last[128];
        uint64_t bits = (uint64_t)size << 3;
        size_t rest = size;
        while (rest >= 64) { moldau_md5_block(state, data); data += 64; rest -= 64; }
        size_t whole = rest < 56 ? 64 : 128;
        memset(last, 0, whole);
        if (rest) memcpy(last, data, rest);
        last[rest] = 0x80;
        for (int i = 0; i < 8; i++) last[whole - 8 + i] = (unsigned char)(bits >> (8 * i));
        moldau_md5_block(state, last);
        if (whole == 128) moldau_md5_block(state, last + 64);
        halves[0] = (uint64_t)state[0] | (uint64_t)state[1] << 32;
        halves[1] = (uint64_t)state[2] | (uint64_t)state[3] << 32;
    }
    """
    void moldau_md5(
        const unsigned char *data, size_t size, unsigned long long *halves) noexcept nogil

cdef inline (unsigned long long, unsigned long long) _digest(
        const unsigned char[::1] buffer, Py_ssize_t start, Py_ssize_t size) noexcept nogil:
    cdef unsigned long long[2] halves
    cdef unsigned char nothing = 0
    if size > 0:
        moldau_md5(&buffer[start], size, halves)
    else:
        moldau_md5(&nothing, 0, halves)
    return halves[0], halves[1]

cdef inline void _copy(
        unsigned char[::1] out, Py_ssize_t at, const unsigned char[::1] buffer,
        Py_ssize_t start, Py_ssize_t size) noexcept nogil:
    if size > 0:
        memcpy(&out[at], &buffer[start], size)

@cython.locals(byte=cython.ulonglong, value=cython.ulonglong, shift=int)
cdef inline (long long, Py_ssize_t) _varint(
    const unsigned char[::1] buffer, Py_ssize_t position, Py_ssize_t end,
    int shift_last) noexcept nogil

@cython.locals(zigzag=cython.ulonglong)
cdef inline Py_ssize_t _put_varint(
    unsigned char[::1] out, Py_ssize_t at, long long value) noexcept nogil

@cython.locals(length=Py_ssize_t, slot=Py_ssize_t)
cdef inline Py_ssize_t _find(
    unsigned long long[::1] table, unsigned long long high, unsigned long long low) noexcept nogil

@cython.locals(
    added=cython.longlong, index=cython.longlong, size=cython.longlong, record_end=Py_ssize_t,
    _=cython.longlong, delta=cython.longlong, high=cython.ulonglong, low=cython.ulonglong,
    slot=Py_ssize_t)
cdef (long long, long long) _note(
    unsigned long long[::1] table, const unsigned char[::1] buffer, Py_ssize_t position,
    Py_ssize_t end, long long count, long long base_offset, long long offset_start,
    long long room) noexcept nogil

@cython.locals(
    kept=cython.longlong, tombstones=cython.longlong, delta_first=cython.longlong,
    delta_max=cython.longlong, index=Py_ssize_t, count=Py_ssize_t, size=cython.longlong,
    record_end=Py_ssize_t, time_delta=cython.longlong, delta=cython.longlong,
    key_size=cython.longlong, key_start=Py_ssize_t, stays=cython.bint, high=cython.ulonglong,
    low=cython.ulonglong, slot=Py_ssize_t)
cdef (long long, long long, long long, long long, long long) _judge(
    unsigned long long[::1] table, unsigned char[::1] keep, const unsigned char[::1] buffer,
    Py_ssize_t position, Py_ssize_t end, long long base_offset, long long offset_latest,
    bint tombstones_stay) noexcept nogil

@cython.locals(
    index=Py_ssize_t, count=Py_ssize_t, size=cython.longlong, record_end=Py_ssize_t,
    delta=cython.longlong, rest=Py_ssize_t, time_at=Py_ssize_t, time_bytes=Py_ssize_t)
cdef Py_ssize_t _copy_records(
    unsigned char[::1] out, Py_ssize_t at, unsigned char[::1] keep,
    const unsigned char[::1] buffer, Py_ssize_t position, Py_ssize_t end, long long shift,
    bint fixed) noexcept nogil

cdef inline tuple _note_unlocked(
        unsigned long long[::1] table, const unsigned char[::1] buffer, tuple span,
        long long count, tuple offsets, long long room):
    cdef Py_ssize_t position = span[0]
    cdef Py_ssize_t end = span[1]
    cdef long long base_offset = offsets[0]
    cdef long long offset_start = offsets[1]
    cdef (long long, long long) answer
    with nogil:
        answer = _note(table, buffer, position, end, count, base_offset, offset_start, room)
    return answer

cdef inline tuple _judge_unlocked(
        unsigned long long[::1] table, unsigned char[::1] keep, const unsigned char[::1] buffer,
        tuple span, tuple offsets, bint tombstones_stay):
    cdef Py_ssize_t position = span[0]
    cdef Py_ssize_t end = span[1]
    cdef long long base_offset = offsets[0]
    cdef long long offset_latest = offsets[1]
    cdef (long long, long long, long long, long long, long long) answer
    with nogil:
        answer = _judge(
            table, keep, buffer, position, end, base_offset, offset_latest, tombstones_stay)
    return answer

cdef inline Py_ssize_t _copy_unlocked(
        unsigned char[::1] out, Py_ssize_t at, unsigned char[::1] keep,
        const unsigned char[::1] buffer, tuple span, tuple times) except -2:
    cdef Py_ssize_t position = span[0]
    cdef Py_ssize_t end = span[1]
    cdef long long shift = times[0]
    cdef bint fixed = times[1]
    with nogil:
        at = _copy_records(out, at, keep, buffer, position, end, shift, fixed)
    return at
