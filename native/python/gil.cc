// Takes the GIL back, for all of the module: the linker puts these functions in the place of Python's
// (--wrap in CMakeLists.txt), also where pybind11 calls them.
//
// When Python ends, it lets no other thread have the GIL again: before 3.14 it calls pthread_exit()
// there, which would unwind frames that own Python objects, and abort at the first one that is
// noexcept, as a destructor of pybind11 is. Such a thread stays here until the process has ended.

#include <Python.h>
#include <unistd.h>

extern "C" {
void __real_PyEval_RestoreThread(PyThreadState* state);
void __real_PyEval_AcquireThread(PyThreadState* state);

void __wrap_PyEval_RestoreThread(PyThreadState* state) {
  try {
    __real_PyEval_RestoreThread(state);
  } catch (...) {
    while (true) pause();
  }
}

void __wrap_PyEval_AcquireThread(PyThreadState* state) {
  try {
    __real_PyEval_AcquireThread(state);
  } catch (...) {
    while (true) pause();
  }
}
}
