#include "worker/far_requests.h"

#include <optional>

namespace ffrfs {

// Throws only if the job will not continue.
void FarRequests::bring(const FarAway& far, const JobPtr& job, size_t attempts) {
  if (far.is_damaged()) return submit(job, kAttemptsMax, nullptr);
  far.bring(
      [this, job, attempts](const std::exception_ptr& error) { submit(job, attempts, error); });
}

void FarRequests::submit(const JobPtr& job, size_t attempts,
                         const std::exception_ptr& error) noexcept {
  try {
    threads_.submit([this, job, attempts, error] { go_on(job, attempts, error); });
  } catch (...) {  // out of memory, or of threads
    job->failed(job->reply, std::current_exception());
  }
}

void FarRequests::go_on(const JobPtr& job, size_t attempts,
                        const std::exception_ptr& error) noexcept {
  try {
    if (error) std::rethrow_exception(error);
    std::optional<NearOnly> here;
    if (attempts < kAttemptsMax) here.emplace();
    job->attempt(job->reply);
  } catch (const FarAway& far) {
    try {
      bring(far, job, attempts + 1);
    } catch (...) {
      job->failed(job->reply, std::current_exception());
    }
  } catch (...) {
    job->failed(job->reply, std::current_exception());
  }
}

}  // namespace ffrfs
