// What a writer's session is like, and how far the writer is, as objects of Python's.
#pragma once

#include <nanobind/nanobind.h>

#include "croupier/writer.h"

namespace croupier::python {

struct WriterInfo : croupier_writer_info {
    WriterInfo() : croupier_writer_info() { croupier_writer_info_init(this); }
};

struct WriterState : croupier_writer_state {
    WriterState() : croupier_writer_state() { croupier_writer_state_init(this); }
};

void bind_writer_info(nanobind::module_& module);

}  // namespace croupier::python
