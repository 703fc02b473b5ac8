#include "prefetch/hint_orders.h"

#include <array>
#include <cstring>

namespace ffrfs {

HintOrder::HintOrder() : context_(EVP_MD_CTX_new()) {
  if (context_ && EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr) != 1) context_.reset();
}

void HintOrder::add(std::string_view text) {
  constexpr char kEnd = '\0';
  ++count_;
  if (!context_) return;
  if (EVP_DigestUpdate(context_.get(), text.data(), text.size()) != 1 ||
      EVP_DigestUpdate(context_.get(), &kEnd, 1) != 1) {
    context_.reset();
  }
}

void HintOrders::keep(HintOrder& order, bool is_complete) {
  if (order.count_ == 0) return;
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  if (!order.context_ || EVP_DigestFinal_ex(order.context_.get(), digest.data(), nullptr) != 1) {
    return;
  }
  constexpr size_t kDigestWords = kWords - 2;
  std::array<uint64_t, kDigestWords> words{};
  std::memcpy(words.data(), digest.data(), sizeof words);
  const uint64_t number = row_[0].load(std::memory_order_relaxed);
  const auto place = row_.subspan(1 + static_cast<size_t>(number % kKept) * kWords, kWords);
  place[0].store(order.count_, std::memory_order_relaxed);
  place[1].store(is_complete ? 1 : 0, std::memory_order_relaxed);
  for (size_t i = 0; i < kDigestWords; ++i) {
    place[2 + i].store(words[i], std::memory_order_relaxed);
  }
  row_[0].store(number + 1, std::memory_order_release);
  order.context_.reset();
}

}  // namespace ffrfs
