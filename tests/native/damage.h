// Random damage to bytes, and how many damaged inputs a test tries.

#pragma once

#include <cstdlib>
#include <random>
#include <string>

#include <doctest/doctest.h>

#include "io/error.h"
#include "scratch.h"

namespace ffrfs::test {

using Random = std::mt19937_64;

// Damages the bytes as a disk, a program or an attacker might.
inline Bytes damaged(Bytes bytes, Random& random) {
  const auto place = [&] { return bytes.empty() ? 0 : random() % bytes.size(); };
  for (size_t left = 1 + random() % 4; left > 0; --left) {
    switch (random() % 5) {
      case 0:  // flip a bit
        if (!bytes.empty()) bytes[place()] ^= static_cast<char>(1U << random() % 8);
        break;
      case 1:  // change a byte
        if (!bytes.empty()) bytes[place()] = static_cast<char>(random());
        break;
      case 2:  // cut off the end
        if (random() % 4 == 0) bytes.resize(place());
        break;
      case 3:  // insert bytes: new ones, or a copy of some
        bytes.insert(place(), random() % 2 == 0 ? pattern(1 + random() % 9, 1)
                                                : bytes.substr(place(), random() % 50));
        break;
      default:  // remove bytes
        bytes.erase(place(), 1 + random() % 9);
    }
  }
  return bytes;
}

// `make fuzz` asks for more seeds than a test run has time for.
inline uint64_t seed_count() {
  const char* wanted = std::getenv("FFRFS_FUZZ_SEEDS");
  return wanted == nullptr ? 10'000 : std::strtoull(wanted, nullptr, 10);
}

// Callbacks for TreeWalk: a broken requirement fails the test; errors of the damaged file are
// counted, and must name the file.
inline void required(bool holds, const char* what) {
  INFO(what);
  REQUIRE(holds);
}
inline auto faults_counted(const char* name, size_t& faults) {
  return [name, &faults](const auto& ask) {
    try {
      ask();
      return true;
    } catch (const FormatError& error) {
      REQUIRE(std::string(error.what()).find(name) != std::string::npos);
    }
    ++faults;
    return false;
  };
}

}  // namespace ffrfs::test
