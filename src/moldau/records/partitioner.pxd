# The C types of partitioner.py.
import cython

@cython.locals(
    size=Py_ssize_t, position=Py_ssize_t, rest=Py_ssize_t, h=cython.ulonglong, k=cython.ulonglong)
cpdef unsigned long long murmur2(const unsigned char[::1] key) except? 0
