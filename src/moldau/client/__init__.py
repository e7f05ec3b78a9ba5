"""The client library's own parts. What users import is in `moldau`, `moldau.aio`, `moldau.admin`,
`moldau.serialization` and `moldau.errors`; names below here may change without notice.
"""
