// A method that calls a function between two functions of opscope, without a trace in recordings. It is no
// Python function, so the inner function's caller is the program's function; and it is no C function that
// profile functions see.
#include <nanobind/nanobind.h>

#include <utility>

#include "interpreter/without_gil.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace opscope {

namespace {

class AroundCall {
 public:
  AroundCall(nb::object before, nb::object function, nb::object after)
      : before_(std::move(before)), function_(std::move(function)), after_(std::move(after)) {}

  nb::object call(const nb::args& args, const nb::kwargs& kwargs) {
    PyObject* begun = staying_if_ended([&] { return PyObject_CallNoArgs(before_.ptr()); });
    if (begun == nullptr) throw nb::python_error();
    Py_DECREF(begun);
    PyObject* result =
        staying_if_ended([&] { return PyObject_Call(function_.ptr(), args.ptr(), kwargs.ptr()); });
    PyObject *kind = nullptr, *value = nullptr, *traceback = nullptr;
    PyErr_Fetch(&kind, &value, &traceback);
    const nb::object first = args.size() > 0 ? nb::object(args[0]) : nb::none();
    const nb::object after_result = nb::steal(staying_if_ended([&] {
      return PyObject_CallFunctionObjArgs(after_.ptr(), first.ptr(), result != nullptr ? Py_True : Py_False,
                                          nullptr);
    }));
    const nb::object returned = nb::steal(result);
    if (kind != nullptr) PyErr_Restore(kind, value, traceback);  // the program's error takes precedence
    if (PyErr_Occurred() != nullptr) throw nb::python_error();
    return returned;
  }

 private:
  nb::object before_;
  nb::object function_;
  nb::object after_;
};

// Binds like a Python function: a method of the instance on which it is looked up.
nb::object bound(const nb::object& self, const nb::object& instance) {
  if (instance.is_none()) return self;
  PyObject* method = PyMethod_New(self.ptr(), instance.ptr());
  if (method == nullptr) throw nb::python_error();
  return nb::steal(method);
}

}  // namespace

void bind_around_call(nb::module_& module) {
  nb::class_<AroundCall>(module, "AroundCall", nb::dynamic_attr())
      .def(nb::init<nb::object, nb::object, nb::object>(), "before"_a, "function"_a, "after"_a)
      .def("__call__", &AroundCall::call)
      .def(
          "__get__",
          [](const nb::object& self, const nb::object& instance, const nb::object&) {
            return bound(self, instance);
          },
          "instance"_a.none(), "owner"_a.none() = nb::none());
}

}  // namespace opscope
