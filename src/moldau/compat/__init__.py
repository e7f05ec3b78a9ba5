"""Classes of other libraries, on Moldau's: one module for each library that is stood in for."""
