#include "prefetch/prefetch_task.h"

#include <exception>
#include <memory>
#include <utility>

#include "io/error.h"

namespace ffrfs {
namespace {

// Returns whether a record was not read for want of memory, threads or descriptors.
bool is_given_up(const std::exception_ptr& error) {
  if (!error) return false;
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& why) {
    return is_shortage(why);
  } catch (...) {
    return false;
  }
}

}  // namespace

bool PrefetchTask::make_plan(const Extent& extent, size_t alignment, bool check_data,
                             size_t limit_bytes) {
  plan = whole_plan(extent, check_data);
  // The memory of a direct read, with the bytes that an aligned read adds.
  memory_bytes = BufferPool::capacity_for(static_cast<size_t>(extent.size) + extent.trailer_size() +
                                          2 * alignment);
  if (memory_bytes > limit_bytes) {
    is_copied = true;
    memory_bytes = BufferPool::capacity_for(plan.size);
  }
  return memory_bytes <= limit_bytes;
}

void read_tasks(std::vector<PrefetchTask>& tasks, Fetcher& fetcher, bool check_data,
                const HandOver& hand_over) {
  std::vector<BatchItem> items;
  try {
    items.reserve(tasks.size());
    for (PrefetchTask& task : tasks) {
      task.unit = std::make_shared<Unit>(std::move(task.memory));
      task.unit->is_from_storage = true;
      if (task.is_copied) {
        task.unit->buffer = fetcher.buffers().acquire(task.plan.size);
        task.unit->bytes = task.unit->buffer.first(task.plan.size);
      }
      items.push_back({.extent = task.plan.extent,
                       .target = task.unit->buffer.first(task.is_copied ? task.plan.size : 0)});
    }
    fetcher.load(items, check_data, [&](size_t index) {
      BatchItem& item = items[index];
      PrefetchTask& task = tasks[index];
      if (is_given_up(item.error)) {
        item.error = nullptr;
        task.unit = nullptr;
      } else if (!item.error && !task.is_copied) {
        task.unit->bytes = item.target;
        task.unit->buffer = std::move(item.buffer);
        task.unit->memory.resize(task.unit->buffer.capacity());
      }
      hand_over(task, item.error);
    });
  } catch (...) {  // out of memory, threads or descriptors
    for (PrefetchTask& task : tasks) {
      if (task.is_finished) continue;
      task.unit = nullptr;
      hand_over(task, nullptr);
    }
  }
}

}  // namespace ffrfs
