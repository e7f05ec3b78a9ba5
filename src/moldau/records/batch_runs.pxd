# The C types of batch_runs.py. What it calls for each batch are Python functions of a compiled module.
import cython

@cython.locals(
    parts=list, records=cython.longlong, size_bytes=Py_ssize_t, position=Py_ssize_t,
    size=Py_ssize_t, end=Py_ssize_t, start=Py_ssize_t, attributes=int, batch=tuple)
cpdef tuple open_batches(
    object view, list batches, long long count, Py_ssize_t size_max, bint check_crcs)

@cython.locals(
    rows=cython.longlong, key_bytes=cython.longlong, value_bytes=cython.longlong,
    headers=cython.longlong, header_key_bytes=cython.longlong,
    header_value_bytes=cython.longlong, base_offset=cython.longlong, part=tuple, measure=tuple)
cpdef tuple measure_run(object buffer, object parts, long long offset_first)

@cython.locals(base_offset=cython.longlong, stamp=cython.longlong, known=Py_ssize_t)
cpdef object add_run(object columns, object buffer, object parts, long long offset_first)
